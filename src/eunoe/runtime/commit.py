"""Transactions whose outcome must be known, even to a task that is cancelled meanwhile."""

from collections.abc import Callable
from typing import TypeVar

import anyio

from eunoe.store.database import Database, Transaction

T = TypeVar("T")


async def commit(database: Database, work: Callable[[Transaction], T]) -> T:
    """Run a write transaction to its end, shielded from cancellation; the store bounds how long that can take."""
    outcome: list[T] = []
    with anyio.CancelScope(shield=True):
        outcome.append(await database.write(work))
    return outcome[0]
