"""The sessions that are kept with MCP servers: one for each server, for as long as it is used.

The library is imported here, when the first server is asked, and in a thread: it takes most of a second.
"""

import importlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

from eunoe.state.errors import InvalidInput, McpError
from eunoe.tools.mcp.limits import McpLimits
from eunoe.tools.mcp.offer import ToolList
from eunoe.tools.mcp.target import Target
from eunoe.tools.protocol import ToolResult

if TYPE_CHECKING:
    from eunoe.tools.mcp.connection import Connection

T = TypeVar("T")

MOST_KEPT: Final = 32
"""Sessions that are kept open at a time; beyond it, the one that was not used for longest is closed."""

_FORGOTTEN: Final = 404
"""The status with which a server answers a session that it does not know any more; the request was not taken."""

_PERHAPS_FORGOTTEN: Final = 400
"""Some servers answer so instead, and others when they dislike a request: it is not sent again."""

Spawn = Callable[[Callable[[], Coroutine[Any, Any, object]]], object]
"""Runs something beside, for as long as the store is open."""


class McpSessions:
    """Asks MCP servers, over sessions that it opens and keeps."""

    def __init__(self, limits: McpLimits, spawn: Spawn) -> None:
        self.limits: Final = limits
        self._spawn = spawn
        self._kept: dict[str, Connection] = {}
        self._library: ModuleType | None = None

    async def tools(self, target: Target) -> ToolList:
        """Return what a server offers. Raises ``McpError``, and ``InvalidInput`` without the extra ``mcp``."""
        return await self._ask(target, lambda connection: connection.tools(self.limits.list))

    async def call(self, target: Target, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool of a server by its name there. Raises as ``tools`` does; a tool that fails is a result."""
        return await self._ask(target, lambda connection: connection.call(name, arguments, self.limits.call))

    def forget(self, server_id: str) -> None:
        """End the session with a server, if there is one."""
        kept = self._kept.pop(server_id, None)
        if kept is not None:
            kept.close()

    def opened(self) -> list[str]:
        """Return the ids of the servers with which there is a session."""
        return [server_id for server_id, kept in self._kept.items() if kept.usable]

    async def _ask(self, target: Target, ask: Callable[["Connection"], Awaitable[T]]) -> T:
        self._check(target)
        library = await self._imported()
        connection = self._connection(target, library)
        known = connection.answered
        try:
            return await ask(connection)
        except McpError as error:
            if not known or error.status not in (_FORGOTTEN, _PERHAPS_FORGOTTEN):
                raise
            connection.retire()
            if error.status != _FORGOTTEN:
                raise
        return await ask(self._connection(target, library))

    def _check(self, target: Target) -> None:
        if target.kind == "stdio" and not self.limits.programs:
            raise McpError(
                "forbidden",
                f"MCP server {target.name!r} is a program, and this Eunoe starts no programs for MCP. Set "
                "EUNOE_MCP_STDIO=1 where it runs, if everyone who can reach it may start programs on that machine.",
                server=target.name,
            )

    async def _imported(self) -> ModuleType:
        if self._library is None:
            try:
                self._library = await anyio.to_thread.run_sync(
                    importlib.import_module, "eunoe.tools.mcp.connection", abandon_on_cancel=True
                )
            except ModuleNotFoundError as error:
                raise InvalidInput(
                    "MCP servers need a library that is not installed. Install it with: pip install 'eunoe[mcp]'"
                ) from error
        return self._library

    def _connection(self, target: Target, library: ModuleType) -> "Connection":
        self._kept = {server_id: kept for server_id, kept in self._kept.items() if kept.usable}
        kept = self._kept.get(target.server_id)
        if kept is not None and kept.target == target:
            return kept
        if kept is not None:
            kept.retire()
        unused = [server_id for server_id, kept in self._kept.items() if not kept.in_use]
        if len(self._kept) >= MOST_KEPT and unused:
            self.forget(min(unused, key=lambda server_id: self._kept[server_id].used_at))
        made: Connection = library.Connection(target, self.limits)
        self._kept[target.server_id] = made
        self._spawn(made.run)
        return made
