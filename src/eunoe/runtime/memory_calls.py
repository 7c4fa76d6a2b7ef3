"""Memory tools of a step: pure edits, made inside the checkpoint on the blocks as they are then (I2, I8)."""

from datetime import datetime

from eunoe.memory.draft import Changed, Created
from eunoe.memory.tools import MemoryEdit, edit
from eunoe.runtime.blocks import create_block, update_block
from eunoe.runtime.calls import parse_arguments
from eunoe.runtime.file_calls import edit_files
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.turn import Turn
from eunoe.state.blocks import Block
from eunoe.state.errors import EunoeError
from eunoe.state.messages import ToolCallPart
from eunoe.store import blocks, isolated
from eunoe.store.database import Transaction
from eunoe.tools.protocol import ToolResult


def error_result(name: str, error: EunoeError) -> ToolResult:
    """Return a failed call as the model reads it."""
    return ToolResult(
        content=error.message,
        status="error",
        stderr=(f"Error executing function {name}: {type(error).__name__}: {error.message}"[:1000],),
    )


def _apply_blocks(tx: Transaction, homes: MemoryHomes, turn: Turn, made: MemoryEdit, now: datetime) -> None:
    agent_id = turn.state.agent.id
    actor = f"agent:{agent_id}"
    for change in made.changes:
        if isinstance(change, Created):
            block = create_block(tx, change.spec, now=now, actor=actor, run_id=turn.run.id)
            blocks.attach(tx, agent_id, block.id)
        elif isinstance(change, Changed):
            update_block(tx, homes, change.block_id, change.changes, actor=actor, run_id=turn.run.id, now=now)
        else:
            blocks.detach(tx, agent_id, change.block_id)


def seen_blocks(tx: Transaction, turn: Turn) -> tuple[Block, ...]:
    """Return the blocks as they are now, with the conversation's own in place of the agent's."""
    shared = blocks.of_agent(tx, turn.state.agent.id)
    if turn.conversation.is_default:
        return shared
    return isolated.in_place_of(shared, isolated.of_conversation(tx, turn.conversation.id))


def _edit_blocks(tx: Transaction, homes: MemoryHomes, turn: Turn, call: ToolCallPart, now: datetime) -> MemoryEdit:
    made = edit(call.name, parse_arguments(call), seen_blocks(tx, turn))
    _apply_blocks(tx, homes, turn, made, now)
    return made


def run_memory_call(tx: Transaction, homes: MemoryHomes, turn: Turn, call: ToolCallPart, now: datetime) -> ToolResult:
    """Run one memory tool. A call that fails changes nothing and is told to the model as an error."""
    tx.execute("SAVEPOINT memory_call")
    try:
        on_files = turn.state.memory is not None or turn.request.memory_branch is not None
        made = (edit_files if on_files else _edit_blocks)(tx, homes, turn, call, now)
    except EunoeError as error:
        tx.execute("ROLLBACK TO memory_call")
        result = error_result(call.name, error)
    else:
        result = ToolResult(content=made.content)
    tx.execute("RELEASE memory_call")
    return result
