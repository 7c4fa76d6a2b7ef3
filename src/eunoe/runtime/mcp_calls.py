"""Asking MCP servers that are stored: their tools, and a call of one."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from eunoe.state.errors import NotFound
from eunoe.state.tools import Tool
from eunoe.store import mcp_servers
from eunoe.store.cipher import Cipher
from eunoe.store.database import Database, Transaction
from eunoe.tools.mcp.offer import ToolList
from eunoe.tools.mcp.sessions import McpSessions
from eunoe.tools.mcp.target import Target, target_of
from eunoe.tools.protocol import ToolResult


class McpServers:
    """The stored servers as they can be asked. ``cipher`` is called inside transactions only."""

    def __init__(self, database: Database, sessions: McpSessions, cipher: Callable[[], Cipher]) -> None:
        self.sessions: Final = sessions
        self._database = database
        self._cipher = cipher

    async def tools(self, server_id: str) -> ToolList:
        """Return what a server offers now. Raises ``NotFound``, ``McpError``, and ``InvalidInput`` without a library.

        Raises ``StoreError`` when the key for secrets is another one.
        """
        return await self.sessions.tools(await self._target(server_id))

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool of a server. Raises as ``tools`` does; a tool that fails is a result."""
        facts: Mapping[str, Any] = tool.metadata.get("mcp") or {}
        try:
            target = await self._target(str(facts.get("server_id")))
        except NotFound as error:
            raise NotFound(
                "MCP server",
                str(facts.get("server_id")),
                f"{tool.name} cannot run: its MCP server {facts.get('server_name')!r} was deleted.",
            ) from error
        return await self.sessions.call(target, str(facts.get("tool_name")), arguments)

    async def _target(self, server_id: str) -> Target:
        def read(tx: Transaction) -> Target:
            server = mcp_servers.get(tx, server_id)
            return target_of(server, mcp_servers.reveal(tx, server_id, self._cipher()))

        return await self._database.read(read)
