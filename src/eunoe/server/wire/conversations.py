"""Conversations: what clients send about them, and how they are shown."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from eunoe.models.settings import read_settings
from eunoe.runtime.conversations import ConversationChanges, ConversationSpec
from eunoe.server.wire.dates import instant
from eunoe.server.wire.domain import check_handle
from eunoe.server.wire.requests import Count, MessageBody, Moment
from eunoe.server.wire.tools import OWNER
from eunoe.server.wire.turns import new_messages
from eunoe.state.conversations import Conversation


class ResumeBody(Struct, kw_only=True):
    """Which run to tell, and from where: what has a number up to ``starting_after`` is left out."""

    run_id: str | None = None
    otid: str | None = None
    agent_id: str | None = None
    starting_after: Count = 0
    include_pings: bool | None = True


class CompactBody(Struct, kw_only=True):
    """Settings for this compaction only, over the agent's own."""

    compaction_settings: dict[str, Any] | None = None


class ConversationCompactBody(CompactBody, kw_only=True):
    """As ``CompactBody``, for a conversation."""

    agent_id: str | None = None


class ConversationRecompileBody(Struct, kw_only=True):
    """Whose ``default`` conversation."""

    agent_id: str | None = None


class ConversationBody(Struct, kw_only=True):
    """A new conversation. ``messages`` are Eunoe's own: what the conversation begins with, oldest first."""

    summary: str | None = None
    isolated_block_labels: list[str] | None = None
    model: str | None = None
    model_settings: dict[str, Any] | None = None
    messages: list[MessageBody] | None = None


class ConversationPatch(Struct, kw_only=True):
    """A change of a conversation. ``null`` takes back what was set, so that the agent's own is used again."""

    summary: str | None | UnsetType = UNSET
    model: str | None | UnsetType = UNSET
    model_settings: dict[str, Any] | None | UnsetType = UNSET
    last_message_at: Moment | None = None


def conversation(value: Conversation, window: Sequence[str], isolated_block_ids: Sequence[str]) -> dict[str, Any]:
    """Return the wire's conversation object; its key order is the wire's.

    ``window`` is the system message and what follows it; alone, the system message is not told.
    """
    return {
        "created_by_id": OWNER,
        "last_updated_by_id": OWNER,
        "created_at": instant(value.created_at),
        "updated_at": instant(value.updated_at),
        "id": value.id,
        "agent_id": value.agent_id,
        "summary": value.summary,
        "in_context_message_ids": list(window) if len(window) > 1 else [],
        "isolated_block_ids": list(isolated_block_ids),
        "model": value.model,
        "model_settings": value.model_settings,
        "last_message_at": instant(value.last_message_at),
    }


def conversation_spec(agent_id: str, body: ConversationBody) -> ConversationSpec:
    """Return what a new conversation shall be. Raises ``InvalidInput`` for a value that a setting cannot have."""
    if body.model_settings:
        read_settings(body.model_settings)
    return ConversationSpec(
        agent_id=agent_id,
        summary=body.summary,
        isolated_block_labels=tuple(body.isolated_block_labels or ()),
        model=check_handle(body.model),
        model_settings=body.model_settings,
        messages=new_messages(body.messages or ()),
    )


def conversation_changes(body: ConversationPatch) -> ConversationChanges:
    """Return what shall change of a conversation. Raises as ``conversation_spec``."""
    if isinstance(body.model_settings, dict):
        read_settings(body.model_settings)
    return ConversationChanges(
        summary=body.summary,
        model=body.model if isinstance(body.model, UnsetType) else check_handle(body.model),
        model_settings=body.model_settings,
        last_message_at=UNSET if body.last_message_at is None else body.last_message_at,
    )
