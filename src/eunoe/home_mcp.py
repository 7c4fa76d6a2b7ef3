"""The MCP servers of a store, for the Python door."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from eunoe.runtime.mcp_servers import (
    ServerChanges,
    add_server,
    change_server,
    delete_server,
    new_server,
    refresh_server,
)
from eunoe.runtime.mcp_sync import Synced
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.errors import InvalidInput
from eunoe.state.mcp import McpKind, McpServer
from eunoe.state.tools import Tool
from eunoe.store import mcp_servers


class HomeMcp:
    """MCP servers of an open store. A server is named by its name or its id."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def add(
        self,
        name: str,
        *,
        url: str | None = None,
        kind: McpKind | None = None,
        token: str | None = None,
        auth_header: str | None = None,
        headers: Mapping[str, str] | None = None,
        command: str | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> McpServer:
        """Ask a server for its tools and store it with them. A ``url`` means streamable HTTP unless ``kind`` is sse.

        A ``command`` is a program (only where ``EUNOE_MCP_STDIO`` is 1). Raises ``InvalidInput``, ``Conflict`` for a
        name that is taken, and ``McpError`` for a server that cannot be asked; then nothing is stored.
        """
        if (url is None) == (command is None):
            raise InvalidInput("An MCP server has either a url or a command.")
        wanted = ServerChanges(
            name=name,
            url=UNSET if url is None else url,
            auth_header=auth_header,
            token=token,
            headers=dict(headers or {}),
            command=UNSET if command is None else command,
            args=tuple(args),
            env=dict(env or {}),
        )
        now = utc_now()
        server, secrets = new_server(kind or ("stdio" if url is None else "streamable_http"), wanted, now)
        await add_server(self._runtime, server, secrets, now)
        return await self._find(server.id)

    async def list(self) -> list[McpServer]:
        """Return all servers, oldest first; of secrets the names only."""
        return await self._runtime.db.read(mcp_servers.everyone)

    async def tools(self, server: str) -> "list[Tool]":
        """Return the stored tools of a server. Raises ``NotFound``."""
        found = await self._find(server)
        return await self._runtime.db.read(lambda tx: mcp_servers.tools_of(tx, found.id))

    async def change(self, server: str, **changes: Any) -> McpServer:
        """Change the named fields, which are those of ``ServerChanges``; its tools stay as they are until a refresh.

        Raises ``NotFound``, ``Conflict`` and ``InvalidInput``.
        """
        found = await self._find(server)
        return await change_server(self._runtime, found.id, ServerChanges(**changes), utc_now())

    async def refresh(self, server: str) -> Synced:
        """Ask a server for its tools again, and take none from an agent. Raises ``NotFound`` and ``McpError``."""
        found = await self._find(server)
        return await refresh_server(self._runtime, found.id, utc_now())

    async def remove(self, server: str) -> None:
        """Delete a server with its tools, which agents that have them lose. Raises ``NotFound``."""
        found = await self._find(server)
        await delete_server(self._runtime, found.id, utc_now())

    async def _find(self, server: str) -> McpServer:
        return await self._runtime.db.read(lambda tx: mcp_servers.find(tx, server))
