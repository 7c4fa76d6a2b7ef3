"""What lists show by id or name alone, without reading the things themselves."""

from collections.abc import Sequence

from eunoe.state.conversations import Conversation
from eunoe.store.database import Transaction
from eunoe.store.paging import Order, like_pattern
from eunoe.store.rows import marks


def window_ids(tx: Transaction, conversations: Sequence[Conversation]) -> dict[str, tuple[str, ...]]:
    """Return, for each of these conversations, the ids of its window in order: the system message comes first."""
    if not conversations:
        return {}
    tails: dict[str, list[str]] = {conversation.id: [] for conversation in conversations}
    rows = tx.rows(
        f"SELECT cm.conversation_id, cm.message_id FROM conversation_messages cm "
        f"JOIN conversations ON conversations.id = cm.conversation_id "
        f"JOIN messages ON messages.id = cm.message_id "
        f"WHERE cm.conversation_id IN ({marks(tails)}) AND cm.position >= conversations.window_from "
        f"AND messages.role <> 'summary' ORDER BY cm.conversation_id, cm.position",
        list(tails),
    )
    for conversation_id, message_id in rows:
        tails[conversation_id].append(message_id)
    return {
        conversation.id: (
            conversation.system_message_id,
            *([conversation.summary_message_id] if conversation.summary_message_id else []),
            *tails[conversation.id],
        )
        for conversation in conversations
    }


def tag_names(
    tx: Transaction, *, before: str | None, after: str | None, limit: int, order: Order, containing: str | None
) -> list[str]:
    """Return the tags of agents and blocks by name, each once. ``before`` and ``after`` are tags, exclusive."""
    ascending = order == "asc"
    backwards = before is not None and after is None
    clauses, params = ["tag <> ''"], list[object]()
    if after is not None:
        clauses.append(f"tag {'>' if ascending else '<'} ?")
        params.append(after)
    if before is not None:
        clauses.append(f"tag {'<' if ascending else '>'} ?")
        params.append(before)
    if containing is not None:
        clauses.append("tag LIKE ? ESCAPE '\\'")
        params.append(like_pattern(containing))
    direction = "ASC" if ascending != backwards else "DESC"
    rows = tx.rows(
        f"SELECT tag FROM (SELECT tag FROM agent_tags UNION SELECT tag FROM block_tags) t "
        f"WHERE {' AND '.join(clauses)} ORDER BY tag {direction} LIMIT ?",
        [*params, limit],
    )
    names = [row[0] for row in rows]
    return names[::-1] if backwards else names
