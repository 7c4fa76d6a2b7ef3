"""The stores that must all pass this suite: add a backend to ``OPENERS``, and every test here runs on it too."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from store_examples import Store

from eunoe.store.database import Database
from eunoe.store.sqlite import open_sqlite


async def _sqlite(folder: Path) -> Database:
    return await open_sqlite(folder / "eunoe.db")


OPENERS: Final[dict[str, Callable[[Path], Awaitable[Database]]]] = {"sqlite": _sqlite}


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal("asyncio") as portal:
        yield portal


@pytest.fixture(params=list(OPENERS))
def store(request: pytest.FixtureRequest, portal: BlockingPortal, tmp_path: Path) -> Iterator[Store]:
    opener = OPENERS[request.param]

    async def open_store() -> Database:
        return await opener(tmp_path)

    database = portal.call(open_store)
    yield Store(portal, database)
    portal.call(database.aclose)
