"""Runs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from eunoe.state.errors import NotFound
from eunoe.state.runs import Run
from eunoe.store.database import Transaction
from eunoe.store.paging import Page, Where, page_rows, place_in
from eunoe.store.rows import Shape, marks, micros

_RUNS: Final = Shape(Run, "runs", fixed=("agent_id", "conversation_id", "created_at"))

_UNFINISHED: Final = "runs.status IN ('created', 'running')"


class RunQuery(Page, frozen=True, kw_only=True):
    """Which runs are wanted. ``active`` wants those that have not ended."""

    limit: int | None = 100
    agent_id: str | None = None
    agent_ids: tuple[str, ...] | None = None
    statuses: tuple[str, ...] | None = None
    background: bool | None = None
    stop_reason: str | None = None
    conversation_id: str | None = None
    active: bool = False


def insert(tx: Transaction, run: Run) -> None:
    """Store a new run."""
    tx.execute(_RUNS.insert, _RUNS.values(run))


def update(tx: Transaction, run: Run) -> None:
    """Store a changed run. Raises ``NotFound``."""
    if tx.execute(_RUNS.update, _RUNS.new_values(run)) == 0:
        raise NotFound("Run", run.id)


def delete(tx: Transaction, run_id: str) -> None:
    """Delete a run with its steps and events; its messages stay. Raises ``NotFound``."""
    if tx.execute("DELETE FROM runs WHERE id = ?", (run_id,)) == 0:
        raise NotFound("Run", run_id)


def get(tx: Transaction, run_id: str) -> Run:
    """Return a run. Raises ``NotFound``."""
    row = tx.row(f"{_RUNS.select} WHERE id = ?", (run_id,))
    if row is None:
        raise NotFound("Run", run_id)
    return _RUNS.read(row)


def unfinished(tx: Transaction) -> list[Run]:
    """Return every run that has not ended, oldest first: what a new process has to look after."""
    return _RUNS.all(tx.rows(f"{_RUNS.select} WHERE {_UNFINISHED} ORDER BY created_at, id"))


def ask_to_cancel(tx: Transaction, run_id: str, now: datetime) -> None:
    """Leave a request for the process that carries this run to cancel it. Asking twice is the same as once."""
    tx.execute(
        "INSERT INTO cancel_requests (run_id, asked_at) VALUES (?, ?) ON CONFLICT (run_id) DO NOTHING",
        (run_id, micros(now)),
    )


def asked_to_cancel(tx: Transaction, run_ids: Sequence[str]) -> list[str]:
    """Return those of these runs that were asked to cancel."""
    return [
        row[0] for row in tx.rows(f"SELECT run_id FROM cancel_requests WHERE run_id IN ({marks(run_ids)})", run_ids)
    ]


def page(tx: Transaction, query: RunQuery) -> list[Run]:
    """Return a page of runs by creation time. Raises ``NotFound`` for an unknown cursor."""
    where = Where()
    where.equals("runs.agent_id", query.agent_id)
    where.one_of("runs.agent_id", query.agent_ids)
    where.one_of("runs.status", query.statuses)
    where.equals("runs.background", None if query.background is None else int(query.background))
    where.equals("runs.stop_reason", query.stop_reason)
    where.equals("runs.conversation_id", query.conversation_id)
    if query.active:
        where.add(_UNFINISHED)
    rows = page_rows(
        tx,
        _RUNS.select,
        where,
        query,
        key="runs.created_at",
        id_column="runs.id",
        place_of=place_in(tx, "runs", "runs.created_at", "Run"),
    )
    return _RUNS.all(rows)
