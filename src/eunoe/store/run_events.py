"""The events of background runs, numbered from 1 without gaps, kept until they expire."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from eunoe.state.errors import StoreError
from eunoe.state.events import Event
from eunoe.store.database import Transaction
from eunoe.store.rows import micros, to_json

_DECODER = msgspec.json.Decoder(Event)


def append(tx: Transaction, run_id: str, first_seq: int, events: Sequence[Event], now: datetime) -> None:
    """Store events as numbers ``first_seq`` and following."""
    tx.execute_many(
        "INSERT INTO run_events (run_id, seq, event, created_at) VALUES (?, ?, ?, ?)",
        [(run_id, first_seq + index, to_json(event), micros(now)) for index, event in enumerate(events)],
    )


def last_seq(tx: Transaction, run_id: str) -> int:
    """Return the number of the newest event of a run, 0 when there is none."""
    row = tx.row("SELECT COALESCE(MAX(seq), 0) FROM run_events WHERE run_id = ?", (run_id,))
    return row[0] if row is not None else 0


def of_run(tx: Transaction, run_id: str) -> list[Event]:
    """Return all stored events of a run in order. Raises ``StoreError`` for one that is damaged."""
    rows = tx.rows("SELECT event FROM run_events WHERE run_id = ? ORDER BY seq", (run_id,))
    try:
        return [_DECODER.decode(event) for (event,) in rows]
    except (msgspec.DecodeError, TypeError) as error:
        raise StoreError(
            f"The stored events of run {run_id} are damaged and cannot be told ({error}). What was said is in the "
            f"conversation's messages."
        ) from error


def forget(tx: Transaction, older_than: datetime) -> int:
    """Delete the events of runs that ended before this time, and return how many there were."""
    return tx.execute(
        "DELETE FROM run_events WHERE run_id IN (SELECT id FROM runs WHERE completed_at < ?)", (micros(older_than),)
    )
