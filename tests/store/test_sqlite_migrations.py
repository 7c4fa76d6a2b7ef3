"""How stores of other versions are opened."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from store_examples import NOW, a_message, stored_conversation

from eunoe.state.errors import StoreError, StoreTooNew
from eunoe.store import full_text, messages, migrations, texts
from eunoe.store.sqlite import open_sqlite

pytestmark = pytest.mark.anyio

KEPT = hashlib.sha256(b"kept").hexdigest()


def applied(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM migrations ORDER BY name")]


def copies(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{path.name}.before-*"))


def store_of_the_first_migration(path: Path) -> None:
    """Make the store that a version with only the first migration would have left, with one text in it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(migrations.LEDGER)
        for statement in migrations.statements(migrations.NAMES[0], "sqlite"):
            connection.execute(statement)
        connection.execute("INSERT INTO migrations VALUES (?, 0)", (migrations.NAMES[0],))
        connection.execute("INSERT INTO texts VALUES (?, 'kept')", (KEPT,))


async def test_a_fresh_store_has_every_migration_and_needs_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "eunoe.db"
    await (await open_sqlite(path)).aclose()
    assert applied(path) == list(migrations.NAMES)
    assert copies(path) == []


async def test_an_older_store_is_migrated_after_a_copy_was_made(tmp_path: Path) -> None:
    path = tmp_path / "eunoe.db"
    store_of_the_first_migration(path)
    database = await open_sqlite(path)
    assert await database.read(lambda tx: texts.get(tx, KEPT)) == "kept"
    await database.aclose()
    assert applied(path) == list(migrations.NAMES)
    (copy,) = copies(path)
    assert copy.name.startswith(f"eunoe.db.before-{migrations.NAMES[1]}-")
    assert applied(copy) == [migrations.NAMES[0]]
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT text FROM texts").fetchall() == [("kept",)]


async def test_several_openings_at_once_migrate_once(tmp_path: Path) -> None:
    path = tmp_path / "eunoe.db"
    store_of_the_first_migration(path)
    opened = []

    async def open_one() -> None:
        opened.append(await open_sqlite(path))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(open_one)
    for database in opened:
        await database.aclose()
    assert applied(path) == list(migrations.NAMES)
    assert len(copies(path)) == 1


async def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "eunoe.db"
    store_of_the_first_migration(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE message_search (in_the_way)")
    with pytest.raises(StoreError, match=r"migration '0002_search' failed .*The store is as it was"):
        await open_sqlite(path)
    assert applied(path) == [migrations.NAMES[0]]


async def test_a_store_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "eunoe.db"
    await (await open_sqlite(path)).aclose()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO migrations VALUES ('9999_wings', 0)")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=r"eunoe\.db was changed by a newer Eunoe .*'9999_wings'.*Upgrade Eunoe"):
        await open_sqlite(path)
    assert path.read_bytes() == before


def test_every_migration_has_a_file_and_every_file_is_a_migration() -> None:
    folder = Path(migrations.__file__).parent / "schema"
    assert {file.name.split(".")[0] for file in folder.glob("*.sql")} == set(migrations.NAMES)
    assert list(migrations.NAMES) == sorted(migrations.NAMES)
    for name in migrations.NAMES:
        assert list(migrations.statements(name, "sqlite"))


async def test_a_store_whose_messages_were_indexed_one_by_one_keeps_their_places_and_what_is_found(
    tmp_path: Path,
) -> None:
    path = tmp_path / "eunoe.db"
    database = await open_sqlite(path)
    conversation = await database.write(stored_conversation)
    said = [a_message(conversation, f"island {index}") for index in range(3)]
    stored = await database.write(lambda tx: messages.append(tx, conversation.id, said, NOW))
    await database.aclose()
    with closing(sqlite3.connect(path)) as connection, connection:
        _undo_lean_turns(connection)
    database = await open_sqlite(path)
    assert await database.read(lambda tx: messages.tail(tx, conversation.id, 0)) == stored
    later = [a_message(conversation, "island 3")]
    await database.write(lambda tx: messages.append(tx, conversation.id, later, NOW))
    await database.write(full_text.catch_up)
    found = await database.read(lambda tx: messages.search(tx, conversation.agent_id, "island"))
    assert [message.text for message in found] == ["island 3", "island 2", "island 1", "island 0"]
    await database.aclose()


def _undo_lean_turns(connection: sqlite3.Connection) -> None:
    """Make a store as it was before: each message is indexed, places have row numbers, and there are more indexes."""
    connection.executescript("""
        INSERT INTO message_search (rowid, text) SELECT seq, json_extract(parts, '$[0].text') FROM messages;
        DROP TABLE message_search_progress;
        CREATE TABLE places (
          conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
          position BIGINT NOT NULL,
          message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
          PRIMARY KEY (conversation_id, position)
        );
        INSERT INTO places SELECT conversation_id, position, message_id FROM conversation_messages;
        DROP TABLE conversation_messages;
        ALTER TABLE places RENAME TO conversation_messages;
        CREATE UNIQUE INDEX conversation_messages_by_message ON conversation_messages (message_id, conversation_id);
        CREATE INDEX messages_by_step ON messages (step_id) WHERE step_id IS NOT NULL;
        DELETE FROM migrations WHERE name = '0006_lean_turns';
    """)
