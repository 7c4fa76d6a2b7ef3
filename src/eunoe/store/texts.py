"""Texts that are stored once, under the hash of their content."""

import hashlib

from eunoe.state.errors import NotFound
from eunoe.store.database import Transaction


def put(tx: Transaction, text: str) -> str:
    """Store a text unless it is stored already, and return its SHA-256 (hex, of the UTF-8 bytes)."""
    key = hashlib.sha256(text.encode()).hexdigest()
    tx.execute("INSERT INTO texts (hash, text) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING", (key, text))
    return key


def get(tx: Transaction, key: str) -> str:
    """Return the text of this hash. Raises ``NotFound``."""
    row = tx.row("SELECT text FROM texts WHERE hash = ?", (key,))
    if row is None:
        raise NotFound("Text", key)
    return row[0]
