"""Storing the events of a background run before anyone is told them, so that a stream can be resumed after a crash."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

import anyio

from eunoe.runtime.commit import commit
from eunoe.runtime.handles import RunHandle
from eunoe.state.events import Event
from eunoe.store import run_events
from eunoe.store.database import Database


@asynccontextmanager
async def recording(
    database: Database, handle: RunHandle, now: Callable[[], datetime]
) -> AsyncGenerator[Callable[[Event], None], None]:
    """Give a function that takes events; each is stored, in batches, and then published by the handle.

    Events are numbered from 1 without gaps. On leaving, everything taken is stored and published.
    """
    taken: list[Event] = []
    grown = anyio.Event()
    closing = False

    def emit(event: Event) -> None:
        taken.append(event)
        grown.set()

    async def store_batch(first: int) -> int:
        batch = taken.copy()
        taken.clear()
        if batch:
            await commit(database, lambda tx: run_events.append(tx, handle.run_id, first, batch, now()))
        for event in batch:
            handle.publish(event)
        return first + len(batch)

    async def store() -> None:
        nonlocal grown
        seq = 1
        while taken or not closing:
            await grown.wait()
            grown = anyio.Event()
            seq = await store_batch(seq)

    async with anyio.create_task_group() as group:
        group.start_soon(store)
        try:
            yield emit
        finally:
            closing = True
            grown.set()
