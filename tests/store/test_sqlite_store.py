"""What holds of a store in an SQLite file: threads, errors, permissions, cost."""

import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from msgspec import structs

from eunoe.state.agents import Agent
from eunoe.state.blocks import Block
from eunoe.state.conversations import Conversation
from eunoe.state.errors import Conflict, StoreError, StoreFull, StoreLocked, StoreUnwritable
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, TextPart
from eunoe.store import agents, blocks, conversations, messages, texts
from eunoe.store.cipher import KEY_FILE, KEY_VARIABLE, load_cipher
from eunoe.store.database import Transaction
from eunoe.store.sqlite import open_sqlite
from eunoe.store.sqlite_threads import SqliteDatabase

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def count_texts(tx: Transaction) -> int:
    return tx.rows("SELECT COUNT(*) FROM texts")[0][0]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = await open_sqlite(tmp_path / "eunoe.db", busy_timeout=0.1)
    yield database
    await database.aclose()


async def test_what_was_committed_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "home" / "eunoe.db"
    database = await open_sqlite(path)
    key = await database.write(lambda tx: texts.put(tx, "kept"))
    await database.aclose()
    again = await open_sqlite(path)
    assert await again.read(lambda tx: texts.get(tx, key)) == "kept"
    await again.aclose()


async def test_a_commit_is_on_the_disk_before_it_is_told(database: SqliteDatabase) -> None:
    """A power cut cannot be tried here; these settings of SQLite are what outlives one."""

    def settings(tx: Transaction) -> dict[str, object]:
        return {name: tx.rows(f"PRAGMA {name}")[0][0] for name in ("synchronous", "journal_mode", "foreign_keys")}

    assert await database.write(settings) == {"synchronous": 2, "journal_mode": "wal", "foreign_keys": 1}


async def test_nobody_else_may_read_what_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "home" / "eunoe.db"
    database = await open_sqlite(path)
    await database.write(lambda tx: texts.put(tx, "private"))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in [path.parent, *path.parent.iterdir()]}
    await database.aclose()
    assert modes == {
        "home": 0o700,
        "eunoe.db": 0o600,
        "eunoe.db-wal": 0o600,
        "eunoe.db-shm": 0o600,
        "eunoe.db.owners": 0o700,
    }


async def test_a_failed_transaction_leaves_nothing(database: SqliteDatabase) -> None:
    def work(tx: Transaction) -> None:
        texts.put(tx, "half")
        raise StoreError("no further")

    with pytest.raises(StoreError, match="no further"):
        await database.write(work)
    assert await database.read(count_texts) == 0
    await database.write(lambda tx: texts.put(tx, "whole"))
    assert await database.read(count_texts) == 1


async def test_a_reading_transaction_cannot_write(database: SqliteDatabase) -> None:
    with pytest.raises(RuntimeError, match="cannot change rows"):
        await database.read(lambda tx: texts.put(tx, "x"))


async def test_a_broken_rule_between_records_is_a_conflict(database: SqliteDatabase) -> None:
    insert = "INSERT INTO agent_tags (agent_id, tag, position) VALUES ('nobody', 'x', 0)"
    with pytest.raises(Conflict, match="FOREIGN KEY"):
        await database.write(lambda tx: tx.execute(insert))


async def test_twenty_concurrent_writers_keep_all_writes(database: SqliteDatabase) -> None:
    def count_up(tx: Transaction) -> None:
        (before,) = tx.row("SELECT COUNT(*) FROM texts") or (0,)
        texts.put(tx, f"text {before}")

    async def writer() -> None:
        for _ in range(10):
            await database.write(count_up)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(writer)
    assert await database.read(count_texts) == 200


async def test_readers_go_on_while_a_write_is_under_way(database: SqliteDatabase) -> None:
    reading_done = threading.Event()

    def slow_write(tx: Transaction) -> bool:
        texts.put(tx, "slow")
        return reading_done.wait(10)

    outcome: list[bool] = []

    async def write() -> None:
        outcome.append(await database.write(slow_write))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(5):
            assert await database.read(count_texts) == 0
        reading_done.set()
    assert outcome == [True]
    assert await database.read(count_texts) == 1


async def test_a_reader_sees_one_snapshot(database: SqliteDatabase) -> None:
    started, written = threading.Event(), threading.Event()

    def read_twice(tx: Transaction) -> tuple[int, int]:
        first = count_texts(tx)
        started.set()
        assert written.wait(10)
        return first, count_texts(tx)

    async def write() -> None:
        assert await anyio.to_thread.run_sync(started.wait, 10)
        await database.write(lambda tx: texts.put(tx, "meanwhile"))
        written.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        assert await database.read(read_twice) == (0, 0)


async def test_a_cancelled_task_leaves_its_transaction_to_end_by_itself(database: SqliteDatabase) -> None:
    started, go_on = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        started.set()
        assert go_on.wait(10)
        texts.put(tx, "stored all the same")

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, work)
            assert await anyio.to_thread.run_sync(started.wait, 10)
            scope.cancel()
    go_on.set()
    await database.write(lambda _: None)
    assert await database.read(count_texts) == 1


async def test_closing_finishes_what_is_queued_and_then_refuses(tmp_path: Path) -> None:
    database = await open_sqlite(tmp_path / "eunoe.db")
    keys: list[str] = []

    async def write(text: str) -> None:
        keys.append(await database.write(lambda tx: texts.put(tx, text)))

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(write, str(number))
        await anyio.lowlevel.checkpoint()
        await database.aclose()
    assert len(keys) == 5
    await database.aclose()
    for door in (database.read, database.write):
        with pytest.raises(StoreError, match=r"eunoe\.db is closed"):
            await door(count_texts)


async def test_another_process_that_keeps_the_lock_is_reported_in_time(database: SqliteDatabase) -> None:
    other = sqlite3.connect(database.location, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLocked, match=r"eunoe\.db for more than 0\.1 seconds"):
        await database.write(lambda tx: texts.put(tx, "x"))
    assert await database.read(count_texts) == 0
    other.execute("ROLLBACK")
    other.close()
    await database.write(lambda tx: texts.put(tx, "x"))
    assert await database.read(count_texts) == 1


async def test_a_full_disk_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "eunoe.db"
    await (await open_sqlite(path)).aclose()
    database = await open_sqlite(path, max_pages=1)

    def fill(tx: Transaction) -> None:
        for number in range(50):
            texts.put(tx, f"{number}" * 4000)

    with pytest.raises(StoreFull, match=r"disk that holds the store .*eunoe\.db is full"):
        await database.write(fill)
    assert await database.read(count_texts) == 0
    await database.aclose()
    again = await open_sqlite(path)
    await again.write(fill)
    assert await again.read(count_texts) == 50
    assert await again.read(lambda tx: tx.row("PRAGMA integrity_check")) == ("ok",)
    await again.aclose()


async def test_an_empty_file_is_a_store_that_was_not_made_yet(tmp_path: Path) -> None:
    path = tmp_path / "eunoe.db"
    path.touch()
    database = await open_sqlite(path)
    assert await database.read(count_texts) == 0
    await database.aclose()


@pytest.mark.parametrize("content", [b"This is a letter, not a database. " * 200, b"\x00" * 5000])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"letter\.txt is not an Eunoe store"):
        await open_sqlite(path)
    assert path.read_bytes() == content


async def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"other\.db is a database of some other program"):
        await open_sqlite(path)
    assert path.read_bytes() == before


async def test_a_damaged_store_is_reported_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "eunoe.db"
    await (await open_sqlite(path)).aclose()
    content = bytearray(path.read_bytes())
    content[200:] = b"\xff" * (len(content) - 200)
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"is damaged .* put back a backup"):
        await open_sqlite(path)


async def test_a_path_that_cannot_be_a_file_is_unwritable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "eunoe.db", tmp_path / "folder"):
        with pytest.raises(StoreUnwritable, match=str(path)):
            await open_sqlite(path)


async def test_a_block_edit_writes_one_row_and_its_revision_however_many_agents_share_it(
    database: SqliteDatabase,
) -> None:
    block = Block(id=new_id("block"), label="human", value="old", created_at=NOW, updated_at=NOW)

    def prepare(tx: Transaction) -> None:
        blocks.insert(tx, block)
        for _ in range(1000):
            agent = Agent(id=new_id("agent"), name="A", created_at=NOW, updated_at=NOW, system="", model="s/d")
            agents.insert(tx, agent)
            blocks.attach(tx, agent.id, block.id)

    def edit(tx: Transaction) -> int:
        changes = "SELECT total_changes()"
        before = tx.rows(changes)[0][0]
        changed = structs.replace(block, value="new")
        blocks.update(tx, changed, expected_revision=1, actor="user", run_id=None, now=NOW)
        return tx.rows(changes)[0][0] - before

    await database.write(prepare)
    assert await database.write(edit) == 2


async def test_a_checkpoint_costs_what_its_new_messages_cost(database: SqliteDatabase) -> None:
    agent = Agent(id=new_id("agent"), name="A", created_at=NOW, updated_at=NOW, system="", model="s/d")
    conversation = Conversation(
        id=new_id("conv"),
        agent_id=agent.id,
        is_default=True,
        system_message_id=new_id("message"),
        created_at=NOW,
        updated_at=NOW,
    )

    def prepare(tx: Transaction) -> None:
        agents.insert(tx, agent)
        conversations.insert(tx, conversation)

    def add(tx: Transaction, count: int) -> int:
        before = tx.rows("SELECT total_changes()")[0][0]
        new = [
            Message(
                id=new_id("message"),
                agent_id=agent.id,
                conversation_id=conversation.id,
                role="system",
                parts=(TextPart(text="Not searched, so that only our own rows count."),),
                created_at=NOW,
            )
            for _ in range(count)
        ]
        messages.append(tx, conversation.id, new, NOW)
        return tx.rows("SELECT total_changes()")[0][0] - before

    await database.write(prepare)
    at_first = await database.write(lambda tx: add(tx, 2))
    await database.write(lambda tx: add(tx, 2000))
    assert await database.write(lambda tx: add(tx, 2)) == at_first == 5


async def test_every_foreign_key_is_indexed(
    database: SqliteDatabase,
) -> None:
    """Deleting an agent must not scan whole tables for what was its own."""

    def unindexed(tx: Transaction) -> list[str]:
        found: list[str] = []
        tables = [name for (name,) in tx.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in tables:
            leading = {
                tx.rows(f"PRAGMA index_info({index[1]})")[0][2] for index in tx.rows(f"PRAGMA index_list({table})")
            }
            found += [
                f"{table}.{key[3]}" for key in tx.rows(f"PRAGMA foreign_key_list({table})") if key[3] not in leading
            ]
        return found

    assert await database.read(unindexed) == []


def test_the_key_for_secrets_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    database = tmp_path / "eunoe.db"
    sealed = load_cipher(database).seal("value", belongs_to="x")
    key = tmp_path / KEY_FILE
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [KEY_FILE]
    assert load_cipher(database).unseal(sealed, belongs_to="x") == "value"


def test_a_key_that_is_none_is_refused_without_showing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / KEY_FILE).write_text("not-a-key!")
    with pytest.raises(StoreError, match=f"{KEY_FILE} does not hold a key") as caught:
        load_cipher(tmp_path / "eunoe.db")
    assert "not-a-key" not in str(caught.value)
    monkeypatch.setenv(KEY_VARIABLE, "c2hvcnQ=")
    with pytest.raises(StoreError, match="has 5 bytes; it must have 32"):
        load_cipher(tmp_path / "eunoe.db")


async def test_what_follows_a_commit_comes_after_it_once_and_not_after_a_rollback(database: SqliteDatabase) -> None:
    seen: list[str] = []

    def kept(tx: Transaction) -> None:
        tx.after_commit(lambda: seen.append("kept"))
        texts.put(tx, "kept")
        assert seen == []

    def lost(tx: Transaction) -> None:
        tx.after_commit(lambda: seen.append("lost"))
        raise Conflict("no")

    await database.write(kept)
    with pytest.raises(Conflict):
        await database.write(lost)
    await database.write(count_texts)
    assert seen == ["kept"]


async def test_a_failure_of_what_follows_a_commit_leaves_the_commit(database: SqliteDatabase) -> None:
    def work(tx: Transaction) -> str:
        tx.after_commit(lambda: (_ for _ in ()).throw(OSError("no disk")))
        return texts.put(tx, "kept")

    key = await database.write(work)
    assert await database.read(lambda tx: texts.get(tx, key)) == "kept"
