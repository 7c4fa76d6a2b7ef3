"""The ``memory`` tool: one tool with a command, over paths that stand for labels.

Source of commands and arguments: Letta v1's ``memory`` tool. Here a label with ``/`` in it is the same label in every
command, and a read-only block refuses every command.
"""

from collections.abc import Callable, Mapping
from typing import Final

from eunoe.memory.arguments import Arguments
from eunoe.memory.draft import Draft
from eunoe.memory.edits import insert, replace_once
from eunoe.memory.guard import refuse_shown_marks
from eunoe.state.blocks import BlockChanges, BlockSpec
from eunoe.state.errors import InvalidInput


def run_command(arguments: Arguments, draft: Draft) -> str:
    """Carry out the command in the arguments on the draft and return what the model is told.

    Raises ``InvalidInput`` for an unknown command, a missing argument or an edit that does not fit, ``NotFound`` and
    ``Conflict`` for labels, and what the verdict is.
    """
    command = arguments.text("command")
    run = COMMANDS.get(command)
    if run is None:
        raise InvalidInput(
            f"Error: Unknown command '{command}'. Supported commands: {', '.join(COMMANDS)}", field="command"
        )
    return run(arguments, draft)


def _create(arguments: Arguments, draft: Draft) -> str:
    label = _label(arguments, "path", "create")
    description = _needed(arguments, "description", "create")
    draft.create(
        BlockSpec(label=label, description=description or None, value=arguments.optional_text("file_text") or "")
    )
    return f"Successfully created memory block '{label}'."


def _str_replace(arguments: Arguments, draft: Draft) -> str:
    label = _label(arguments, "path", "str_replace")
    old = _needed(arguments, "old_string", "str_replace")
    new = arguments.optional_text("new_string") or ""
    refuse_shown_marks(old, "old_string")
    refuse_shown_marks(new, "new_string")
    return draft.rewrite(label, lambda value: replace_once(value, old, new, label))


def _insert(arguments: Arguments, draft: Draft) -> str:
    label = _label(arguments, "path", "insert")
    new = _needed(arguments, "insert_text", "insert")
    after = arguments.line("insert_line")
    refuse_shown_marks(new, "insert_text")
    return draft.rewrite(label, lambda value: insert(value, new, after))


def _delete(arguments: Arguments, draft: Draft) -> str:
    label = _label(arguments, "path", "delete")
    draft.detach(label)
    return f"Successfully deleted memory block '{label}'."


def _rename(arguments: Arguments, draft: Draft) -> str:
    description = arguments.optional_text("description")
    if arguments.optional_text("path") is not None and description is not None:
        label = _label(arguments, "path", "rename")
        draft.change(label, BlockChanges(description=description))
        return f"Successfully updated description of memory block '{label}'."
    old = _label(arguments, "old_path", "rename")
    new = _label(arguments, "new_path", "rename")
    if description is None:
        draft.change(old, BlockChanges(label=new))
    else:
        draft.change(old, BlockChanges(label=new, description=description))
    return f"Successfully renamed memory block '{old}' to '{new}'."


COMMANDS: Final[Mapping[str, Callable[[Arguments, Draft], str]]] = {
    "create": _create,
    "str_replace": _str_replace,
    "insert": _insert,
    "delete": _delete,
    "rename": _rename,
}
"""Each command by name, in the order in which errors list them."""


def _needed(arguments: Arguments, name: str, command: str) -> str:
    text = arguments.optional_text(name)
    if text is None:
        raise InvalidInput(f"Error: {name} is required for {command} command", field=name)
    return text


def _label(arguments: Arguments, name: str, command: str) -> str:
    path = _needed(arguments, name, command)
    label = path.removeprefix("/memories/") if path.startswith("/memories/") else path.removeprefix("/")
    if not label or path == "/memories":
        raise InvalidInput(f"Error: {name} {path!r} names no memory block. Use '/memories/<label>'.", field=name)
    return label
