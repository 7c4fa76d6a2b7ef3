"""Tools as an agent has them: a name, a schema, and what kind of code stands behind it."""

from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

ToolType = Literal[
    "custom",
    "letta_core",
    "letta_memory_core",
    "letta_multi_agent_core",
    "letta_sleeptime_core",
    "letta_voice_sleeptime_core",
    "letta_builtin",
    "letta_files_core",
    "external_langchain",
    "external_composio",
    "external_mcp",
]

DEFAULT_RETURN_LIMIT: Final = 50_000
"""Characters of a tool's return that a model is shown by default."""


class Tool(Struct, frozen=True, kw_only=True):
    """A tool. ``json_schema`` has the keys name, description and parameters (a JSON Schema object)."""

    id: str
    name: str
    created_at: datetime
    updated_at: datetime
    tool_type: ToolType = "custom"
    description: str | None = None
    source_type: str | None = None
    source_code: str | None = None
    json_schema: dict[str, Any] = {}
    args_json_schema: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    return_char_limit: int = DEFAULT_RETURN_LIMIT
    pip_requirements: tuple[dict[str, Any], ...] | None = None
    npm_requirements: tuple[dict[str, Any], ...] | None = None
    default_requires_approval: bool | None = None
    enable_parallel_execution: bool = False
    metadata: dict[str, Any] = {}


class ToolSchema(Struct, frozen=True, kw_only=True):
    """What a model is told of a tool. ``parameters`` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]
