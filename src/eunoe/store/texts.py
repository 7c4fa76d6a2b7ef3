"""Texts that are stored once, under the hash of their content."""

import hashlib

from eunoe.state.errors import NotFound, StoreError
from eunoe.store.database import Transaction


def hash_of(text: str) -> str:
    """Return the address of a text: SHA-256 of its UTF-8 bytes, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def put(tx: Transaction, text: str) -> str:
    """Store a text unless it is stored already, and return its SHA-256 (hex, of the UTF-8 bytes).

    One that was damaged in the store is put right.
    """
    key = hash_of(text)
    put_hashed(tx, key, text)
    return key


def put_hashed(tx: Transaction, key: str, text: str) -> None:
    """As ``put``, for a text whose hash is known."""
    tx.execute(
        "INSERT INTO texts (hash, text) VALUES (?, ?) ON CONFLICT (hash) "
        "DO UPDATE SET text = excluded.text WHERE texts.text <> excluded.text",
        (key, text),
    )


def get(tx: Transaction, key: str) -> str:
    """Return the text of this hash. Raises ``NotFound``, and ``StoreError`` when the text has another hash by now."""
    row = tx.row("SELECT text FROM texts WHERE hash = ?", (key,))
    if row is None:
        raise NotFound("Text", key)
    text: object = row[0]
    if not isinstance(text, str) or hash_of(text) != key:
        raise StoreError(
            f"The stored text {key} is damaged: it does not have the hash that names it. Repair the agent whose prompt "
            f"it is, or restore the store from a backup."
        )
    return text
