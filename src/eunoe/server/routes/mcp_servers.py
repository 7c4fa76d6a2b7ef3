"""MCP servers: where agents' tools may come from."""

from datetime import UTC, datetime
from typing import Any, Final

from starlette.responses import Response

from eunoe.runtime.mcp_servers import add_server, change_server, delete_server, new_server, refresh_server
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire import mcp as wire
from eunoe.server.wire.mcp import McpConfigBody, McpRefreshQuery, McpRunBody, McpServerBody, McpServerPatch
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import Nothing
from eunoe.server.wire.tools import tool
from eunoe.state.errors import NotFound
from eunoe.state.tools import Tool
from eunoe.store import mcp_servers
from eunoe.store.database import Transaction


def _shown(tx: Transaction, server_id: str) -> dict[str, Any]:
    return wire.server(mcp_servers.get(tx, server_id))


async def create(call: Call[NoQuery, McpServerBody]) -> object:
    """Ask a server for its tools and store it with them."""
    now = datetime.now(UTC)
    kind = wire.kind_of(call.body.config)
    server, secrets = new_server(kind, wire.changes(call.body.server_name, call.body.config, kind), now)
    await add_server(call.runtime, server, secrets, now)
    return await call.runtime.db.read(lambda tx: _shown(tx, server.id))


async def list_servers(call: Call[NoQuery, Nothing]) -> object:
    """Return all servers."""
    return [wire.server(server) for server in await call.runtime.db.read(mcp_servers.everyone)]


async def retrieve(call: Call[NoQuery, Nothing]) -> object:
    """Return one server."""
    return await call.runtime.db.read(lambda tx: _shown(tx, call.path["mcp_server_id"]))


async def modify(call: Call[NoQuery, McpServerPatch]) -> object:
    """Change the named fields of a server."""
    server_id, body = call.path["mcp_server_id"], call.body
    stored = await call.runtime.db.read(lambda tx: mcp_servers.get(tx, server_id))
    wanted = wire.changes(body.server_name, body.config or McpConfigBody(), stored.kind)
    return wire.server(await change_server(call.runtime, server_id, wanted, datetime.now(UTC)))


async def delete(call: Call[NoQuery, Nothing]) -> object:
    """Delete a server and its tools."""
    await delete_server(call.runtime, call.path["mcp_server_id"], datetime.now(UTC))
    return Response(status_code=204)


async def refresh(call: Call[McpRefreshQuery, Nothing]) -> object:
    """Ask a server for its tools again."""
    return wire.refreshed(await refresh_server(call.runtime, call.path["mcp_server_id"], datetime.now(UTC)))


async def list_tools(call: Call[NoQuery, Nothing]) -> object:
    """Return the stored tools of a server."""
    found = await call.runtime.db.read(lambda tx: mcp_servers.tools_of(tx, call.path["mcp_server_id"]))
    return [tool(one) for one in found]


async def _tool(call: Call[Any, Any]) -> Tool:
    server_id, tool_id = call.path["mcp_server_id"], call.path["tool_id"]
    found = await call.runtime.db.read(lambda tx: mcp_servers.tools_of(tx, server_id))
    for one in found:
        if one.id == tool_id:
            return one
    raise NotFound("Tool", tool_id, f"MCP server {server_id} has no tool {tool_id}.")


async def retrieve_tool(call: Call[NoQuery, Nothing]) -> object:
    """Return one tool of a server."""
    return tool(await _tool(call))


async def run_tool(call: Call[NoQuery, McpRunBody]) -> object:
    """Call a tool of a server, for no agent."""
    return wire.execution(await call.runtime.mcp.call(await _tool(call), call.body.args))


_ALL: Final = "/v1/mcp-servers"
_ONE: Final = f"{_ALL}/{{mcp_server_id}}"
_TOOL: Final = f"{_ONE}/tools/{{tool_id}}"

ROUTES: Final[tuple[Route, ...]] = (
    route("GET", _ALL, "List MCP servers", list_servers, query=NoQuery, body=Nothing, answer="Servers, oldest first."),
    route("POST", _ALL, "Add an MCP server", create, query=NoQuery, body=McpServerBody, answer="The server."),
    route("GET", _ONE, "Read an MCP server", retrieve, query=NoQuery, body=Nothing, answer="The server."),
    route("PATCH", _ONE, "Change an MCP server", modify, query=NoQuery, body=McpServerPatch, answer="The server."),
    route("DELETE", _ONE, "Delete an MCP server and its tools", delete, query=NoQuery, body=Nothing, answer="Nothing."),
    route(
        "PATCH",
        f"{_ONE}/refresh",
        "Ask an MCP server for its tools again",
        refresh,
        query=McpRefreshQuery,
        body=Nothing,
        answer="Names of tools that were added, updated, deleted, are missing, or cannot be taken.",
    ),
    route(
        "GET", f"{_ONE}/tools", "List an MCP server's tools", list_tools, query=NoQuery, body=Nothing, answer="Tools."
    ),
    route("GET", _TOOL, "Read an MCP server's tool", retrieve_tool, query=NoQuery, body=Nothing, answer="The tool."),
    route(
        "POST",
        f"{_TOOL}/run",
        "Call an MCP server's tool",
        run_tool,
        query=NoQuery,
        body=McpRunBody,
        answer="Status and result; a tool that fails is a result.",
    ),
)
