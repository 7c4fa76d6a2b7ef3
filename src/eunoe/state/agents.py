"""Agents: the long-lived object, and all of it that can be restored."""

from datetime import datetime
from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType

from eunoe.state.blocks import Block, BlockSpec
from eunoe.state.conversations import Conversation
from eunoe.state.identities import Identity
from eunoe.state.memory import MemoryHead, MemoryKind, RefreshPolicy
from eunoe.state.messages import NewMessage
from eunoe.state.rules import ToolRule
from eunoe.state.tools import Tool

AgentType = Literal[
    "memgpt_agent",
    "memgpt_v2_agent",
    "letta_v1_agent",
    "react_agent",
    "workflow_agent",
    "split_thread_agent",
    "sleeptime_agent",
    "voice_convo_agent",
    "voice_sleeptime_agent",
]

DEFAULT_AGENT_TYPE: Final[AgentType] = "letta_v1_agent"


class Agent(Struct, frozen=True, kw_only=True):
    """What belongs to the agent itself; blocks, tools and the like are in ``AgentState``.

    ``context_window`` is in tokens. ``context_window_pinned`` says that the user chose it. ``model_settings`` are the
    settings that the user named, in the wire's form (``provider_type`` and the provider's fields); what is not named
    is left to the provider. ``revision`` goes up with each stored change of any field.
    """

    id: str
    name: str
    created_at: datetime
    updated_at: datetime
    system: str
    model: str
    agent_type: AgentType = DEFAULT_AGENT_TYPE
    embedding: str | None = None
    context_window: int = 0
    context_window_pinned: bool = False
    model_settings: dict[str, Any] = {}
    compaction_settings: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    tool_rules: tuple[ToolRule, ...] = ()
    tags: tuple[str, ...] = ()
    timezone: str = "UTC"
    message_buffer_autoclear: bool = False
    enable_sleeptime: bool | None = None
    hidden: bool = False
    max_files_open: int | None = None
    per_file_view_window_char_limit: int | None = None
    last_stop_reason: str | None = None
    last_run_completion: datetime | None = None
    last_run_duration_ms: int | None = None
    revision: int = 1
    memory_refresh: RefreshPolicy = "recompile"
    extra: dict[str, Any] = {}
    """Template and project fields of the wire that Eunoe keeps and returns but does not act on."""


class Secret(Struct, frozen=True, kw_only=True):
    """A secret of an agent, by name. The value is kept encrypted and is read by one store function only (I14)."""

    id: str
    key: str
    description: str | None = None


class AgentState(Struct, frozen=True, kw_only=True):
    """The whole of an agent but its messages: what a restart gives back (I1).

    ``blocks`` are in order of label (code points), ``tools`` in order of attachment. ``conversation`` is the default
    one. ``memory`` is there for an agent whose memory is files: its blocks are the files whose text is in the prompt.
    ``isolated`` says that some of the blocks are a conversation's own in place of the agent's.
    """

    agent: Agent
    blocks: tuple[Block, ...]
    tools: tuple[Tool, ...]
    identities: tuple[Identity, ...]
    secrets: tuple[Secret, ...]
    conversation: Conversation
    memory: MemoryHead | None = None
    isolated: bool = False


class AgentSpec(Struct, frozen=True, kw_only=True):
    """What a caller gives to create an agent; what is ``None`` gets the default of the agent's type."""

    model: str
    name: str | None = None
    agent_type: AgentType = DEFAULT_AGENT_TYPE
    system: str | None = None
    memory_blocks: tuple[BlockSpec, ...] = ()
    block_ids: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tool_ids: tuple[str, ...] = ()
    include_base_tools: bool = True
    include_base_tool_rules: bool | None = None
    tool_rules: tuple[ToolRule, ...] | None = None
    embedding: str | None = None
    context_window_limit: int | None = None
    model_settings: dict[str, Any] = {}
    compaction_settings: dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    secrets: dict[str, str] = {}
    identity_ids: tuple[str, ...] = ()
    timezone: str | None = None
    message_buffer_autoclear: bool = False
    enable_sleeptime: bool | None = None
    hidden: bool = False
    max_files_open: int | None = None
    per_file_view_window_char_limit: int | None = None
    initial_messages: tuple[NewMessage, ...] | None = None
    memory_refresh: RefreshPolicy = "recompile"
    memory_kind: MemoryKind | None = None
    """``None`` leaves it to the tag ``git-memory-enabled``; else the tag is set or taken away by this."""
    extra: dict[str, Any] = {}


class AgentChanges(Struct, frozen=True, kw_only=True):
    """A partial update of an agent: only the fields that are set change (I13). Lists replace."""

    name: str | UnsetType = UNSET
    system: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    embedding: str | None | UnsetType = UNSET
    context_window_limit: int | UnsetType = UNSET
    model_settings: dict[str, Any] | UnsetType = UNSET
    compaction_settings: dict[str, Any] | UnsetType = UNSET
    response_format: dict[str, Any] | None | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    metadata: dict[str, Any] | None | UnsetType = UNSET
    tool_rules: tuple[ToolRule, ...] | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    block_ids: tuple[str, ...] | UnsetType = UNSET
    tool_ids: tuple[str, ...] | UnsetType = UNSET
    identity_ids: tuple[str, ...] | UnsetType = UNSET
    secrets: dict[str, str] | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    message_buffer_autoclear: bool | UnsetType = UNSET
    enable_sleeptime: bool | None | UnsetType = UNSET
    hidden: bool | UnsetType = UNSET
    max_files_open: int | None | UnsetType = UNSET
    per_file_view_window_char_limit: int | None | UnsetType = UNSET
    last_stop_reason: str | None | UnsetType = UNSET
    last_run_completion: datetime | None | UnsetType = UNSET
    last_run_duration_ms: int | None | UnsetType = UNSET
    memory_refresh: RefreshPolicy | UnsetType = UNSET
    memory_kind: MemoryKind | UnsetType = UNSET
    extra: dict[str, Any] | UnsetType = UNSET
