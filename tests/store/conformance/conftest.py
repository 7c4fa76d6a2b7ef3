"""The stores that must all pass this suite: add a backend to ``OPENERS``, and every test here runs on it too."""

import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from store_examples import Store

from eunoe.store.database import Database
from eunoe.store.sqlite import open_sqlite


async def _sqlite(folder: Path, fresh: Path) -> Database:
    path = folder / "eunoe.db"
    # Copying a store that was made once takes a tenth of the time of making one.
    if not await anyio.Path(fresh).exists():
        await (await open_sqlite(fresh)).aclose()
    shutil.copy(fresh, path)
    return await open_sqlite(path)


OPENERS: Final[dict[str, Callable[[Path, Path], Awaitable[Database]]]] = {"sqlite": _sqlite}


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal("asyncio") as portal:
        yield portal


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a backend may keep an empty store to copy."""
    return tmp_path_factory.mktemp("fresh") / "eunoe.db"


@pytest.fixture(params=list(OPENERS))
def store(request: pytest.FixtureRequest, portal: BlockingPortal, tmp_path: Path, fresh: Path) -> Iterator[Store]:
    opener = OPENERS[request.param]

    async def open_store() -> Database:
        return await opener(tmp_path, fresh)

    database = portal.call(open_store)
    yield Store(portal, database)
    portal.call(database.aclose)
