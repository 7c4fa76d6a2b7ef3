"""What a model is told of the memory tools. Argument names are Letta v1's; the words are ours."""

from typing import Any, Final

from eunoe.state.tools import ToolSchema

_LABEL: Final = {"type": "string", "description": "Label of the memory block to edit."}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _tool(name: str, description: str, properties: dict[str, Any], required: list[str]) -> ToolSchema:
    parameters = {"type": "object", "properties": properties, "required": required}
    return ToolSchema(name=name, description=description, parameters=parameters)


_LINE: Final = {
    "type": "integer",
    "description": (
        "Number of the line after which the text goes: 0 puts it before the first line, -1 (the default) after the "
        "last one."
    ),
}

_PATCH: Final = """\
Edit memory blocks with a patch. It takes effect whole or not at all.

For one block, give its label and a unified diff: lines to keep begin with a space, lines to remove with '-', lines to \
add with '+'. Separate distant changes with a line '@@'. The kept and removed lines must be found in the block exactly \
once; add context until they are. A diff that only adds lines, without context, adds them at the end.

For several blocks, put each under a header line:
*** Add Block: <label>  (then optionally 'Description: <text>', then the value with '+' before each line)
*** Update Block: <label>  (then a diff as above)
*** Delete Block: <label>
*** Move to: <new label>  (after an Add or Update: renames that block)"""

_MEMORY: Final = """\
Work on memory blocks by path; the path '/memories/<label>' stands for the block of that label.

create: make a block (path, description, file_text).
str_replace: put new_string in the place of old_string, which must occur exactly once (path, old_string, new_string).
insert: add insert_text as new lines after line insert_line (path, insert_text, insert_line).
delete: take a block out of your memory (path).
rename: give a block another label (old_path, new_path), or another description (path, description)."""

_ALL: Final = (
    _tool(
        "core_memory_append",
        "Add text as a new line at the end of a memory block.",
        {"label": _LABEL, "content": _text("The text to add. Any language and emoji are fine.")},
        ["label", "content"],
    ),
    _tool(
        "core_memory_replace",
        "Replace text in a memory block, wherever it occurs. To delete it, give an empty new_content.",
        {
            "label": _LABEL,
            "old_content": _text("The text to replace, exactly as it is in the block."),
            "new_content": _text("The text to put in its place."),
        },
        ["label", "old_content", "new_content"],
    ),
    _tool(
        "memory_replace",
        "Replace one piece of text in a memory block. The old text must be given exactly, with its white space and "
        "line breaks, and must occur once in the block: take in as much of what stands around it as makes it unique. "
        "It may span lines. Line numbers that you are shown are not part of the text.",
        {
            "label": _LABEL,
            "old_string": _text("The text to replace, exactly as it is in the block, without line numbers."),
            "new_string": _text("The text to put in its place, without line numbers. Leave it out to delete."),
        },
        ["label", "old_string"],
    ),
    _tool(
        "memory_insert",
        "Add text as new lines at a place in a memory block; what is there stays.",
        {"label": _LABEL, "new_string": _text("The text to add, without line numbers."), "insert_line": _LINE},
        ["label", "new_string"],
    ),
    _tool(
        "memory_rethink",
        "Write the whole value of a memory block anew. Use it to reorganise or condense a block; for a small change "
        "use an edit that names it. What you leave out is gone from the block.",
        {"label": _LABEL, "new_memory": _text("The complete new value, without line numbers.")},
        ["label", "new_memory"],
    ),
    _tool(
        "memory_apply_patch",
        _PATCH,
        {
            "label": _text("Label of the block that a patch without headers is for."),
            "patch": _text("The patch, without line numbers before its lines."),
        },
        ["label", "patch"],
    ),
    _tool(
        "memory",
        _MEMORY,
        {
            "command": {
                "type": "string",
                "enum": ["create", "str_replace", "insert", "delete", "rename"],
                "description": "What to do.",
            },
            "path": _text("Path of the block. All commands but a rename to another label need it."),
            "description": _text("What the block is for (create, or rename with path)."),
            "file_text": _text("The value of the new block (create)."),
            "old_string": _text("The text to replace, exactly as it is in the block (str_replace)."),
            "new_string": _text("The text to put in its place; leave it out to delete (str_replace)."),
            "insert_text": _text("The text to add (insert)."),
            "insert_line": _LINE,
            "old_path": _text("Path of the block as it is (rename)."),
            "new_path": _text("Path of the block as it shall be (rename)."),
        },
        ["command"],
    ),
    _tool(
        "memory_finish_edits",
        "Say that you are done with editing memory. Call it once, as the last thing.",
        {},
        [],
    ),
)

TOOL_SCHEMAS: Final[dict[str, ToolSchema]] = {schema.name: schema for schema in _ALL}
"""The schema of each memory tool by its name."""
