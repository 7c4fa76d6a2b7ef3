"""Watching a run that is not in hand: one that ended, or one that another process carries."""

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import anyio
from msgspec import Struct

from eunoe.runtime.failures import describe_own_error
from eunoe.runtime.handles import RunHandle
from eunoe.runtime.recovery import untold
from eunoe.state.errors import EunoeError
from eunoe.state.events import Event, RunEnded, RunStarted
from eunoe.state.runs import Run, Usage
from eunoe.store import run_events, runs
from eunoe.store.database import Database, Transaction

_LOOK: Final = 0.2
"""Seconds between looks at a run that another process carries."""
_LATE: Final = timedelta(seconds=1)
"""How long after a background run's end its last events may still be on their way to the store."""


class Carrier(Protocol):
    """Who carries the runs of this process: the runtime, as far as watching needs it."""

    @property
    def db(self) -> Database:
        """The store."""
        ...

    def handle(self, run_id: str) -> RunHandle | None:
        """Return the handle of a run that goes on here."""
        ...

    def spawn(self, work: Callable[..., Coroutine[Any, Any, object]], *args: object) -> None:
        """Run something beside."""
        ...

    async def cancel(self, run_id: str) -> bool:
        """Cancel a run, wherever it goes on."""
        ...


class _Past(Struct, frozen=True, kw_only=True):
    run: Run
    events: list[Event]


def _read(tx: Transaction, run_id: str) -> _Past:
    """Return a run and what the store tells of it: its stored events, and what they lack once it is over."""
    run = runs.get(tx, run_id)
    started = RunStarted(run_id=run.id, agent_id=run.agent_id, conversation_id=run.conversation_id)
    events: list[Event] = run_events.of_run(tx, run_id) if run.background else [started]
    if run.completed_at is None or (events and isinstance(events[-1], RunEnded)):
        return _Past(run=run, events=events)
    if not run.background or datetime.now(UTC) - run.completed_at > _LATE:
        events += untold(tx, run, events)
    return _Past(run=run, events=events)


async def watch(carrier: Carrier, run_id: str) -> RunHandle:
    """Return a handle of any run, whoever carries it. Raises ``NotFound``.

    A background run is told with its events as they were numbered; any other that is over, with its messages.
    """
    live = carrier.handle(run_id)
    if live is not None:
        return live
    past = await carrier.db.read(lambda tx: _read(tx, run_id))
    handle = RunHandle(run_id, past.run.agent_id, cancel=lambda: carrier.spawn(carrier.cancel, run_id))
    for event in past.events:
        handle.publish(event)
    if handle.ended is None:
        carrier.spawn(_follow, carrier, handle, len(past.events))
    return handle


async def _follow(carrier: Carrier, handle: RunHandle, told: int) -> None:
    """Publish what comes of a run in another process, until it ends or cannot be read any more."""
    while handle.ended is None:
        await anyio.sleep(_LOOK)
        try:
            past = await carrier.db.read(lambda tx: _read(tx, handle.run_id))
        except EunoeError as error:
            # It was deleted, or the store fails: whoever watches is told so, and does not wait for ever.
            lost = describe_own_error(error)
            handle.publish(RunEnded(run_id=handle.run_id, stop_reason="error", usage=Usage(), step_count=0, error=lost))
            return
        for event in past.events[told:]:
            handle.publish(event)
        told = max(told, len(past.events))
