"""Which messages contain given words: the one place where databases differ.

A message matches when it contains every word of the query, as a part of a word too, whatever the case of letters.
SQLite finds words of three characters or more by their trigrams, and shorter ones by reading the texts.
"""

from collections.abc import Sequence
from typing import Final

from eunoe.state.messages import Message, TextPart, ToolReturnPart
from eunoe.store.database import Transaction
from eunoe.store.paging import Where

_SEARCHED_ROLES: Final = frozenset({"user", "assistant", "tool", "summary"})

_TRIGRAM: Final = 3

SOURCE: Final = "message_search CROSS JOIN messages"
"""The tables to search. CROSS JOIN makes SQLite walk the index and look messages up, never the other way round."""

NEWEST_FIRST: Final = "message_search.rowid DESC"
"""The order in which the index can be walked, so that a search ends when it has enough."""


def searchable_text(message: Message) -> str:
    """Return what of a message is searched: its texts and the returns of its tools."""
    if message.role not in _SEARCHED_ROLES:
        return ""
    pieces: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            pieces.append(part.text)
        elif isinstance(part, ToolReturnPart):
            pieces.append(part.content)
    return "\n".join(pieces)


def add(tx: Transaction, messages: Sequence[Message]) -> None:
    """Make stored messages (which have their ``seq``) findable."""
    rows = [(message.seq, text) for message in messages if (text := searchable_text(message))]
    if rows:
        tx.execute_many("INSERT INTO message_search (rowid, text) VALUES (?, ?)", rows)


def want(tx: Transaction, where: Where, query: str) -> None:
    """Want messages that match. ``where`` is over ``SOURCE``."""
    words = query.split()
    long = [word for word in words if len(word) >= _TRIGRAM]
    where.add("messages.seq = message_search.rowid")
    if long:
        # In quotes a word is a literal, whatever operators of the full-text syntax it looks like.
        where.add("message_search MATCH ?", " ".join('"' + word.replace('"', '""') + '"' for word in long))
    for word in words:
        if len(word) < _TRIGRAM:
            where.contains(tx, "message_search.text", word)
