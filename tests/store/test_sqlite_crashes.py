"""What is left when a process dies, and what other processes see of it (I1, I2)."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from eunoe.state.errors import InvalidInput
from eunoe.store.faults import COUNT_VARIABLE, FAULT_VARIABLE, faults_asked_for
from eunoe.store.sqlite import open_sqlite
from eunoe.store.sqlite_threads import SqliteDatabase

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TRANSACTIONS = 3
TEXTS_EACH = 2

# Every transaction stores two texts; then it says so, as a client would be told (I12).
WRITER = f"""
import sys
from pathlib import Path
import anyio
from eunoe.store import texts
from eunoe.store.sqlite import open_sqlite

async def main():
    database = await open_sqlite(Path(sys.argv[1]))
    for number in range({TRANSACTIONS}):
        await database.write(lambda tx: [texts.put(tx, f"{{number}}.{{part}}") for part in range({TEXTS_EACH})])
        print(number, flush=True)
    await database.aclose()

anyio.run(main)
"""

# Opens the store, takes the write lock if asked to, says its owner's name, and waits for its standard input to end.
HOLDER = """
import sys
from pathlib import Path
import anyio
from eunoe.store.sqlite import open_sqlite

def hold(database, tx):
    print(database.owner, flush=True)
    sys.stdin.read()

async def main():
    database = await open_sqlite(Path(sys.argv[1]))
    door = database.write if sys.argv[2] == "write" else database.read
    await door(lambda tx: hold(database, tx))
    await database.aclose()

anyio.run(main)
"""


# Opens a store as a user who owns nothing, and says which error that gave.
UNPRIVILEGED = """
import os, sys
from pathlib import Path
import anyio, anyio._backends._asyncio
from eunoe.state.errors import EunoeError
from eunoe.store.sqlite import open_sqlite

async def main():
    try:
        await open_sqlite(Path(sys.argv[1]))
    except EunoeError as error:
        print(type(error).__name__, error)

if os.getuid() == 0:
    os.setgroups([])
    os.setuid(65534)
anyio.run(main)
"""


def run_program(program: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def run_writer(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_program(WRITER, path, **environment)


@contextmanager
def holder(path: str, door: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a process that has the store open, and give it with its owner's name."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path, door], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = await open_sqlite(tmp_path / "eunoe.db", busy_timeout=10)
    yield database
    await database.aclose()


async def stored_texts(path: Path) -> set[str]:
    database = await open_sqlite(path)
    rows = await database.read(lambda tx: tx.rows("SELECT text FROM texts"))
    assert await database.read(lambda tx: tx.row("PRAGMA integrity_check")) == ("ok",)
    await database.aclose()
    return {text for (text,) in rows}


def transactions(count: int) -> set[str]:
    return {f"{number}.{part}" for number in range(count) for part in range(TEXTS_EACH)}


async def test_a_process_killed_at_any_point_leaves_whole_transactions_only(tmp_path: Path) -> None:
    report = tmp_path / "counts.json"
    done = run_writer(tmp_path / "all.db", **{COUNT_VARIABLE: str(report)})
    assert done.returncode == 0, done.stderr
    counts = json.loads(report.read_text())
    assert counts == {
        "write": TRANSACTIONS * TEXTS_EACH,
        "before_commit": TRANSACTIONS,
        "commit": TRANSACTIONS,
    }
    expected = {
        "write": lambda number: (number - 1) // TEXTS_EACH,
        "before_commit": lambda number: number - 1,
        "commit": lambda number: number,
    }
    for point, total in counts.items():
        for number in range(1, total + 1):
            path = tmp_path / f"{point}{number}.db"
            killed = run_writer(path, **{FAULT_VARIABLE: f"{point}:{number}"})
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            kept = expected[point](number)
            assert await stored_texts(path) == transactions(kept), (point, number)
            assert len(killed.stdout.split()) <= kept, "a transaction was told of before it was stored"


async def test_an_owner_lives_until_its_process_is_killed(database: SqliteDatabase) -> None:
    owners = Path(f"{database.location}.owners")
    with holder(database.location, "read") as (process, owner):
        assert database.is_alive(owner)
        assert database.is_alive(owner)
        process.kill()
        process.wait(10)
        assert not database.is_alive(owner)
        assert not (owners / owner).exists()
        assert not database.is_alive(owner)
    assert database.is_alive(database.owner)


async def test_an_owner_lives_until_its_opening_is_closed(database: SqliteDatabase) -> None:
    other = await open_sqlite(Path(database.location))
    assert database.is_alive(other.owner)
    assert other.is_alive(database.owner)
    await other.aclose()
    assert not database.is_alive(other.owner)


async def test_a_name_that_is_no_owners_touches_no_file(database: SqliteDatabase, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("mine")
    assert not database.is_alive("../letter")
    assert (tmp_path / "letter").read_text() == "mine"


async def test_opening_clears_away_owners_that_died(database: SqliteDatabase) -> None:
    owners = Path(f"{database.location}.owners")
    with holder(database.location, "read") as (process, owner):
        process.kill()
        process.wait(10)
        assert (owners / owner).exists()
    other = await open_sqlite(Path(database.location))
    assert [file.name async for file in anyio.Path(owners).glob(owner)] == []
    assert [file.name async for file in anyio.Path(owners).glob(database.owner)] == [database.owner]
    await other.aclose()


async def test_a_killed_process_frees_the_write_lock_and_leaves_nothing(database: SqliteDatabase) -> None:
    with holder(database.location, "write") as (process, owner):
        assert database.is_alive(owner)
        process.kill()
        process.wait(10)
    assert await database.write(lambda tx: tx.execute("INSERT INTO texts VALUES ('h', 'mine')")) == 1


async def test_two_processes_write_one_store(database: SqliteDatabase) -> None:
    async def write_here() -> None:
        for number in range(50):
            await database.write(lambda tx, n=number: tx.execute("INSERT INTO texts VALUES (?, ?)", (n, f"mine {n}")))

    async def write_there() -> None:
        done = await anyio.to_thread.run_sync(run_writer, Path(database.location))
        assert done.returncode == 0, done.stderr

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_here)
        tasks.start_soon(write_there)
    texts = {text for (text,) in await database.read(lambda tx: tx.rows("SELECT text FROM texts"))}
    assert texts == transactions(TRANSACTIONS) | {f"mine {number}" for number in range(50)}


def test_a_store_that_this_user_may_not_write_is_unwritable() -> None:
    async def make(path: Path) -> None:
        await (await open_sqlite(path)).aclose()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        anyio.run(make, folder / "eunoe.db")
        (folder / "eunoe.db").chmod(0o444)
        folder.chmod(0o555)
        for path in (folder / "eunoe.db", folder / "new.db", folder / "home" / "eunoe.db"):
            done = run_program(UNPRIVILEGED, path)
            sentence = f"StoreUnwritable The store {path} cannot be opened for writing."
            assert done.stdout.startswith(sentence), done.stderr
        folder.chmod(0o755)


@pytest.mark.parametrize("wanted", ["write", "write:0", "write:x", "read:1", ":"])
def test_a_fault_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setenv(FAULT_VARIABLE, wanted)
    with pytest.raises(InvalidInput, match="write, before_commit, commit, with a colon and a number"):
        faults_asked_for()
