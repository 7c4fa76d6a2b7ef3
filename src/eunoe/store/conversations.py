"""Conversations: their windows, their compiled prompts, and the leases that runs hold on them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import structs

from eunoe.state.conversations import Compiled, Conversation
from eunoe.state.errors import LeaseLost, NotFound
from eunoe.state.messages import POSITION_STEP, Message
from eunoe.store import messages
from eunoe.store.database import Transaction
from eunoe.store.paging import Page, Where, page_rows, place_in
from eunoe.store.presence import require_agent
from eunoe.store.rows import Shape, marks, micros, to_json

_CONVERSATIONS: Final = Shape(Conversation, "conversations", fixed=("agent_id", "is_default", "created_at"))

# These are written by their own functions only, so that an update from an older reading cannot undo them.
_KEPT_APART: Final = (
    "next_position",
    "last_message_at",
    "fence",
    "lease_run_id",
    "lease_owner",
    "lease_expires_at",
    "created_at",
)

_SORT_KEYS: Final = {
    "created_at": "conversations.created_at",
    "last_message_at": "COALESCE(conversations.last_message_at, 0)",
    "last_run_completion": (
        "COALESCE((SELECT r.completed_at FROM runs r WHERE r.conversation_id = conversations.id "
        "AND r.completed_at IS NOT NULL ORDER BY r.created_at DESC LIMIT 1), 0)"
    ),
}


class ConversationQuery(Page, frozen=True, kw_only=True):
    """Which conversations are wanted. ``summary_search`` must occur in the summary, whatever the case of letters."""

    order_by: Literal["created_at", "last_message_at", "last_run_completion"] = "created_at"
    agent_id: str | None = None
    summary_search: str | None = None
    include_default: bool = False


def insert(tx: Transaction, conversation: Conversation) -> None:
    """Store a new conversation. Raises ``NotFound`` for its agent."""
    require_agent(tx, conversation.agent_id)
    tx.execute(_CONVERSATIONS.insert, _CONVERSATIONS.values(conversation))


def fork(tx: Transaction, source_id: str, target: Conversation, *, up_to: int | None = None) -> Conversation:
    """Store ``target`` as a new conversation with the source's messages and window, and return it.

    The messages themselves are shared, at the same positions; no lease is taken over. ``up_to`` is the position of the
    last message to take (all of them, if ``None``); when it lies before the source's window, the new window holds
    everything that was taken, without the summary. Raises ``NotFound``.
    """
    source = get(tx, source_id)
    last = source.next_position - POSITION_STEP if up_to is None else up_to
    evicted = last < source.window_from and up_to is not None
    summary = None if evicted else source.summary_message_id
    made = structs.replace(
        target,
        window_from=0 if evicted else source.window_from,
        summary_message_id=summary,
        next_position=last + POSITION_STEP,
        last_message_at=source.last_message_at,
    )
    insert(tx, made)
    tx.execute(
        "INSERT INTO conversation_messages (conversation_id, position, message_id) "
        "SELECT ?, position, message_id FROM conversation_messages WHERE conversation_id = ? AND position <= ?",
        (made.id, source_id, last),
    )
    return made if summary is None else _with_summary(tx, made, summary)


def _with_summary(tx: Transaction, fork: Conversation, summary_id: str) -> Conversation:
    """Give a fork its summary at the end, if that was written after the place of the fork: else it could be deleted."""
    placed = tx.execute(
        "INSERT INTO conversation_messages (conversation_id, position, message_id) VALUES (?, ?, ?) "
        "ON CONFLICT (message_id, conversation_id) DO NOTHING",
        (fork.id, fork.next_position, summary_id),
    )
    if placed == 0:
        return fork
    tx.execute("UPDATE conversations SET next_position = next_position + ? WHERE id = ?", (POSITION_STEP, fork.id))
    return get(tx, fork.id)


def get(tx: Transaction, conversation_id: str) -> Conversation:
    """Return a conversation. Raises ``NotFound``."""
    row = tx.row(f"{_CONVERSATIONS.select} WHERE id = ?", (conversation_id,))
    if row is None:
        raise NotFound("Conversation", conversation_id)
    return _CONVERSATIONS.read(row)


def default(tx: Transaction, agent_id: str) -> Conversation:
    """Return the agent's default conversation. Raises ``NotFound`` for the agent."""
    require_agent(tx, agent_id)
    return defaults(tx, [agent_id])[agent_id]


def defaults(tx: Transaction, agent_ids: Sequence[str]) -> dict[str, Conversation]:
    """Return the default conversation of each of these agents. Raises ``NotFound`` when one has none."""
    if not agent_ids:
        return {}
    rows = tx.rows(f"{_CONVERSATIONS.select} WHERE is_default = 1 AND agent_id IN ({marks(agent_ids)})", agent_ids)
    found = {conversation.agent_id: conversation for conversation in _CONVERSATIONS.all(rows)}
    for agent_id in agent_ids:
        if agent_id not in found:
            raise NotFound("Conversation", "default", f"Agent {agent_id} has no default conversation")
    return found


def of_agent(tx: Transaction, agent_id: str) -> list[Conversation]:
    """Return all conversations of an agent, the default one first, then by creation time."""
    return _CONVERSATIONS.all(
        tx.rows(f"{_CONVERSATIONS.select} WHERE agent_id = ? ORDER BY is_default DESC, created_at, id", (agent_id,))
    )


def page(tx: Transaction, query: ConversationQuery) -> list[Conversation]:
    """Return a page of conversations. Raises ``NotFound`` for an unknown cursor."""
    where = Where()
    where.equals("conversations.agent_id", query.agent_id)
    where.contains(tx, "conversations.summary", query.summary_search)
    if not query.include_default:
        where.add("conversations.is_default = 0")
    key = _SORT_KEYS[query.order_by]
    rows = page_rows(
        tx,
        _CONVERSATIONS.select,
        where,
        query,
        key=key,
        id_column="conversations.id",
        place_of=place_in(tx, "conversations", key, "Conversation"),
    )
    return _CONVERSATIONS.all(rows)


def update(tx: Transaction, conversation: Conversation, now: datetime) -> Conversation:
    """Store a changed conversation and return it as it is then. Raises ``NotFound``.

    The lease, ``next_position`` and ``last_message_at`` stay as stored; they have functions of their own.
    """
    stored = get(tx, conversation.id)
    kept = {name: getattr(stored, name) for name in _KEPT_APART}
    changed = structs.replace(conversation, **kept, updated_at=now)
    tx.execute(_CONVERSATIONS.update, _CONVERSATIONS.new_values(changed))
    return changed


def set_last_message_at(tx: Transaction, conversation_id: str, moment: datetime) -> None:
    """Record when a conversation was last written to, for what was said elsewhere. Raises ``NotFound``."""
    if tx.execute("UPDATE conversations SET last_message_at = ? WHERE id = ?", (micros(moment), conversation_id)) == 0:
        raise NotFound("Conversation", conversation_id)


def set_compiled(tx: Transaction, conversation_id: str, compiled: Compiled | None) -> None:
    """Record what the conversation's system message was made from (I5). Raises ``NotFound``."""
    text = None if compiled is None else to_json(compiled)
    if tx.execute("UPDATE conversations SET compiled = ? WHERE id = ?", (text, conversation_id)) == 0:
        raise NotFound("Conversation", conversation_id)


def delete(tx: Transaction, conversation_id: str) -> None:
    """Delete a conversation with its runs, and those of its messages that no other one has. Raises ``NotFound``."""
    own = tx.rows("SELECT message_id FROM conversation_messages WHERE conversation_id = ?", (conversation_id,))
    if tx.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,)) == 0:
        raise NotFound("Conversation", conversation_id)
    if own:
        tx.execute_many(
            "DELETE FROM messages WHERE id = ? AND NOT EXISTS "
            "(SELECT 1 FROM conversation_messages cm WHERE cm.message_id = messages.id)",
            own,
        )


def window(tx: Transaction, conversation: Conversation) -> tuple[Message, ...]:
    """Return the conversation's window without the system message: the summary if there is one, then the tail.

    Summaries are no part of the tail: the present one comes first, and it stands for the older ones too.
    """
    tail = messages.tail(tx, conversation.id, conversation.window_from)
    if conversation.summary_message_id is None:
        return tail
    return (messages.get(tx, conversation.summary_message_id, conversation_id=conversation.id), *tail)


def take_lease(
    tx: Transaction,
    conversation_id: str,
    *,
    run_id: str,
    owner: str,
    now: datetime,
    expires_at: datetime | None,
    places: int = 0,
) -> Conversation:
    """Give the lease to a run, whoever holds it, and return the conversation with its new fencing number (I11).

    Whether the lease may be taken is for the caller to decide, in the same transaction. Without ``expires_at`` it
    lasts as long as its owner lives. ``places`` are kept at the end, for as many new messages of the run. Raises
    ``NotFound``.
    """
    # What is changed is read apart: SQLite takes twice as long to return it with the change.
    tx.execute(
        "UPDATE conversations SET fence = fence + 1, lease_run_id = ?, lease_owner = ?, lease_expires_at = ?, "
        "updated_at = ?, next_position = next_position + ?, last_message_at = COALESCE(?, last_message_at) "
        "WHERE id = ?",
        (
            run_id,
            owner,
            None if expires_at is None else micros(expires_at),
            micros(now),
            places * POSITION_STEP,
            micros(now) if places else None,
            conversation_id,
        ),
    )
    return get(tx, conversation_id)


def hold(tx: Transaction, conversation_id: str, fence: int) -> None:
    """Make sure that the lease with this fencing number still holds. Raises ``NotFound`` and ``LeaseLost``."""
    current = _fence(tx, conversation_id)
    if current != fence:
        raise LeaseLost(
            f"This run no longer holds conversation {conversation_id}: another run took over (fence {current}, "
            f"this run's is {fence}). Nothing of this step was stored.",
            conversation_id=conversation_id,
            fence=fence,
            current_fence=current,
        )


def hold_places(tx: Transaction, conversation_id: str, fence: int, places: int, now: datetime) -> int:
    """As ``hold``, and keep so many places at the end for new messages; returns the position after them."""
    changed = tx.execute(
        "UPDATE conversations SET next_position = next_position + ?, last_message_at = ? WHERE id = ? AND fence = ?",
        (places * POSITION_STEP, micros(now), conversation_id, fence),
    )
    row = tx.row("SELECT next_position FROM conversations WHERE id = ?", (conversation_id,)) if changed else None
    if row is None:
        hold(tx, conversation_id, fence)
        raise AssertionError("a lease that holds lets its holder write")
    return row[0]


def release_lease(tx: Transaction, conversation_id: str, fence: int) -> bool:
    """Give the lease back, and say whether this fencing number still held it."""
    changed = tx.execute(
        "UPDATE conversations SET lease_run_id = NULL, lease_owner = NULL, lease_expires_at = NULL "
        "WHERE id = ? AND fence = ? AND lease_run_id IS NOT NULL",
        (conversation_id, fence),
    )
    return changed == 1


def _fence(tx: Transaction, conversation_id: str) -> int:
    row = tx.row("SELECT fence FROM conversations WHERE id = ?", (conversation_id,))
    if row is None:
        raise NotFound("Conversation", conversation_id)
    return row[0]
