"""The memory tools: what a model's call does to the agent's blocks, decided without touching the store (I2, I8).

A call is computed on the blocks as they are and gives edits; on a newer state of the blocks it can simply be
computed again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from eunoe.memory.arguments import Arguments
from eunoe.memory.commands import run_command
from eunoe.memory.draft import BlockEdit, Draft
from eunoe.memory.edits import append, insert, replace_all, replace_once
from eunoe.memory.guard import refuse_shown_marks
from eunoe.memory.patch import apply_patch
from eunoe.memory.schemas import TOOL_SCHEMAS
from eunoe.state.blocks import Block
from eunoe.state.errors import InvalidInput


class MemoryEdit(Struct, frozen=True, kw_only=True):
    """What a call of a memory tool comes to.

    ``content`` is what the model reads (the new value, or a sentence), ``changes`` are the edits to store in this
    order, all or none, and ``diff`` is a short unified diff of the values.
    """

    content: str
    changes: tuple[BlockEdit, ...] = ()
    diff: str = ""


def edit(name: str, arguments: Mapping[str, Any], blocks: Sequence[Block]) -> MemoryEdit:
    """Compute a call of the memory tool ``name`` on an agent's blocks, hidden ones included.

    Raises an ``EunoeError`` with a message for the model when the call cannot be done, and then nothing is: bad
    arguments or edits that do not fit (``InvalidInput``, ``BlockLimitExceeded``), a read-only block
    (``ReadOnlyBlock``), an unknown label (``NotFound``), a label that is taken (``Conflict``).
    """
    run = MEMORY_TOOLS.get(name)
    if run is None:
        raise InvalidInput(f"{name!r} is no memory tool. The memory tools are: {', '.join(MEMORY_TOOLS)}.")
    draft = Draft(blocks)
    parameters = frozenset(TOOL_SCHEMAS[name].parameters["properties"])
    content = run(Arguments(name, arguments, parameters), draft)
    return MemoryEdit(content=content, changes=draft.edits, diff=draft.diff)


def _core_memory_append(arguments: Arguments, draft: Draft) -> str:
    label, content = arguments.text("label"), arguments.text("content")
    return draft.rewrite(label, lambda value: append(value, content))


def _core_memory_replace(arguments: Arguments, draft: Draft) -> str:
    label, old, new = arguments.text("label"), arguments.text("old_content"), arguments.text("new_content")
    return draft.rewrite(label, lambda value: replace_all(value, old, new, label))


def _memory_replace(arguments: Arguments, draft: Draft) -> str:
    label, old = arguments.text("label"), arguments.text("old_string")
    new = arguments.optional_text("new_string") or ""
    refuse_shown_marks(old, "old_string")
    refuse_shown_marks(new, "new_string")
    return draft.rewrite(label, lambda value: replace_once(value, old, new, label))


def _memory_insert(arguments: Arguments, draft: Draft) -> str:
    label, new, after = arguments.text("label"), arguments.text("new_string"), arguments.line("insert_line")
    refuse_shown_marks(new, "new_string")
    return draft.rewrite(label, lambda value: insert(value, new, after))


def _memory_rethink(arguments: Arguments, draft: Draft) -> str:
    label, new = arguments.text("label"), arguments.text("new_memory")
    refuse_shown_marks(new, "new_memory")
    return draft.rewrite(label, lambda _: new)


def _memory_apply_patch(arguments: Arguments, draft: Draft) -> str:
    return apply_patch(arguments.text("patch"), arguments.optional_text("label"), draft)


def _memory_finish_edits(_arguments: Arguments, _draft: Draft) -> str:
    # The wire's word for a tool that returns nothing.
    return "None"


MEMORY_TOOLS: Final[Mapping[str, Callable[[Arguments, Draft], str]]] = {
    "core_memory_append": _core_memory_append,
    "core_memory_replace": _core_memory_replace,
    "memory_replace": _memory_replace,
    "memory_insert": _memory_insert,
    "memory_rethink": _memory_rethink,
    "memory_apply_patch": _memory_apply_patch,
    "memory": run_command,
    "memory_finish_edits": _memory_finish_edits,
}
"""The memory tools by name; each edits the draft and returns what the model reads."""
