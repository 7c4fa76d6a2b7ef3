"""Tools as Letta v1 shows them."""

from typing import Any, Final

from eunoe.state.tools import Tool

OWNER: Final = "user-00000000-0000-4000-8000-000000000000"
"""The user that everything belongs to; the wire wants one, Eunoe has none."""


def tool(value: Tool) -> dict[str, Any]:
    """Return the wire's tool object; its key order is the wire's."""
    return {
        "id": value.id,
        "tool_type": value.tool_type,
        "description": value.description,
        "source_type": value.source_type,
        "name": value.name,
        "tags": list(value.tags),
        "source_code": value.source_code,
        "json_schema": value.json_schema,
        "args_json_schema": value.args_json_schema,
        "return_char_limit": value.return_char_limit,
        "pip_requirements": _list(value.pip_requirements),
        "npm_requirements": _list(value.npm_requirements),
        "default_requires_approval": value.default_requires_approval,
        "enable_parallel_execution": value.enable_parallel_execution,
        "created_by_id": OWNER,
        "last_updated_by_id": OWNER,
        "metadata_": value.metadata,
        "project_id": None,
    }


def _list(items: tuple[dict[str, Any], ...] | None) -> list[dict[str, Any]] | None:
    return None if items is None else list(items)
