"""Conversations of an agent: begin one, fork one, change and end one."""

from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from eunoe.runtime.blocks import create_block
from eunoe.runtime.opening import new_message, state_in
from eunoe.runtime.prompts import conversation_model, refresh_prompt
from eunoe.runtime.recovery import close_broken_calls, settle_lease
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.blocks import Block, BlockSpec
from eunoe.state.conversations import Conversation
from eunoe.state.errors import Conflict, NotFound
from eunoe.state.ids import new_id
from eunoe.state.messages import NewMessage
from eunoe.store import blocks, conversations, isolated, messages
from eunoe.store.database import Transaction


class ConversationSpec(Struct, frozen=True, kw_only=True):
    """What a caller gives to begin a conversation.

    ``isolated_block_labels`` name blocks of the agent that the conversation gets copies of, for itself. ``messages``
    are stored as its beginning, in order, with their own times where they have them.
    """

    agent_id: str
    summary: str | None = None
    isolated_block_labels: tuple[str, ...] = ()
    model: str | None = None
    model_settings: dict[str, Any] | None = None
    messages: tuple[NewMessage, ...] = ()


class ConversationChanges(Struct, frozen=True, kw_only=True):
    """A partial update of a conversation: only the fields that are set change (I13)."""

    summary: str | None | UnsetType = UNSET
    model: str | None | UnsetType = UNSET
    model_settings: dict[str, Any] | None | UnsetType = UNSET
    last_message_at: datetime | UnsetType = UNSET


def _begin(agent_id: str, now: datetime) -> Conversation:
    return Conversation(
        id=new_id("conv"),
        agent_id=agent_id,
        is_default=False,
        system_message_id=new_id("message"),
        created_at=now,
        updated_at=now,
    )


def _copy(block: Block) -> BlockSpec:
    fields = {name: getattr(block, name) for name in BlockSpec.__struct_fields__}
    return BlockSpec(**fields)


def _isolate(tx: Transaction, conversation_id: str, agent_id: str, labels: tuple[str, ...], now: datetime) -> None:
    for label in dict.fromkeys(labels):
        block = create_block(tx, _copy(blocks.by_label(tx, agent_id, label)), now=now)
        isolated.put(tx, conversation_id, block)


def _compile(tx: Transaction, runtime: Runtime, conversation: Conversation, now: datetime) -> Conversation:
    state, stored = state_in(tx, conversation.agent_id, conversation.id)
    refresh_prompt(tx, state, stored, conversation_model(runtime.models, state, stored), now)
    return conversations.get(tx, conversation.id)


async def create_conversation(runtime: Runtime, spec: ConversationSpec) -> Conversation:
    """Begin a conversation in one transaction, its prompt compiled.

    Raises ``NotFound`` (agent, model, or a label that the agent does not have).
    """
    if spec.model is not None:
        await runtime.models.find(spec.model)
    now = utc_now()

    def create(tx: Transaction) -> Conversation:
        made = structs.replace(
            _begin(spec.agent_id, now), summary=spec.summary, model=spec.model, model_settings=spec.model_settings
        )
        conversations.insert(tx, made)
        _isolate(tx, made.id, spec.agent_id, spec.isolated_block_labels, now)
        given = [new_message(one, spec.agent_id, made.id, None, now) for one in spec.messages]
        if given:
            messages.append(tx, made.id, given, now)
        return _compile(tx, runtime, made, now)

    return await runtime.db.write(create)


async def fork_conversation(
    runtime: Runtime, agent_id: str, conversation_id: str | None = None, *, at_message_id: str | None = None
) -> Conversation:
    """Begin a conversation that has the same messages up to now, or up to ``at_message_id``, and goes on by itself.

    Messages are shared, not copied; the conversation's own blocks are copied. Calls that the cut leaves without a
    return are closed. Raises ``NotFound``.
    """
    now = utc_now()

    def fork(tx: Transaction) -> Conversation:
        state, source = state_in(tx, agent_id, conversation_id)
        at = None
        if at_message_id is not None:
            at = messages.get(tx, at_message_id, conversation_id=source.id).position
            if at == 0:
                raise NotFound(
                    "Message", at_message_id, f"Conversation {source.id} has no message {at_message_id} to fork at"
                )
        target = structs.replace(
            _begin(state.agent.id, now),
            summary=source.summary,
            model=source.model,
            model_settings=source.model_settings,
        )
        made = conversations.fork(tx, source.id, target, up_to=at)
        for block in isolated.of_conversation(tx, source.id):
            isolated.put(tx, made.id, create_block(tx, _copy(block), now=now))
        close_broken_calls(tx, made, run_id=None, now=now)
        return _compile(tx, runtime, made, now)

    return await runtime.db.write(fork)


async def update_conversation(runtime: Runtime, conversation_id: str, changes: ConversationChanges) -> Conversation:
    """Change the named fields. Settings merge by key; ``None`` takes an override back. Raises ``NotFound``."""
    if isinstance(changes.model, str):
        await runtime.models.find(changes.model)
    now = utc_now()

    def update(tx: Transaction) -> Conversation:
        conversation = conversations.get(tx, conversation_id)
        settings = conversation.model_settings
        if not isinstance(changes.model_settings, UnsetType):
            settings = None if changes.model_settings is None else {**(settings or {}), **changes.model_settings}
        changed = structs.replace(
            conversation,
            summary=conversation.summary if isinstance(changes.summary, UnsetType) else changes.summary,
            model=conversation.model if isinstance(changes.model, UnsetType) else changes.model,
            model_settings=settings,
        )
        if changed != conversation:
            conversations.update(tx, changed, now=now)
        if not isinstance(changes.last_message_at, UnsetType):
            conversations.set_last_message_at(tx, conversation_id, changes.last_message_at)
        return conversations.get(tx, conversation_id)

    return await runtime.db.write(update)


async def delete_conversation(runtime: Runtime, conversation_id: str) -> None:
    """Delete a conversation with its own blocks, and those of its messages that no other conversation has.

    Raises ``NotFound``, ``ConversationBusy`` while a run goes on, and ``Conflict`` for an agent's default conversation.
    """
    now = utc_now()

    def delete(tx: Transaction) -> None:
        conversation = conversations.get(tx, conversation_id)
        if conversation.is_default:
            raise Conflict(
                f"Conversation {conversation_id} is the default one of agent {conversation.agent_id} and cannot be "
                f"deleted. Reset the agent's messages, or delete the agent."
            )
        settle_lease(tx, conversation, is_running=runtime.is_running, now=now)
        isolated.delete_of(tx, conversation_id)
        conversations.delete(tx, conversation_id)

    await runtime.db.write(delete)
