"""Messages: append-only, and in the conversations that have them by position."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from msgspec import structs

from eunoe.state.errors import Conflict, NotFound
from eunoe.state.messages import POSITION_STEP, Message, Role
from eunoe.store import full_text
from eunoe.store.database import Row, Transaction
from eunoe.store.paging import Order, Page, Where, page_rows
from eunoe.store.rows import Shape, marks, micros

_MESSAGES: Final = Shape(Message, "messages", apart=("seq", "position"))

_KEPT: Final = 4_096
"""How many decoded messages are kept, by their rows."""
_SMALL: Final = 1_024
"""Characters of its parts up to which a message is kept decoded."""
_PARTS: Final = _MESSAGES.names.index("parts")

_PLACE: Final = "INSERT INTO conversation_messages (conversation_id, position, message_id) VALUES (?, ?, ?)"


class MessageQuery(Page, frozen=True, kw_only=True):
    """Which messages are wanted. With ``conversation_id`` they are sorted by position, else by ``seq``."""

    limit: int | None = 100
    order: Order = "desc"
    agent_id: str | None = None
    conversation_id: str | None = None
    roles: tuple[Role, ...] | None = None
    run_id: str | None = None


def append(tx: Transaction, conversation_id: str, messages: Sequence[Message], now: datetime) -> tuple[Message, ...]:
    """Add new messages at the end of a conversation and return them with ``seq`` and ``position``.

    Raises ``NotFound`` for the conversation.
    """
    if not messages:
        _next_position(tx, conversation_id)
        return ()
    tx.execute(
        "UPDATE conversations SET next_position = next_position + ?, last_message_at = ? WHERE id = ?",
        (len(messages) * POSITION_STEP, micros(now), conversation_id),
    )
    return append_reserved(tx, conversation_id, _next_position(tx, conversation_id), messages)


def append_reserved(
    tx: Transaction, conversation_id: str, next_position: int, messages: Sequence[Message]
) -> tuple[Message, ...]:
    """As ``append``, to the last places before ``next_position``, which were kept for them with the lease."""
    first = next_position - len(messages) * POSITION_STEP
    return tuple(
        _store(tx, conversation_id, structs.replace(message, position=first + index * POSITION_STEP))
        for index, message in enumerate(messages)
    )


def insert_after(tx: Transaction, conversation_id: str, message: Message, after_position: int) -> Message:
    """Add a new message between a position and the next one, to heal a history (I3), and return it as stored.

    After the last message it goes to the end. Raises ``NotFound`` for the conversation, and ``Conflict`` when there is
    no place left between the two.
    """
    next_position = _next_position(tx, conversation_id)
    row = tx.row(
        "SELECT MIN(position) FROM conversation_messages WHERE conversation_id = ? AND position > ?",
        (conversation_id, after_position),
    )
    following: int | None = row[0] if row is not None else None
    if following is None:
        position = next_position
        tx.execute(
            "UPDATE conversations SET next_position = ? WHERE id = ?", (position + POSITION_STEP, conversation_id)
        )
    elif following - after_position < 2:
        raise Conflict(
            f"Conversation {conversation_id} has no place left for a message between the positions {after_position} "
            f"and {following}. Fork the conversation from an earlier message, or start a new one.",
            conversation_id=conversation_id,
            position=after_position,
        )
    else:
        position = (after_position + following) // 2
    return _store(tx, conversation_id, structs.replace(message, position=position))


def get(tx: Transaction, message_id: str, *, conversation_id: str | None = None) -> Message:
    """Return a message, with its position in that conversation, or else in the one that it was written in.

    Raises ``NotFound``.
    """
    wanted = "?" if conversation_id is not None else "messages.conversation_id"
    params = [conversation_id, message_id] if conversation_id is not None else [message_id]
    row = tx.row(
        f"SELECT {_MESSAGES.columns}, messages.seq, COALESCE(cm.position, 0) FROM messages "
        f"LEFT JOIN conversation_messages cm ON cm.message_id = messages.id AND cm.conversation_id = {wanted} "
        f"WHERE messages.id = ?",
        params,
    )
    if row is None:
        raise NotFound("Message", message_id)
    return _read(row)


def tail(
    tx: Transaction, conversation_id: str, from_position: int, to_position: int | None = None
) -> tuple[Message, ...]:
    """Return a conversation's messages from a position on (up to another, included), without summaries."""
    where = Where()
    where.equals("cm.conversation_id", conversation_id)
    where.add("cm.position >= ?", from_position)
    if to_position is not None:
        where.add("cm.position <= ?", to_position)
    where.add("messages.role <> 'summary'")
    rows = tx.rows(
        f"SELECT {_MESSAGES.columns}, messages.seq, cm.position FROM conversation_messages cm "
        f"JOIN messages ON messages.id = cm.message_id{where.sql()} ORDER BY cm.position",
        where.params,
    )
    return tuple(_read(row) for row in rows)


def span(
    tx: Transaction, conversation_id: str, from_position: int, to_position: int, to_seq: int | None = None
) -> list[Message]:
    """Return a conversation's messages between two positions, both included, without summaries.

    With ``to_seq``, only those that were stored by then (whose ``seq`` is not greater).
    """
    found = tail(tx, conversation_id, from_position, to_position)
    return [message for message in found if to_seq is None or message.seq <= to_seq]


def since(tx: Transaction, agent_id: str, after_seq: int, limit: int) -> list[Message]:
    """Return an agent's first messages after a ``seq``, of all its conversations, in the order they were stored in."""
    rows = tx.rows(
        f"SELECT {_MESSAGES.columns}, messages.seq, 0 FROM messages "
        f"WHERE messages.agent_id = ? AND messages.seq > ? ORDER BY messages.seq LIMIT ?",
        (agent_id, after_seq, limit),
    )
    return [_read(row) for row in rows]


def page(tx: Transaction, query: MessageQuery) -> list[Message]:
    """Return a page of messages. Raises ``NotFound`` for a cursor that is not a message of this list's."""
    if query.conversation_id is not None:
        source = "conversation_messages cm JOIN messages ON messages.id = cm.message_id"
        key = "cm.position"
    else:
        source = (
            "messages LEFT JOIN conversation_messages cm "
            "ON cm.message_id = messages.id AND cm.conversation_id = messages.conversation_id"
        )
        key = "messages.seq"
    scope = _scope(query.agent_id, query.conversation_id)

    def place_of(cursor: str) -> Sequence[Any]:
        sql = f"SELECT {key}, messages.id FROM {source} WHERE {' AND '.join([*scope.clauses, 'messages.id = ?'])}"
        found = tx.row(sql, [*scope.params, cursor])
        if found is None:
            agent = "" if query.agent_id is None else f" for agent '{query.agent_id}'"
            raise NotFound("Message", cursor, f"No message found with id '{cursor}'{agent}.")
        return found

    where = _scope(query.agent_id, query.conversation_id)
    where.one_of("messages.role", query.roles)
    where.equals("messages.run_id", query.run_id)
    select = f"SELECT {_MESSAGES.columns}, messages.seq, COALESCE(cm.position, 0) FROM {source}"
    rows = page_rows(tx, select, where, query, key=key, id_column="messages.id", place_of=place_of)
    return [_read(row) for row in rows]


def run_of_otids(tx: Transaction, conversation_id: str, otids: Sequence[str]) -> str | None:
    """Return the run whose request brought a message with one of these otids to a conversation, if there is one."""
    row = tx.row(
        f"SELECT run_id FROM messages WHERE conversation_id = ? AND otid IN ({marks(otids)}) AND run_id IS NOT NULL "
        f"ORDER BY seq DESC LIMIT 1",
        [conversation_id, *otids],
    )
    return None if row is None else row[0]


def count(tx: Transaction, agent_id: str, conversation_id: str | None = None) -> int:
    """Return how many messages an agent has, or one of its conversations."""
    where = _scope(agent_id, conversation_id)
    source = "messages"
    if conversation_id is not None:
        source = "conversation_messages cm JOIN messages ON messages.id = cm.message_id"
    row = tx.row(f"SELECT COUNT(*) FROM {source}{where.sql()}", where.params)
    return row[0] if row is not None else 0


def search(
    tx: Transaction,
    agent_id: str,
    query: str | None,
    *,
    roles: Sequence[Role] | None = None,
    limit: int = 50,
    start: datetime | None = None,
    end: datetime | None = None,
) -> list[Message]:
    """Return an agent's messages that contain every word of the query, newest first, in all its conversations.

    Without a query (or with a blank one) every message matches. ``start`` and ``end`` bound the time of creation,
    both included. What was stored since the last ``full_text.catch_up`` is not found by its words.
    """
    where = _scope(agent_id, None)
    source, order = "messages", "messages.seq DESC"
    if query is not None and query.strip():
        source, order = full_text.SOURCE, full_text.NEWEST_FIRST
        full_text.want(tx, where, query)
    where.one_of("messages.role", roles)
    if start is not None:
        where.add("messages.created_at >= ?", micros(start))
    if end is not None:
        where.add("messages.created_at <= ?", micros(end))
    rows = tx.rows(
        f"SELECT {_MESSAGES.columns}, messages.seq, COALESCE(cm.position, 0) FROM {source} "
        f"LEFT JOIN conversation_messages cm "
        f"ON cm.message_id = messages.id AND cm.conversation_id = messages.conversation_id{where.sql()} "
        f"ORDER BY {order} LIMIT ?",
        [*where.params, limit],
    )
    return [_read(row) for row in rows]


def delete_all(tx: Transaction, agent_id: str) -> None:
    """Delete every message of an agent; its conversations stay, empty, and positions go on growing."""
    tx.execute("DELETE FROM messages WHERE agent_id = ?", (agent_id,))
    tx.execute(
        "UPDATE conversations SET window_from = next_position, summary_message_id = NULL, last_message_at = NULL "
        "WHERE agent_id = ?",
        (agent_id,),
    )


def nowhere(tx: Transaction, agent_id: str) -> list[str]:
    """Return the ids of an agent's messages that are in no conversation, oldest first: their places are lost."""
    rows = tx.rows(
        "SELECT id FROM messages WHERE agent_id = ? AND NOT EXISTS "
        "(SELECT 1 FROM conversation_messages cm WHERE cm.message_id = messages.id) ORDER BY seq",
        (agent_id,),
    )
    return [message_id for (message_id,) in rows]


def put_back(tx: Transaction, message_id: str) -> bool:
    """Give a message that is in no conversation a place in the one it was written in, by its ``seq``.

    Says whether there was a place. Raises ``NotFound`` for the message.
    """
    message = get(tx, message_id)
    row = tx.row(
        "SELECT MAX(cm.position) FROM conversation_messages cm JOIN messages ON messages.id = cm.message_id "
        "WHERE cm.conversation_id = ? AND messages.seq < ?",
        (message.conversation_id, message.seq),
    )
    before: int = row[0] if row is not None and row[0] is not None else 0
    following = tx.row(
        "SELECT COALESCE((SELECT MIN(cm.position) FROM conversation_messages cm "
        "WHERE cm.conversation_id = c.id AND cm.position > ?), c.next_position) FROM conversations c WHERE c.id = ?",
        (before, message.conversation_id),
    )
    if following is None or following[0] - before < 2:
        return False
    tx.execute(_PLACE, (message.conversation_id, (before + following[0]) // 2, message_id))
    return True


def _next_position(tx: Transaction, conversation_id: str) -> int:
    row = tx.row("SELECT next_position FROM conversations WHERE id = ?", (conversation_id,))
    if row is None:
        raise NotFound("Conversation", conversation_id)
    return row[0]


def _store(tx: Transaction, conversation_id: str, message: Message) -> Message:
    seq = tx.insert(_MESSAGES.insert, _MESSAGES.values(message))
    tx.execute(_PLACE, (conversation_id, message.position, message.id))
    return structs.replace(message, seq=seq)


def _scope(agent_id: str | None, conversation_id: str | None) -> Where:
    where = Where()
    where.equals("messages.agent_id", agent_id)
    where.equals("cm.conversation_id", conversation_id)
    return where


def _read(row: Row) -> Message:
    return _kept(row) if len(str(row[_PARTS])) <= _SMALL else _decoded(row)


def _decoded(row: Row) -> Message:
    return _MESSAGES.read(row, seq=row[-2], position=row[-1])


# Each turn reads its whole window, nearly all of which the turn before has read.
_kept: Final = lru_cache(maxsize=_KEPT)(_decoded)
