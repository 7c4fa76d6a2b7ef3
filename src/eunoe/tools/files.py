"""The tools by which an agent reads its memory files and loads skills: what each takes."""

from typing import Any, Final

from eunoe.state.tools import ToolSchema

_OFFSET: Final[dict[str, Any]] = {
    "type": "integer",
    "description": "The character to read on from, which the end of a cut answer names; 0 if left out.",
}


def _schema(name: str, description: str, properties: dict[str, Any], required: tuple[str, ...] = ()) -> ToolSchema:
    return ToolSchema(
        name=name,
        description=description,
        parameters={"type": "object", "properties": properties, "required": list(required)},
    )


FILE_SCHEMAS: Final = {
    schema.name: schema
    for schema in (
        _schema(
            "memory_open",
            "Read a file of your memory, or see what is in a folder of it: the folder's index and its entries.",
            {
                "path": {
                    "type": "string",
                    "description": "Path from the root of memory, such as notes/ideas.md or notes/. Empty: the root.",
                },
                "offset": _OFFSET,
            },
            ("path",),
        ),
        _schema(
            "memory_list",
            "List the paths of all files of your memory, or of those below a folder.",
            {
                "path": {"type": "string", "description": "A folder. Leave out for all of memory."},
                "offset": _OFFSET,
            },
        ),
        _schema(
            "memory_search",
            "Find lines in your memory files that hold a text, whatever the case of letters.",
            {"query": {"type": "string", "description": "Text that stands in one line, or in the path of a file."}},
            ("query",),
        ),
        _schema(
            "memory_history",
            "See when a file of your memory was changed, by whom and why, newest first; also one that is deleted.",
            {
                "path": {"type": "string", "description": "Path of a file or a folder."},
                "before": {"type": "string", "description": "Go on after this commit: the end of a cut list names it."},
            },
            ("path",),
        ),
    )
}
"""The tools that read memory files, by name."""

LOAD_SKILL: Final = _schema(
    "load_skill",
    "Read the instructions of a skill that is listed under available_skills, before you do what it is for. "
    "What you load stays in this conversation only.",
    {
        "name": {"type": "string", "description": "Name of the skill: its folder as it is listed."},
        "file": {"type": "string", "description": "Another file of the skill, by its path in the skill's folder."},
        "offset": _OFFSET,
    },
    ("name",),
)

FILE_TOOLS: Final = (*FILE_SCHEMAS, LOAD_SKILL.name)
"""The tools that an agent gets when its memory is files."""
