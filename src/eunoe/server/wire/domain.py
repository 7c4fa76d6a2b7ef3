"""What a client sends, as the words of the design: specs and changes."""

from typing import Any

import msgspec
from msgspec import UNSET

from eunoe.models.settings import read_settings
from eunoe.server.wire.requests import (
    AgentBody,
    AgentPatch,
    BlockBody,
    BlockPatch,
    LlmConfigBody,
    given,
)
from eunoe.server.wire.turns import new_messages
from eunoe.state.agents import AgentChanges, AgentSpec
from eunoe.state.blocks import BlockChanges, BlockSpec
from eunoe.state.errors import InvalidInput

_BLOCK_EXTRA = (
    "project_id",
    "template_name",
    "is_template",
    "template_id",
    "base_template_id",
    "deployment_id",
    "entity_id",
    "preserve_on_migration",
)
_AGENT_EXTRA = ("project_id", "template_id", "base_template_id")


def block_spec(body: BlockBody) -> BlockSpec:
    """Return what a new block shall be."""
    fields = given(body, "value", "description", "read_only", "hidden", "metadata")
    return BlockSpec(
        label=body.label,
        limit=body.limit,
        tags=tuple(dict.fromkeys(body.tags or ())),
        extra=given(body, *_BLOCK_EXTRA),
        **fields,
    )


def block_changes(body: BlockPatch) -> BlockChanges:
    """Return what shall change of a block."""
    fields = given(body, "label", "value", "limit", "description", "read_only", "hidden", "metadata")
    if body.tags is not None:
        fields["tags"] = tuple(dict.fromkeys(body.tags))
    extra = given(body, *_BLOCK_EXTRA)
    return BlockChanges(extra=extra or UNSET, **fields)


def agent_spec(body: AgentBody) -> AgentSpec:
    """Return what a new agent shall be. Raises ``InvalidInput`` when no model is named."""
    model = check_handle(body.model if body.model is not None else _handle_of(body.llm_config))
    if model is None:
        raise InvalidInput("Must specify either model or llm_config in request", field="model")
    window = body.context_window_limit
    if window is None and body.llm_config is not None:
        window = body.llm_config.context_window or None
    secrets = body.secrets if body.secrets is not None else body.tool_exec_environment_variables
    fields = given(
        body,
        "name",
        "system",
        "include_base_tools",
        "include_base_tool_rules",
        "embedding",
        "compaction_settings",
        "response_format",
        "description",
        "metadata",
        "timezone",
        "enable_sleeptime",
        "hidden",
        "max_files_open",
        "per_file_view_window_char_limit",
        "memory_refresh",
    )
    if isinstance(body.memory, str):
        fields["memory_kind"] = body.memory
    return AgentSpec(
        model=model,
        agent_type=body.agent_type,
        memory_blocks=tuple(block_spec(item) for item in body.memory_blocks or ()),
        block_ids=tuple(dict.fromkeys(body.block_ids or ())),
        tools=tuple(dict.fromkeys(body.tools or ())),
        tool_ids=tuple(dict.fromkeys(body.tool_ids or ())),
        tool_rules=None if body.tool_rules is None else tuple(body.tool_rules),
        context_window_limit=window,
        model_settings=_settings(body),
        tags=tuple(dict.fromkeys(body.tags or ())),
        secrets=secrets or {},
        identity_ids=tuple(dict.fromkeys(body.identity_ids or ())),
        message_buffer_autoclear=body.message_buffer_autoclear,
        initial_messages=(
            None if body.initial_message_sequence is None else new_messages(body.initial_message_sequence)
        ),
        extra=given(body, *_AGENT_EXTRA),
        **fields,
    )


def agent_changes(body: AgentPatch) -> AgentChanges:
    """Return what shall change of an agent."""
    fields = given(
        body,
        "name",
        "system",
        "embedding",
        "context_window_limit",
        "compaction_settings",
        "response_format",
        "description",
        "metadata",
        "timezone",
        "message_buffer_autoclear",
        "enable_sleeptime",
        "hidden",
        "max_files_open",
        "per_file_view_window_char_limit",
        "last_stop_reason",
        "last_run_completion",
        "last_run_duration_ms",
        "memory_refresh",
    )
    if isinstance(body.memory, str):
        fields["memory_kind"] = body.memory
    lists = given(body, "tags", "block_ids", "tool_ids", "identity_ids")
    fields |= {name: tuple(dict.fromkeys(value)) for name, value in lists.items()}
    if body.tool_rules is not None:
        fields["tool_rules"] = tuple(body.tool_rules)
    model = check_handle(body.model if body.model is not None else _handle_of(body.llm_config))
    if model is not None:
        fields["model"] = model
    if body.llm_config is not None and body.llm_config.context_window and "context_window_limit" not in fields:
        fields["context_window_limit"] = body.llm_config.context_window
    settings = _settings(body)
    if settings:
        fields["model_settings"] = settings
    secrets = body.secrets if body.secrets is not None else body.tool_exec_environment_variables
    if secrets is not None:
        fields["secrets"] = secrets
    return msgspec.structs.replace(AgentChanges(), **fields)


def check_handle(handle: str | None) -> str | None:
    """Return the handle. Raises ``InvalidInput`` unless it is ``provider/name``."""
    if handle is None:
        return None
    provider, slash, name = handle.partition("/")
    if not (provider and slash and name):
        raise InvalidInput("The model handle should be in the format provider/model-name", field="model")
    return handle


def _handle_of(config: LlmConfigBody | None) -> str | None:
    if config is None:
        return None
    if config.handle is not None:
        return config.handle
    if config.model is not None and config.model_endpoint_type is not None:
        return f"{config.model_endpoint_type}/{config.model}"
    return None


def _settings(body: AgentBody | AgentPatch) -> dict[str, Any]:
    """Return the model settings that were named, in their own field or in a deprecated one.

    Raises ``InvalidInput`` here for a value that a setting cannot have, not at the first turn that needs it.
    """
    named: dict[str, Any] = {}
    if body.llm_config is not None:
        named |= given(body.llm_config, "temperature", "parallel_tool_calls")
        if body.llm_config.max_tokens is not None:
            named["max_output_tokens"] = body.llm_config.max_tokens
        if body.llm_config.reasoning_effort is not None:
            named["reasoning"] = {"reasoning_effort": body.llm_config.reasoning_effort}
    if body.max_tokens is not None:
        named["max_output_tokens"] = body.max_tokens
    named |= given(body, "parallel_tool_calls")
    named |= body.model_settings or {}
    read_settings({**named, **given(body, "response_format")})
    return named
