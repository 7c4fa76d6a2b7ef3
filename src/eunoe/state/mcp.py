"""MCP servers as they are kept: how each is reached, and apart from it what must stay secret (I14)."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

McpKind = Literal["streamable_http", "sse", "stdio"]


class McpProblem(Struct, frozen=True, kw_only=True):
    """A tool that a server offers and that cannot be taken, with the reasons; ``tool`` is the name that it gave."""

    tool: str
    reasons: tuple[str, ...]


class McpServer(Struct, frozen=True, kw_only=True):
    """An MCP server. ``url`` is where one over HTTP answers; ``command`` and ``args`` start one on this machine.

    Of secrets only the names are here: whether there is a token (and the header that carries it), and which headers
    and environment variables are set. ``problems`` are the tools that the last look at its list left out, and
    ``synced_at`` is the time of that look.
    """

    id: str
    name: str
    kind: McpKind
    created_at: datetime
    updated_at: datetime
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    auth_header: str | None = None
    has_token: bool = False
    header_names: tuple[str, ...] = ()
    env_names: tuple[str, ...] = ()
    problems: tuple[McpProblem, ...] = ()
    synced_at: datetime | None = None


class McpSecrets(Struct, frozen=True, kw_only=True):
    """What a server must be shown and nobody else: never printed, and encrypted at rest."""

    token: str | None = None
    headers: dict[str, str] = {}
    env: dict[str, str] = {}

    def __repr__(self) -> str:
        """Leave the values out (I14)."""
        return "McpSecrets(...)"


class McpTool(Struct, frozen=True, kw_only=True):
    """Which tool of which server a stored tool is: ``remote_name`` is its name there, which may not be its name here.

    ``missing`` says that the server did not name it any more when it was last asked.
    """

    tool_id: str
    server_id: str
    remote_name: str
    missing: bool = False
