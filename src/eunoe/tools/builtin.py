"""The built-in tools: what each is for, and how the runtime runs it.

``kind`` says who does the work: ``memory`` is a pure edit that runs inside the checkpoint, ``search`` reads the store,
``files`` reads memory files and skills, ``speak`` says something to the user, ``finish`` only ends the turn by its
rule.
"""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct, structs

from eunoe.memory.schemas import TOOL_SCHEMAS
from eunoe.state.agents import AgentType
from eunoe.state.ids import named_id
from eunoe.state.rules import ContinueRule, TerminalRule, ToolRule
from eunoe.state.tools import Tool, ToolSchema, ToolType
from eunoe.tools.files import FILE_SCHEMAS, LOAD_SKILL
from eunoe.tools.search import SEARCH_SCHEMA

BuiltinKind = Literal["memory", "search", "files", "speak", "finish"]


class Builtin(Struct, frozen=True, kw_only=True):
    """A built-in tool, with what the model is told of it."""

    schema: ToolSchema
    tool_type: ToolType
    kind: BuiltinKind
    parallel: bool = False

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.schema.name


SEND_MESSAGE: Final = ToolSchema(
    name="send_message",
    description="Say something to the user. It is the only way in which the user hears from you.",
    parameters={
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What to say. Any Unicode text, emoji included."}},
        "required": ["message"],
    },
)

_MEMORY_TYPES: Final[dict[str, ToolType]] = {
    "core_memory_append": "letta_core",
    "core_memory_replace": "letta_core",
    "memory": "letta_core",
    "memory_apply_patch": "letta_core",
    "memory_replace": "letta_sleeptime_core",
    "memory_insert": "letta_sleeptime_core",
    "memory_rethink": "letta_sleeptime_core",
    "memory_finish_edits": "letta_sleeptime_core",
}

BUILTINS: Final[dict[str, Builtin]] = {
    "send_message": Builtin(schema=SEND_MESSAGE, tool_type="letta_core", kind="speak"),
    "conversation_search": Builtin(schema=SEARCH_SCHEMA, tool_type="letta_core", kind="search", parallel=True),
    **{
        name: Builtin(
            schema=TOOL_SCHEMAS[name],
            tool_type=tool_type,
            kind="finish" if name == "memory_finish_edits" else "memory",
        )
        for name, tool_type in _MEMORY_TYPES.items()
    },
    **{
        schema.name: Builtin(schema=schema, tool_type="letta_core", kind="files", parallel=True)
        for schema in (*FILE_SCHEMAS.values(), LOAD_SKILL)
    },
}
"""Every built-in tool by name."""


def builtin_tools(now: datetime) -> tuple[Tool, ...]:
    """Return the built-in tools as stored objects; their ids are the same in every store."""
    return tuple(
        Tool(
            id=named_id("tool", builtin.name),
            name=builtin.name,
            tool_type=builtin.tool_type,
            description=builtin.schema.description,
            source_type="python",
            json_schema=structs.asdict(builtin.schema),
            tags=(builtin.tool_type,),
            enable_parallel_execution=builtin.parallel,
            created_at=now,
            updated_at=now,
        )
        for builtin in BUILTINS.values()
    )


_DEFAULT_TOOLS: Final[dict[AgentType, tuple[str, ...]]] = {
    "letta_v1_agent": ("conversation_search", "memory_insert", "memory_replace"),
    "memgpt_v2_agent": ("send_message", "conversation_search", "memory_insert", "memory_replace"),
    "memgpt_agent": (
        "send_message",
        "conversation_search",
        "core_memory_append",
        "core_memory_replace",
        "memory",
        "memory_apply_patch",
    ),
    "split_thread_agent": ("send_message", "conversation_search", "memory_insert", "memory_replace"),
    "sleeptime_agent": ("memory_replace", "memory_insert", "memory_rethink", "memory_finish_edits"),
    "react_agent": (),
    "workflow_agent": (),
    "voice_convo_agent": ("send_message", "conversation_search"),
    "voice_sleeptime_agent": ("memory_replace", "memory_insert", "memory_rethink", "memory_finish_edits"),
}

_TERMINAL: Final = frozenset({"send_message", "memory_finish_edits"})


def default_tools(agent_type: AgentType) -> tuple[str, ...]:
    """Return the names of the tools that an agent of this type gets when base tools are included."""
    return _DEFAULT_TOOLS[agent_type]


def default_rules(agent_type: AgentType, tool_names: tuple[str, ...], *, base_rules: bool | None) -> list[ToolRule]:
    """Return the rules that built-in tools bring.

    An agent of type ``letta_v1_agent`` ends its turn by plain text and needs none; the types that speak by tool need
    to know which of their tools end a turn. ``base_rules`` overrides.
    """
    wanted = agent_type != "letta_v1_agent" if base_rules is None else base_rules
    if not wanted:
        return []
    return [
        TerminalRule(tool_name=name) if name in _TERMINAL else ContinueRule(tool_name=name)
        for name in tool_names
        if name in BUILTINS
    ]
