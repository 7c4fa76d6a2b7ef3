"""Running the calls of a message that have effects; memory edits wait for the checkpoint."""

import logging
from collections.abc import Container
from datetime import datetime
from typing import Final

import anyio

from eunoe.runtime.calls import parse_arguments
from eunoe.runtime.file_reading import FileReader
from eunoe.runtime.mcp_calls import McpServers
from eunoe.runtime.mcp_sync import MCP_TYPE
from eunoe.runtime.memory_calls import error_result
from eunoe.runtime.read_messages import read_page
from eunoe.runtime.turn import Turn
from eunoe.state.errors import EunoeError
from eunoe.state.messages import Message, ToolCallPart
from eunoe.state.tools import Tool
from eunoe.store import full_text, messages
from eunoe.store.database import Database, Transaction
from eunoe.tools.builtin import BUILTINS
from eunoe.tools.protocol import ToolResult
from eunoe.tools.reading import parse_reading
from eunoe.tools.search import SEARCH_SCHEMA, SearchArguments, parse_search, tell_found

_log: Final = logging.getLogger(__name__)


def _own_search(message: Message) -> bool:
    """Say whether a message only shows an earlier search, which would find itself for ever."""
    parts = (*message.tool_calls, *message.tool_returns)
    return bool(parts) and all(part.name == SEARCH_SCHEMA.name for part in parts)


async def search(database: Database, turn: Turn, arguments: SearchArguments) -> list[Message]:
    """Find messages of the agent, newest first, without those of earlier searches."""

    def look(tx: Transaction) -> list[Message]:
        fetch = arguments.limit
        while True:
            fetch *= 2
            found = messages.search(
                tx,
                turn.state.agent.id,
                query=arguments.query,
                roles=arguments.roles,
                limit=fetch,
                start=arguments.start,
                end=arguments.end,
            )
            kept = [message for message in found if not _own_search(message)]
            if len(kept) >= arguments.limit or len(found) < fetch:
                return kept[: arguments.limit]

    while await database.write(full_text.catch_up):
        pass
    return await database.read(look)


async def run_call(
    database: Database, files: FileReader, mcp: McpServers, turn: Turn, call: ToolCallPart, now: datetime
) -> ToolResult:
    """Run one call with effects. A failing tool is a result with status error, never an exception."""
    remote = _remote(turn, call)
    try:
        arguments = parse_arguments(call)
        if remote is not None:
            return await mcp.call(remote, arguments)
        builtin = BUILTINS[call.name]
        if builtin.kind == "files":
            return ToolResult(content=await files.run(turn, call.name, arguments))
        reading = parse_reading(arguments) if builtin.kind == "search" else None
        if reading is not None:
            return ToolResult(content=await read_page(database, turn.state.agent.id, reading))
        if builtin.kind == "search":
            found = await search(database, turn, parse_search(arguments, turn.state.agent.timezone))
            return ToolResult(content=tell_found(found, turn.state.agent.timezone, now))
        return ToolResult(content="Sent message successfully." if builtin.kind == "speak" else "None")
    except EunoeError as error:
        return error_result(call.name, error)
    except Exception as error:  # noqa: BLE001 - the boundary of tool code: its failure is the tool's result
        _log.exception("tool %s failed", call.name)
        return ToolResult(content=f"{call.name} failed: {type(error).__name__}", status="error")


def _remote(turn: Turn, call: ToolCallPart) -> Tool | None:
    """Return the tool of a call that an MCP server runs."""
    return next((tool for tool in turn.state.tools if tool.name == call.name and tool.tool_type == MCP_TYPE), None)


def refuse_call(turn: Turn, call: ToolCallPart) -> ToolResult | None:
    """Return the error of a call that cannot run at all, or ``None``."""
    names = [tool.name for tool in turn.state.tools]
    if call.name not in names:
        available = ", ".join(names) or "none"
        return ToolResult(
            content=f"There is no tool {call.name!r}. Available tools: {available}.", status="error", refused=True
        )
    if call.name not in BUILTINS and _remote(turn, call) is None:
        return ToolResult(
            content=f"{call.name} cannot run: this server has no sandbox for tools.", status="error", refused=True
        )
    return None


async def act(
    database: Database,
    files: FileReader,
    mcp: McpServers,
    turn: Turn,
    asked: Message,
    settled: Container[str],
    now: datetime,
) -> dict[str, ToolResult]:
    """Run the calls that have effects, in parallel, and return their results by call id.

    Calls that are settled already are left out, and those of memory tools: the checkpoint makes those edits.
    """
    results: dict[str, ToolResult] = {}

    async def run(call: ToolCallPart) -> None:
        results[call.id] = await run_call(database, files, mcp, turn, call, now)

    async with anyio.create_task_group() as group:
        for call in asked.tool_calls:
            if call.id in settled:
                continue
            refused = refuse_call(turn, call)
            if refused:
                results[call.id] = refused
            elif _remote(turn, call) or BUILTINS[call.name].kind != "memory":
                group.start_soon(run, call)
    return results
