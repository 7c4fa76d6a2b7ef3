"""What is prepared while a commit is made: it sees the outcome, runs in the caller's loop, and decides nothing."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from eunoe.state.errors import Conflict, InvalidInput
from eunoe.store import texts
from eunoe.store.database import Transaction
from eunoe.store.sqlite import open_sqlite
from eunoe.store.sqlite_threads import SqliteDatabase

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = await open_sqlite(tmp_path / "eunoe.db")
    yield database
    await database.aclose()


async def test_it_is_called_once_with_the_result_in_the_callers_thread_and_before_the_write_returns(
    database: SqliteDatabase,
) -> None:
    seen: list[tuple[str, int]] = []
    key = await database.write(lambda tx: texts.put(tx, "kept"), lambda key: seen.append((key, threading.get_ident())))
    assert seen == [(key, threading.get_ident())]


async def test_a_transaction_that_is_rolled_back_prepares_nothing(database: SqliteDatabase) -> None:
    seen: list[object] = []

    def work(tx: Transaction) -> str:
        texts.put(tx, "gone")
        raise InvalidInput("no")

    with pytest.raises(InvalidInput):
        await database.write(work, seen.append)
    assert seen == []


async def test_its_failure_is_logged_and_leaves_the_commit_alone(
    database: SqliteDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError("not prepared")

    with caplog.at_level(logging.ERROR):
        key = await database.write(lambda tx: texts.put(tx, "kept"), fail)
    assert await database.read(lambda tx: texts.get(tx, key)) == "kept"
    assert "ZeroDivisionError: not prepared" in caplog.text


async def test_what_was_prepared_for_a_commit_that_fails_is_not_the_outcome(database: SqliteDatabase) -> None:
    seen: list[str] = []

    def work(tx: Transaction) -> str:
        tx.execute("PRAGMA defer_foreign_keys = ON")  # so that SQLite finds out at the commit
        tx.execute("INSERT INTO agent_tags (agent_id, tag, position) VALUES ('of nobody', 'tag', 0)")
        return texts.put(tx, "gone")

    with pytest.raises(Conflict, match="FOREIGN KEY"):
        await database.write(work, seen.append)
    assert seen == [texts.hash_of("gone")]
    assert await database.read(lambda tx: tx.rows("SELECT COUNT(*) FROM texts")) == [(0,)]


async def test_a_cancelled_caller_prepares_nothing_and_the_commit_is_made(database: SqliteDatabase) -> None:
    seen: list[str] = []
    at_work, go_on = threading.Event(), threading.Event()

    def work(tx: Transaction) -> str:
        at_work.set()
        go_on.wait(10)
        return texts.put(tx, "kept")

    async def caller() -> None:
        await database.write(work, seen.append)

    task = asyncio.get_running_loop().create_task(caller())
    await anyio.to_thread.run_sync(at_work.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    count = 0
    with anyio.fail_after(10):
        while count == 0:
            count = (await database.read(lambda tx: tx.rows("SELECT COUNT(*) FROM texts")))[0][0]
    assert seen == []
