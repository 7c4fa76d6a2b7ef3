"""Transactions whose outcome must be known, even to a task that is cancelled meanwhile."""

from collections.abc import Callable
from typing import TypeVar

import anyio

from eunoe.store.database import Database, Transaction

T = TypeVar("T")


async def commit(
    database: Database, work: Callable[[Transaction], T], meanwhile: Callable[[T], object] | None = None
) -> T:
    """Run a write transaction to its end, shielded from cancellation; the store bounds how long that can take.

    ``meanwhile`` is as in ``Database.write``.
    """
    outcome: list[T] = []
    with anyio.CancelScope(shield=True):
        outcome.append(await database.write(work, meanwhile))
    return outcome[0]
