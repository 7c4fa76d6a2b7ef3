"""Texts that are stored once, under the hash of their content."""

import hashlib

from eunoe.state.errors import NotFound, StoreError
from eunoe.store.database import Transaction


def put(tx: Transaction, text: str) -> str:
    """Store a text unless it is stored already, and return its SHA-256 (hex, of the UTF-8 bytes).

    One that was damaged in the store is put right.
    """
    key = hashlib.sha256(text.encode()).hexdigest()
    tx.execute(
        "INSERT INTO texts (hash, text) VALUES (?, ?) ON CONFLICT (hash) "
        "DO UPDATE SET text = excluded.text WHERE texts.text <> excluded.text",
        (key, text),
    )
    return key


def get(tx: Transaction, key: str) -> str:
    """Return the text of this hash. Raises ``NotFound``, and ``StoreError`` when the text has another hash by now."""
    row = tx.row("SELECT text FROM texts WHERE hash = ?", (key,))
    if row is None:
        raise NotFound("Text", key)
    text: str = row[0]
    if hashlib.sha256(text.encode()).hexdigest() != key:
        raise StoreError(
            f"The stored text {key} is damaged: it does not have the hash that names it. Repair the agent whose prompt "
            f"it is, or restore the store from a backup."
        )
    return text
