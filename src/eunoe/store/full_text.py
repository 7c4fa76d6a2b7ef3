"""Which messages contain given words: the one place where databases differ.

A message matches when it contains every word of the query, as a part of a word too, whatever the case of letters.
SQLite finds words of three characters or more by their trigrams, and shorter ones by reading the texts. Messages
become findable in batches, by ``catch_up``: an index that is written with each message costs a turn as much as all
else that it stores.
"""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from eunoe.state.messages import Part, TextPart, ToolReturnPart
from eunoe.store.database import Transaction
from eunoe.store.paging import Where

_SEARCHED_ROLES: Final = frozenset({"user", "assistant", "tool", "summary"})

_TRIGRAM: Final = 3

_PARTS: Final = msgspec.json.Decoder(tuple[Part, ...])

_log: Final = logging.getLogger(__name__)

SOURCE: Final = "message_search CROSS JOIN messages"
"""The tables to search. CROSS JOIN makes SQLite walk the index and look messages up, never the other way round."""

NEWEST_FIRST: Final = "message_search.rowid DESC"
"""The order in which the index can be walked, so that a search ends when it has enough."""

BATCH: Final = 256
"""How many messages ``catch_up`` indexes at most in one transaction, which keeps the writer for a few milliseconds."""


def searchable_text(role: str, parts: Sequence[Part]) -> str:
    """Return what of a message is searched: its texts and the returns of its tools."""
    if role not in _SEARCHED_ROLES:
        return ""
    pieces: list[str] = []
    for part in parts:
        if isinstance(part, TextPart):
            pieces.append(part.text)
        elif isinstance(part, ToolReturnPart):
            pieces.append(part.content)
    return "\n".join(pieces)


def catch_up(tx: Transaction) -> bool:
    """Make the next ``BATCH`` messages findable that are not yet, and say whether there may be more.

    Who searches catches up first; see ``messages.search``. A message whose row is damaged is passed by.
    """
    done = _progress(tx)
    # As bytes, so that one text that is no UTF-8 spoils no other.
    rows = tx.rows(
        "SELECT seq, CAST(role AS BLOB), CAST(parts AS BLOB) FROM messages WHERE seq > ? ORDER BY seq LIMIT ?",
        (done, BATCH),
    )
    if not rows:
        return False
    texts = [(seq, text) for seq, role, parts in rows if (text := _text_of_row(seq, role, parts))]
    if texts:
        tx.execute_many("INSERT INTO message_search (rowid, text) VALUES (?, ?)", texts)
    tx.execute("DELETE FROM message_search_progress")
    tx.execute("INSERT INTO message_search_progress (seq) VALUES (?)", (rows[-1][0],))
    return len(rows) == BATCH


def _progress(tx: Transaction) -> int:
    """Return the ``seq`` of the last message that was looked at; where that is lost, of the last that is indexed."""
    row = tx.row("SELECT seq FROM message_search_progress") or tx.row("SELECT MAX(rowid) FROM message_search")
    return row[0] or 0 if row is not None else 0


def _text_of_row(seq: int, role: bytes, parts: bytes) -> str:
    try:
        return searchable_text(role.decode(), _PARTS.decode(parts))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        _log.warning("message %d is damaged, so no search finds it: %s", seq, error)
        return ""


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
