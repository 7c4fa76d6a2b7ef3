"""Steps of runs."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from eunoe.state.errors import NotFound
from eunoe.state.runs import Step, Usage
from eunoe.store.database import Transaction
from eunoe.store.paging import Page, Where, page_rows, place_in
from eunoe.store.rows import Shape, micros

_STEPS: Final = Shape(Step, "steps", fixed=("run_id", "agent_id", "conversation_id", "ordinal", "created_at"))


class _Cost(Struct, frozen=True, kw_only=True):
    """What a step cost."""

    id: str
    usage: Usage


_COSTS: Final = Shape(_Cost, "steps")


class StepQuery(Page, frozen=True, kw_only=True):
    """Which steps are wanted. ``start`` and ``end`` bound the time of creation, both included."""

    agent_id: str | None = None
    run_id: str | None = None
    model: str | None = None
    start: datetime | None = None
    end: datetime | None = None


def insert(tx: Transaction, step: Step) -> None:
    """Store a new step."""
    tx.execute(_STEPS.insert, _STEPS.values(step))


def update(tx: Transaction, step: Step) -> None:
    """Store a changed step. Raises ``NotFound``."""
    if tx.execute(_STEPS.update, _STEPS.new_values(step)) == 0:
        raise NotFound("Step", step.id)


def get(tx: Transaction, step_id: str) -> Step:
    """Return a step. Raises ``NotFound``."""
    row = tx.row(f"{_STEPS.select} WHERE id = ?", (step_id,))
    if row is None:
        raise NotFound("Step", step_id)
    return _STEPS.read(row)


def usage(tx: Transaction, step_id: str) -> Usage | None:
    """Return what a step cost, ``None`` for a step that is not there; cheaper than the whole step."""
    row = tx.row(f"{_COSTS.select} WHERE id = ?", (step_id,))
    return None if row is None else _COSTS.read(row).usage


def of_run(tx: Transaction, run_id: str) -> list[Step]:
    """Return the steps of a run in order."""
    return _STEPS.all(tx.rows(f"{_STEPS.select} WHERE run_id = ? ORDER BY ordinal", (run_id,)))


def page(tx: Transaction, query: StepQuery) -> list[Step]:
    """Return a page of steps by creation time. Raises ``NotFound`` for an unknown cursor."""
    where = Where()
    where.equals("steps.agent_id", query.agent_id)
    where.equals("steps.run_id", query.run_id)
    where.equals("steps.model", query.model)
    if query.start is not None:
        where.add("steps.created_at >= ?", micros(query.start))
    if query.end is not None:
        where.add("steps.created_at <= ?", micros(query.end))
    rows = page_rows(
        tx,
        _STEPS.select,
        where,
        query,
        key="steps.created_at",
        id_column="steps.id",
        place_of=place_in(tx, "steps", "steps.created_at", "Step"),
    )
    return _STEPS.all(rows)
