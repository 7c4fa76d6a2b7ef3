"""What can be set, and from where."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from eunoe.state.errors import InvalidInput
from eunoe.tools.mcp.limits import McpLimits

DEFAULT_HOME: Final = "~/.eunoe"
DATABASE_NAME: Final = "eunoe.db"
MOST_SECONDS: Final = 31_536_000
PRIVATE: Final = "EUNOE_MCP_PRIVATE_ADDRESSES"


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of one opening of a store.

    ``home`` is the folder of the store. ``environment`` is where providers' addresses and keys are read from; it is
    never printed. ``busy_wait`` is how long, in seconds, a request with ``on_busy="wait"`` waits for the run before it.
    ``shutdown_wait`` is how long, in seconds, running turns may go on after the store was asked to close.
    ``client_tool_wait`` is how long calls of the client's own tools wait for their returns, ``approval_wait`` how long
    calls wait for a person (0: for ever), and ``events_kept`` how long the events of an ended background run are kept.
    ``mcp`` bounds what MCP servers may take, and says which may be asked.
    """

    home: Path
    environment: Mapping[str, str] = {}
    busy_wait: float = 120.0
    shutdown_wait: float = 5.0
    client_tool_wait: float = 3_600.0
    approval_wait: float = 0.0
    events_kept: float = 86_400.0
    mcp: McpLimits = McpLimits()

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.home / DATABASE_NAME

    @property
    def memory_folder(self) -> Path:
        """The folder of the agents' memory repositories."""
        return self.home / "memory"

    @property
    def skills_folder(self) -> Path:
        """The folder of the skills that all agents have."""
        return self.home / "skills"

    def __repr__(self) -> str:
        """Leave the environment out: it holds keys (I14)."""
        return f"Settings(home={str(self.home)!r})"


def settings_from(environment: Mapping[str, str], home: str | Path | None = None) -> Settings:
    """Read settings: ``home`` if given, else ``EUNOE_HOME``, else ``~/.eunoe``.

    Raises ``InvalidInput`` when a number does not parse, or the folder cannot be made out.
    """

    def seconds(name: str, default: float) -> float:
        text = environment.get(name)
        if text is None or text == "":
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= MOST_SECONDS:
            raise InvalidInput(
                f"{name} must be a number of seconds from 0 to {MOST_SECONDS}, not {text!r}.", field=name
            )
        return value

    def flag(name: str, *, default: bool) -> bool:
        text = environment.get(name) or str(int(default))
        if text not in ("0", "1"):
            raise InvalidInput(f"{name} must be 0 or 1, not {text!r}.", field=name)
        return text == "1"

    return Settings(
        home=_folder(home or environment.get("EUNOE_HOME") or DEFAULT_HOME),
        environment=environment,
        busy_wait=seconds("EUNOE_BUSY_WAIT", 120.0),
        shutdown_wait=seconds("EUNOE_SHUTDOWN_WAIT", 5.0),
        client_tool_wait=seconds("EUNOE_CLIENT_TOOL_WAIT", 3_600.0),
        approval_wait=seconds("EUNOE_APPROVAL_WAIT", 0.0),
        events_kept=seconds("EUNOE_EVENTS_KEPT", 86_400.0),
        mcp=McpLimits(
            connect=seconds("EUNOE_MCP_CONNECT_TIMEOUT", 30.0),
            list=seconds("EUNOE_MCP_LIST_TIMEOUT", 30.0),
            call=seconds("EUNOE_MCP_CALL_TIMEOUT", 60.0),
            idle=seconds("EUNOE_MCP_IDLE", 300.0),
            private=flag(PRIVATE, default=True),
            programs=flag("EUNOE_MCP_STDIO", default=False),
        ),
    )


def open_to_others(settings: Settings) -> Settings:
    """Return the settings of a server that others can reach: it calls private addresses only if it was told to."""
    if settings.environment.get(PRIVATE):
        return settings
    return structs.replace(settings, mcp=structs.replace(settings.mcp, private=False))


def _folder(home: str | Path) -> Path:
    try:
        return Path(home).expanduser().absolute()
    except (OSError, RuntimeError) as error:
        raise InvalidInput(
            f"The folder {str(home)!r} of the store cannot be found from here: the working folder is gone, or there "
            f"is no such user. Give its whole path.",
            field="home",
        ) from error
