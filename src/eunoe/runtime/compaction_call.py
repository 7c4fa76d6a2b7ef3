"""Compaction by call: what the API's ``summarize`` and ``compact`` do."""

from typing import Any

from msgspec import Struct

from eunoe.models.protocol import ModelRequest
from eunoe.runtime.commit import commit
from eunoe.runtime.compact import CompactionStats, Occasion, compact
from eunoe.runtime.compaction_settings import (
    check_compaction_settings,
    merge_compaction_settings,
    read_compaction_settings,
)
from eunoe.runtime.context_anchor import last_context_tokens
from eunoe.runtime.opening import state_in
from eunoe.runtime.prompts import conversation_model, current_prompt
from eunoe.runtime.recovery import settle_lease
from eunoe.runtime.requests import schema_of
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.runtime.summaries import Note
from eunoe.state.errors import InvalidInput
from eunoe.store import conversations
from eunoe.store.database import Transaction


class CompactionOutcome(Struct, frozen=True, kw_only=True):
    """What a call of compaction did; the figures count the system message too. ``notes`` say what stood in."""

    summary: str
    num_messages_before: int
    num_messages_after: int
    stats: CompactionStats
    notes: tuple[Note, ...] = ()


async def compact_conversation(
    runtime: Runtime,
    agent_id: str,
    conversation_id: str | None = None,
    settings_override: dict[str, Any] | None = None,
) -> CompactionOutcome:
    """Compact a conversation now, whatever its size; ``settings_override`` is merged over the agent's settings.

    A run that holds the conversation is not disturbed: then it raises ``ConversationBusy``. A message that comes while
    the summary is made is let in and stays in view. Raises ``NotFound``, ``InvalidInput`` when the settings are not
    valid or nothing can go out of view, and ``StoreError``.
    """
    now = utc_now()

    def look(tx: Transaction) -> Occasion:
        state, conversation = state_in(tx, agent_id, conversation_id)
        settle_lease(tx, conversation, is_running=runtime.is_running, now=now)
        conversation = conversations.get(tx, conversation.id)
        model = conversation_model(runtime.models, state, conversation)
        window = conversations.window(tx, conversation)
        settings = state.agent.compaction_settings
        if settings_override:
            settings = merge_compaction_settings(settings, settings_override)
            check_compaction_settings(runtime.models, settings)
        return Occasion(
            request=ModelRequest(
                model=model,
                system=current_prompt(tx, state, conversation, model, now).text,
                messages=window,
                tools=tuple(schema_of(tool) for tool in state.tools),
                settings={**state.agent.model_settings, **(conversation.model_settings or {})},
            ),
            conversation=conversation,
            trigger="manual",
            settings=read_compaction_settings(settings),
            context_tokens=last_context_tokens(tx, window),
        )

    occasion = await commit(runtime.db, look)
    done = await compact(runtime.db, runtime.models, occasion, utc_now)
    if done is None:
        raise InvalidInput(
            f"Conversation {occasion.conversation.id} has no messages that could go out of view: it is empty, or all "
            "of them still wait for an answer."
        )
    return CompactionOutcome(
        summary=done.text,
        num_messages_before=done.stats.messages_count_before,
        num_messages_after=done.stats.messages_count_after,
        stats=done.stats,
        notes=done.notes,
    )
