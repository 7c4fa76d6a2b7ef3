"""The bodies that Letta v1's clients send, as types. Unknown fields are ignored; ``null`` means "not given".

Deprecated fields that still change something are read here and are unknown further in.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from eunoe.state.agents import DEFAULT_AGENT_TYPE, AgentType
from eunoe.state.blocks import DEFAULT_LIMIT
from eunoe.state.identities import IdentityType
from eunoe.state.memory import MemoryKind, RefreshPolicy
from eunoe.state.rules import ToolRule

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Moment = Annotated[datetime, Meta(tz=True)]
"""A time with its offset from UTC."""


class Nothing(Struct):
    """No body."""


class BlockBody(Struct, kw_only=True):
    """A new block."""

    label: Annotated[str, Meta(min_length=1)]
    value: str | None = None
    limit: Positive = DEFAULT_LIMIT
    description: str | None = None
    read_only: bool | None = None
    hidden: bool | None = None
    metadata: dict[str, Any] | None = None
    tags: list[str] | None = None
    project_id: str | None = None
    template_name: str | None = None
    is_template: bool | None = None
    template_id: str | None = None
    base_template_id: str | None = None
    deployment_id: str | None = None
    entity_id: str | None = None
    preserve_on_migration: bool | None = None


class BlockPatch(Struct, kw_only=True):
    """A change of a block.

    Eunoe's own are ``expected_revision``, the revision that the change is based on, and ``why``, its reason.
    """

    label: Annotated[str, Meta(min_length=1)] | None = None
    value: str | None = None
    limit: Positive | None = None
    description: str | None = None
    read_only: bool | None = None
    hidden: bool | None = None
    metadata: dict[str, Any] | None = None
    tags: list[str] | None = None
    expected_revision: Positive | None = None
    why: str = ""
    project_id: str | None = None
    template_name: str | None = None
    is_template: bool | None = None
    template_id: str | None = None
    base_template_id: str | None = None
    deployment_id: str | None = None
    entity_id: str | None = None
    preserve_on_migration: bool | None = None


class LlmConfigBody(Struct, kw_only=True):
    """The deprecated form of a model: its handle, or the kind of its endpoint and its name."""

    model: str | None = None
    handle: str | None = None
    model_endpoint_type: str | None = None
    context_window: Count | None = None
    temperature: float | None = None
    max_tokens: Positive | None = None
    reasoning_effort: str | None = None
    parallel_tool_calls: bool | None = None


class ImageSourceBody(Struct, kw_only=True):
    """Where an image is: an address, or its bytes in base64."""

    type: Literal["url", "base64", "letta"] = "url"
    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    detail: str | None = None


class ContentPart(Struct, kw_only=True):
    """A part of a message's content; only texts and images can be sent."""

    type: str = "text"
    text: str | None = None
    source: ImageSourceBody | None = None


class ToolReturnBody(Struct, kw_only=True):
    """What a tool that the client ran returned, or (with ``approve``) an answer about a call."""

    tool_call_id: str
    type: Literal["tool", "approval"] | None = None
    tool_return: str | list[ContentPart] | None = None
    status: Literal["success", "error"] = "success"
    stdout: list[str] | None = None
    stderr: list[str] | None = None
    approve: bool | None = None
    reason: str | None = None


class MessageBody(Struct, kw_only=True):
    """A message, an answer to an approval request, or the returns of the client's own tools, told by ``type``."""

    type: Literal["message", "approval", "tool_return"] | None = None
    role: Literal["user", "system", "assistant"] | None = None
    content: str | list[ContentPart] | None = None
    name: str | None = None
    otid: str | None = None
    sender_id: str | None = None
    group_id: str | None = None
    created_at: Moment | None = None
    approvals: list[ToolReturnBody] | None = None
    tool_returns: list[ToolReturnBody] | None = None
    approve: bool | None = None
    approval_request_id: str | None = None
    reason: str | None = None


class ClientToolBody(Struct, kw_only=True):
    """A tool that the client runs itself."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ClientSkillBody(Struct, kw_only=True):
    """A skill in the client's surroundings."""

    name: str
    description: str
    location: str


class SendBody(Struct, kw_only=True):
    """Messages for an agent, and how its answer is wanted."""

    messages: list[MessageBody] | None = None
    input: str | list[ContentPart] | None = None
    max_steps: Annotated[int, Meta(ge=1, le=10_000)] = 50
    use_assistant_message: bool = True
    assistant_message_tool_name: str = "send_message"
    assistant_message_tool_kwarg: str = "message"
    include_return_message_types: list[str] | None = None
    client_tools: list[ClientToolBody] | None = None
    client_skills: list[ClientSkillBody] | None = None
    override_model: str | None = None
    override_system: str | None = None
    include_compaction_messages: bool = False
    streaming: bool = False
    stream_tokens: bool = False
    include_pings: bool = True
    background: bool = False
    conversation_id: str | None = None
    on_busy: Literal["reject", "wait"] = "reject"
    """Eunoe's own: what to do while another run holds the conversation: get 409 with its id, or wait for its end."""
    on_pending: Literal["reject", "deny_and_continue", "queue"] = "reject"
    """Eunoe's own: what a message does while an approval is pending: 409, deny the calls, or wait for the answer."""
    memory_refresh: RefreshPolicy | None = None
    """Eunoe's own: what a change of memory does to the prompt of this request; by default what the agent says."""


class StreamBody(SendBody, kw_only=True):
    """As ``SendBody``, for the route that always streams."""

    streaming: bool = True


class AsyncBody(StreamBody, kw_only=True):
    """As ``SendBody``, for the route that answers with the run at once."""

    background: bool = True
    callback_url: str | None = None


class ConversationSendBody(StreamBody, kw_only=True):
    """As ``SendBody``, for a conversation; ``agent_id`` says whose ``default`` one."""

    agent_id: str | None = None


class AgentBody(Struct, kw_only=True):
    """A new agent."""

    name: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    memory_blocks: list[BlockBody] | None = None
    block_ids: list[str] | None = None
    tools: list[str] | None = None
    tool_ids: list[str] | None = None
    tool_rules: list[ToolRule] | None = None
    tags: list[str] | None = None
    system: str | None = None
    agent_type: AgentType = DEFAULT_AGENT_TYPE
    initial_message_sequence: list[MessageBody] | None = None
    include_base_tools: bool | None = None
    include_base_tool_rules: bool | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    model: str | None = None
    embedding: str | None = None
    model_settings: dict[str, Any] | None = None
    llm_config: LlmConfigBody | None = None
    compaction_settings: dict[str, Any] | None = None
    context_window_limit: Positive | None = None
    max_tokens: Positive | None = None
    parallel_tool_calls: bool | None = None
    secrets: dict[str, str] | None = None
    tool_exec_environment_variables: dict[str, str] | None = None
    identity_ids: list[str] | None = None
    message_buffer_autoclear: bool = False
    enable_sleeptime: bool | None = None
    response_format: dict[str, Any] | None = None
    timezone: str | None = None
    max_files_open: Annotated[int, Meta(ge=0, le=1000)] | None = None
    per_file_view_window_char_limit: Count | None = None
    hidden: bool | None = None
    project_id: str | None = None
    template_id: str | None = None
    base_template_id: str | None = None
    memory: MemoryKind | dict[str, Any] | None = None
    """Eunoe's own: files in git, or blocks. An object, which older clients send, says nothing."""
    memory_refresh: RefreshPolicy | None = None


class AgentPatch(Struct, kw_only=True):
    """A change of an agent. Lists and secrets replace; ``model_settings`` change key by key."""

    name: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    tool_ids: list[str] | None = None
    block_ids: list[str] | None = None
    tags: list[str] | None = None
    system: str | None = None
    tool_rules: list[ToolRule] | None = None
    description: str | None = None
    metadata: dict[str, Any] | None = None
    secrets: dict[str, str] | None = None
    tool_exec_environment_variables: dict[str, str] | None = None
    identity_ids: list[str] | None = None
    message_buffer_autoclear: bool | None = None
    model: str | None = None
    embedding: str | None = None
    model_settings: dict[str, Any] | None = None
    llm_config: LlmConfigBody | None = None
    compaction_settings: dict[str, Any] | None = None
    context_window_limit: Positive | None = None
    max_tokens: Positive | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    enable_sleeptime: bool | None = None
    last_run_completion: Moment | None = None
    last_run_duration_ms: Count | None = None
    last_stop_reason: str | None = None
    timezone: str | None = None
    max_files_open: Annotated[int, Meta(ge=0, le=1000)] | None = None
    per_file_view_window_char_limit: Count | None = None
    hidden: bool | None = None
    memory: MemoryKind | dict[str, Any] | None = None
    """Eunoe's own: files in git, or blocks. An object, which older clients send, says nothing."""
    memory_refresh: RefreshPolicy | None = None


class ApprovalBody(Struct, kw_only=True):
    """Whether calls of a tool wait for a person's answer."""

    requires_approval: bool | None = None


class ResetBody(Struct, kw_only=True):
    """How to reset an agent's messages."""

    add_default_initial_messages: bool = False


class CancelBody(Struct, kw_only=True):
    """Which runs to cancel; none named means those of the agent that go on."""

    run_ids: list[str] | None = None


class PropertyBody(Struct, kw_only=True):
    """A property of an identity."""

    key: str
    value: Any = None
    type: Literal["string", "number", "boolean", "json"] = "string"


class IdentityBody(Struct, kw_only=True):
    """A new identity."""

    identifier_key: Annotated[str, Meta(min_length=1)]
    name: str
    identity_type: IdentityType
    properties: list[PropertyBody] | None = None


class IdentityPatch(Struct, kw_only=True):
    """A change of an identity."""

    identifier_key: Annotated[str, Meta(min_length=1)] | None = None
    name: str | None = None
    identity_type: IdentityType | None = None
    properties: list[PropertyBody] | None = None


def given(body: Struct, *names: str) -> dict[str, Any]:
    """Return the named fields of a body that are not ``null``."""
    fields = ((name, getattr(body, name)) for name in names)
    return {name: value for name, value in fields if value is not None}


def properties(items: list[PropertyBody]) -> tuple[dict[str, Any], ...]:
    """Return the properties of an identity as they are kept."""
    return tuple(msgspec.to_builtins(item) for item in items)
