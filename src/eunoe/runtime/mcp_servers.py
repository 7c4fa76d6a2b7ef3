"""MCP servers as people manage them: added, changed, refreshed and deleted."""

from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, structs

from eunoe.runtime.agents import detach_tool
from eunoe.runtime.mcp_sync import Synced, rename, sync
from eunoe.runtime.runtime import Runtime
from eunoe.state.errors import InvalidInput
from eunoe.state.ids import new_id
from eunoe.state.mcp import McpKind, McpSecrets, McpServer
from eunoe.store import mcp_servers, tools
from eunoe.store.database import Transaction
from eunoe.tools.mcp.target import check_server, target_of

KEEP: Final = ""
"""What stands for a secret where servers are shown. Given back, it means: as it is."""


class ServerChanges(Struct, frozen=True, kw_only=True):
    """A change of a server: fields that are left out stay. ``None`` takes away what may be absent.

    ``headers`` and ``env`` replace the whole set; a value ``KEEP`` is the value that is stored under that name.
    """

    name: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    auth_header: str | None | UnsetType = UNSET
    token: str | None | UnsetType = UNSET
    headers: dict[str, str] | None | UnsetType = UNSET
    command: str | UnsetType = UNSET
    args: tuple[str, ...] | UnsetType = UNSET
    env: dict[str, str] | None | UnsetType = UNSET


def new_server(kind: McpKind, changes: ServerChanges, now: datetime) -> tuple[McpServer, McpSecrets]:
    """Return a server that is not stored yet. Raises ``InvalidInput``."""
    bare = McpServer(id=new_id("mcp_server"), name="", kind=kind, created_at=now, updated_at=now)
    return _changed(bare, McpSecrets(), changes, now)


async def add_server(runtime: Runtime, server: McpServer, secrets: McpSecrets, now: datetime) -> Synced:
    """Ask a new server for its tools, and store it with them; nothing is stored when it cannot be asked.

    Raises ``Conflict`` for a name that is taken, ``McpError``, and ``InvalidInput`` without the library.
    """
    await runtime.db.read(lambda tx: mcp_servers.require_free(tx, server))
    offer = await runtime.mcp.sessions.tools(target_of(server, secrets))

    def write(tx: Transaction) -> Synced:
        mcp_servers.insert(tx, server, secrets, runtime.cipher)
        return sync(tx, server, offer, now)

    try:
        return await runtime.db.write(write)
    except BaseException:
        runtime.mcp.sessions.forget(server.id)
        raise


async def change_server(runtime: Runtime, server_id: str, changes: ServerChanges, now: datetime) -> McpServer:
    """Change the named fields of a server; its tools stay as they are until a refresh.

    Raises ``NotFound``, ``Conflict`` and ``InvalidInput``.
    """

    def write(tx: Transaction) -> McpServer:
        before = mcp_servers.get(tx, server_id)
        server, secrets = _changed(before, mcp_servers.reveal(tx, server_id, runtime.cipher), changes, now)
        mcp_servers.update(tx, server)
        mcp_servers.replace_secrets(tx, server_id, secrets, runtime.cipher)
        if server.name != before.name:
            rename(tx, server, now)
        return server

    return await runtime.db.write(write)


async def refresh_server(runtime: Runtime, server_id: str, now: datetime) -> Synced:
    """Ask a server for its tools and make those that are stored be the same. Raises as ``McpServers.tools`` does."""
    offer = await runtime.mcp.tools(server_id)
    return await runtime.db.write(lambda tx: sync(tx, mcp_servers.get(tx, server_id), offer, now))


async def delete_server(runtime: Runtime, server_id: str, now: datetime) -> None:
    """Delete a server with its tools, which agents that have them lose, and end the session. Raises ``NotFound``."""

    def write(tx: Transaction) -> None:
        for tool in mcp_servers.tools_of(tx, server_id):
            for agent_id in mcp_servers.agents_with(tx, tool.id):
                detach_tool(tx, agent_id, tool.id, now=now)
            tools.delete(tx, tool.id)
        mcp_servers.delete(tx, server_id)

    await runtime.db.write(write)
    runtime.mcp.sessions.forget(server_id)


def _changed(
    server: McpServer, secrets: McpSecrets, changes: ServerChanges, now: datetime
) -> tuple[McpServer, McpSecrets]:
    fields = {name: value for name, value in structs.asdict(changes).items() if value is not UNSET}
    sets: dict[str, Any] = {}
    if "token" in fields and fields["token"] != KEEP:
        sets["token"] = fields["token"]
    for name in ("headers", "env"):
        if name in fields:
            sets[name] = _with_kept(fields[name] or {}, getattr(secrets, name), name)
    secrets = structs.replace(secrets, **sets)
    shown = {name: fields[name] for name in ("name", "url", "auth_header", "command", "args") if name in fields}
    server = structs.replace(
        server,
        **shown,
        has_token=secrets.token is not None,
        header_names=tuple(secrets.headers),
        env_names=tuple(secrets.env),
        updated_at=now,
    )
    check_server(server, secrets)
    return server, secrets


def _with_kept(given: dict[str, str], stored: dict[str, str], field: str) -> dict[str, str]:
    unknown = [name for name, value in given.items() if value == KEEP and name not in stored]
    if unknown:
        raise InvalidInput(
            f"{unknown[0]} has no value. An empty value keeps the one that is stored, and there is none.",
            field="config.custom_headers" if field == "headers" else "config.env",
        )
    return {name: stored[name] if value == KEEP else value for name, value in given.items()}
