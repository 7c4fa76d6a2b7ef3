"""MCP servers as Letta v1's clients name and show them.

Secrets are shown by name: an empty text stands for a value that is set. Who sends it back keeps the value, so that a
server that was read can be written.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from eunoe.runtime.mcp_servers import KEEP, ServerChanges
from eunoe.runtime.mcp_sync import Synced
from eunoe.server.wire.errors import Unprocessable
from eunoe.state.mcp import McpKind, McpProblem, McpServer
from eunoe.tools.protocol import ToolResult


class McpConfigBody(Struct, kw_only=True):
    """How a server is reached. The kind may be left out: a command means ``stdio``, an address ``streamable_http``."""

    mcp_server_type: McpKind | None = None
    server_url: str | None = None
    auth_header: str | None | UnsetType = UNSET
    auth_token: str | None | UnsetType = UNSET
    custom_headers: dict[str, str] | None | UnsetType = UNSET
    command: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None | UnsetType = UNSET


class McpServerBody(Struct, kw_only=True):
    """A new server."""

    server_name: str
    config: McpConfigBody


class McpServerPatch(Struct, kw_only=True):
    """A change of a server. What is left out stays; ``null`` takes away a token, a header or a set of values."""

    server_name: str | None = None
    config: McpConfigBody | None = None


class McpRunBody(Struct, kw_only=True):
    """Arguments of a call."""

    args: dict[str, Any] = {}


class McpRefreshQuery(Struct, kw_only=True):
    """``agent_id`` is taken and changes nothing: servers are asked alike for all agents."""

    agent_id: str | None = None


def kind_of(config: McpConfigBody) -> McpKind:
    """Return the kind of a new server, with the fields that it needs there. Raises ``Unprocessable``."""
    kind = config.mcp_server_type or ("stdio" if config.command is not None else "streamable_http")
    needed = ("command", "args") if kind == "stdio" else ("server_url",)
    missing = [name for name in needed if getattr(config, name) is None]
    if missing:
        raise Unprocessable(f"body.config.{missing[0]}: required for a server of kind {kind}")
    return kind


def changes(name: str | None, config: McpConfigBody, kind: McpKind) -> ServerChanges:
    """Return what a body says about a server of this kind. Raises ``Unprocessable`` for fields of another kind."""
    if config.mcp_server_type not in (None, kind):
        raise Unprocessable(
            f"body.config.mcp_server_type: the server is of kind {kind}, which cannot change; create another one"
        )
    stdio = kind == "stdio"
    fields: dict[str, Any] = {"command": config.command, "args": config.args, "env": config.env}
    others: dict[str, Any] = {
        "url": config.server_url,
        "auth_header": config.auth_header,
        "token": config.auth_token,
        "headers": config.custom_headers,
    }
    own, foreign = (fields, others) if stdio else (others, fields)
    strange = [field for field, value in foreign.items() if value is not None and value is not UNSET]
    if strange:
        raise Unprocessable(f"body.config: a server of kind {kind} has no {strange[0]}")
    required = ("url", "command", "args")
    given = {field: value for field, value in own.items() if not (field in required and value is None)}
    if "args" in given:
        given["args"] = tuple(given["args"])
    return ServerChanges(name=UNSET if name is None else name, **given)


def server(value: McpServer) -> dict[str, Any]:
    """Return the wire's server object. ``problems`` and ``synced_at`` are Eunoe's own."""
    own: dict[str, Any] = {"id": value.id, "server_name": value.name, "mcp_server_type": value.kind}
    if value.kind == "stdio":
        own |= {"command": value.command, "args": list(value.args), "env": _by_name(value.env_names)}
    else:
        own |= {
            "server_url": value.url,
            "auth_header": value.auth_header,
            "auth_token": KEEP if value.has_token else None,
            "custom_headers": _by_name(value.header_names),
        }
    return {**own, "problems": _problems(value.problems), "synced_at": value.synced_at}


def refreshed(value: Synced) -> dict[str, Any]:
    """Return what a refresh did. ``missing`` and ``invalid`` are Eunoe's own."""
    return {
        "added": list(value.added),
        "updated": list(value.updated),
        "deleted": list(value.deleted),
        "missing": [{"name": one.name, "agent_ids": list(one.agent_ids)} for one in value.kept],
        "invalid": _problems(value.invalid),
    }


def execution(result: ToolResult) -> dict[str, Any]:
    """Return the wire's result of a call."""
    failed = result.status == "error"
    status: Literal["success", "error"] = "error" if failed else "success"
    return {
        "status": status,
        "func_return": result.content,
        "agent_state": None,
        "stdout": [],
        "stderr": [result.content] if failed else [],
        "sandbox_config_fingerprint": None,
    }


def _by_name(names: tuple[str, ...]) -> dict[str, str] | None:
    return dict.fromkeys(names, KEEP) or None


def _problems(found: tuple[McpProblem, ...]) -> list[dict[str, Any]]:
    return [{"tool": one.tool, "reasons": list(one.reasons)} for one in found]
