"""What is asked of a server over an open session: a version, its tools, a call. Imported with the library."""

from collections.abc import Mapping
from typing import Any, Final

import anyio
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    PaginatedRequestParams,
)
from msgspec import structs

from eunoe.state.mcp import McpProblem
from eunoe.tools.mcp.dispatch import JOB
from eunoe.tools.mcp.offer import ToolList
from eunoe.tools.mcp.results import result_of
from eunoe.tools.mcp.schemas import judge_tools
from eunoe.tools.protocol import ToolResult

_MOST_PAGES: Final = 100
_ENDLESS: Final = McpProblem(tool="(the rest)", reasons=("the pages of the server's list do not end",))


async def agree(session: ClientSession) -> None:
    """Agree on a version: by the handshake that nearly all servers know, else as servers without one want it."""
    try:
        await session.initialize()
    except MCPError as error:
        if error.code not in (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND):
            raise
        await session.discover()


async def list_tools(session: ClientSession) -> ToolList:
    """Return what the server offers, page by page; a server that knows no tools offers none."""
    job = JOB.get()
    seen = set[str | None]()
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        seen.add(cursor)
        params = PaginatedRequestParams(cursor=cursor) if cursor else None
        try:
            cursor = (await session.list_tools(params=params)).next_cursor
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND or (job and job.status):
                raise
            cursor = None
        if not cursor or cursor in seen:
            break
    # A schema takes a millisecond to check.
    found = await anyio.to_thread.run_sync(judge_tools, job.listed if job else ())
    return structs.replace(found, problems=(*found.problems, _ENDLESS)) if cursor else found


async def call_tool(session: ClientSession, name: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Call a tool by its name on the server; a tool that fails is a result."""
    params = CallToolRequestParams(name=name, arguments=dict(arguments))
    return result_of(await session.send_request(CallToolRequest(params=params), CallToolResult))
