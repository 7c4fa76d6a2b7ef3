"""Agents as Letta v1 shows them, and which of their relationships an answer carries."""

import re
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from eunoe.server.wire.blocks import block
from eunoe.server.wire.dates import instant
from eunoe.server.wire.identities import identity
from eunoe.server.wire.messages import approval_request
from eunoe.server.wire.models import llm_config, model_settings
from eunoe.server.wire.tools import OWNER, tool
from eunoe.state.agents import AgentState
from eunoe.state.messages import Message
from eunoe.state.rules import ToolRule

EVERYTHING: Final = frozenset(
    {
        "agent.blocks",
        "agent.identities",
        "agent.managed_group",
        "agent.pending_approval",
        "agent.secrets",
        "agent.sources",
        "agent.tags",
        "agent.tools",
    }
)
"""All relationships, by the names that ``include`` takes."""

_LEGACY_NAMES: Final = {
    "memory": "agent.blocks",
    "identities": "agent.identities",
    "multi_agent_group": "agent.managed_group",
    "sources": "agent.sources",
    "tags": "agent.tags",
    "tools": "agent.tools",
    "tool_exec_environment_variables": "agent.secrets",
}

_CURRENT_CLIENT: Final = re.compile(r"@?(?:letta-ai/)?letta-client/(\d+)\.")

COMPACTION_DEFAULTS: Final[dict[str, Any]] = {
    "model": None,
    "model_settings": None,
    "prompt": None,
    "prompt_acknowledgement": False,
    "clip_chars": 50_000,
    "mode": "sliding_window",
    "sliding_window_percentage": 0.3,
}


def included(
    *,
    include: Sequence[str] | None,
    relationships: Sequence[str] | None,
    user_agent: str | None,
    is_generated_client: bool,
) -> frozenset[str]:
    """Say which relationships an answer carries.

    What is asked for is given. When nothing is named, clients of the 1.x format get none and older programs get
    all; ``is_generated_client`` says that the request carries the header of the generated 1.x clients.
    """
    if include or relationships:
        named = set(include or ())
        named.update(_LEGACY_NAMES.get(name, name) for name in relationships or ())
        return frozenset(named)
    if is_generated_client or not user_agent:
        return frozenset()
    client = _CURRENT_CLIENT.match(user_agent)
    return frozenset() if client is not None and int(client[1]) >= 1 else EVERYTHING


def agent(
    state: AgentState,
    message_ids: Sequence[str],
    shown: Collection[str] = EVERYTHING,
    *,
    pending: Message | None = None,
) -> dict[str, Any]:
    """Return the wire's agent object.

    ``message_ids`` is the window, the system message first; ``pending`` is the message whose calls wait for an answer.
    """
    value = state.agent
    files_open, file_characters = file_limits(value.context_window)
    blocks = [block(item) for item in state.blocks] if "agent.blocks" in shown else []
    identities = [identity(item) for item in state.identities] if "agent.identities" in shown else []
    secrets = _secrets(state) if "agent.secrets" in shown else []
    return {
        "created_by_id": OWNER,
        "last_updated_by_id": OWNER,
        "created_at": instant(value.created_at),
        "updated_at": instant(value.updated_at),
        "id": value.id,
        "name": value.name,
        "tool_rules": [rule(item) for item in value.tool_rules],
        "message_ids": list(message_ids),
        "system": value.system,
        "agent_type": value.agent_type,
        "llm_config": llm_config(value),
        "embedding_config": None,
        "model": value.model,
        "embedding": value.embedding,
        "model_settings": model_settings(value.model, value.model_settings),
        "compaction_settings": {**COMPACTION_DEFAULTS, **(value.compaction_settings or {})},
        "response_format": value.response_format,
        "description": value.description,
        "metadata": value.metadata,
        "memory": {
            "agent_type": value.agent_type,
            "git_enabled": state.memory is not None,
            "blocks": blocks,
            "file_blocks": [],
            "prompt_template": "",
        },
        "blocks": blocks,
        "tools": [tool(item) for item in state.tools] if "agent.tools" in shown else [],
        "sources": [],
        "tags": list(value.tags) if "agent.tags" in shown else [],
        "tool_exec_environment_variables": secrets,
        "secrets": secrets,
        "project_id": value.extra.get("project_id"),
        "template_id": value.extra.get("template_id"),
        "base_template_id": value.extra.get("base_template_id"),
        "deployment_id": value.extra.get("deployment_id"),
        "entity_id": value.extra.get("entity_id"),
        "identity_ids": [item["id"] for item in identities],
        "identities": identities,
        "pending_approval": None if pending is None else approval_request(pending),
        "message_buffer_autoclear": value.message_buffer_autoclear,
        "enable_sleeptime": value.enable_sleeptime,
        "multi_agent_group": None,
        "managed_group": None,
        "last_run_completion": instant(value.last_run_completion),
        "last_run_duration_ms": value.last_run_duration_ms,
        "last_stop_reason": value.last_stop_reason,
        "timezone": value.timezone,
        "max_files_open": value.max_files_open or files_open,
        "per_file_view_window_char_limit": value.per_file_view_window_char_limit or file_characters,
        "hidden": value.hidden or None,
    }


_FILE_LIMITS: Final = ((8_000, 3, 5_000), (32_000, 5, 15_000), (128_000, 10, 25_000), (200_000, 10, 40_000))
"""By the largest window (tokens): files open at once, characters shown of each; as Letta v1 has them."""


def file_limits(context_window: int) -> tuple[int, int]:
    """Return the wire's defaults for a window of so many tokens: files open at once, characters shown of each."""
    if not context_window:
        return 5, 50_000
    for most, files, characters in _FILE_LIMITS:
        if context_window <= most:
            return files, characters
    return 15, 40_000


def memory(state: AgentState) -> dict[str, Any]:
    """Return the deprecated memory object of an agent."""
    return {
        "agent_type": state.agent.agent_type,
        "git_enabled": state.memory is not None,
        "blocks": [block(item) for item in state.blocks],
        "file_blocks": [],
        "prompt_template": "",
    }


def rule(value: ToolRule) -> dict[str, Any]:
    """Return a tool rule: its own fields between name and type on one side and ``prompt_template`` on the other."""
    fields: dict[str, Any] = msgspec.to_builtins(value)
    head = {"tool_name": fields.pop("tool_name"), "type": fields.pop("type")}
    template = fields.pop("prompt_template")
    return {**head, **fields, "prompt_template": template}


def _secrets(state: AgentState) -> list[dict[str, Any]]:
    """Return the secrets by name; the value stays in the store (I14)."""
    return [
        {
            "id": secret.id,
            "key": secret.key,
            "value": "",
            "description": secret.description,
            "agent_id": state.agent.id,
            "value_enc": None,
        }
        for secret in state.secrets
    ]
