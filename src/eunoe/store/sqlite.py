"""A store in one SQLite file: how it is made if need be, checked, migrated after a backup, and opened.

WAL, so that readers and the writer do not stop each other; ``synchronous=FULL``, so that what is committed survives
the loss of power.
"""

import os
import sqlite3
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import anyio.to_thread

from eunoe.state.errors import StoreError
from eunoe.store import migrations
from eunoe.store.faults import faults_asked_for
from eunoe.store.owners import Owner, opening
from eunoe.store.rows import micros
from eunoe.store.sqlite_errors import path_error, store_error, unwritable
from eunoe.store.sqlite_threads import Settings, SqliteDatabase

_CACHED_STATEMENTS: Final = 512


async def open_sqlite(
    path: Path, *, busy_timeout: float = 10.0, readers: int = 2, max_pages: int | None = None
) -> SqliteDatabase:
    """Open the store in this database file, and make it and its folder (mode 0700) when they are not there.

    A store of an older Eunoe is migrated, after a copy was made beside it. ``busy_timeout`` (seconds) is how long a
    transaction waits for other processes; ``readers`` is how many can read at once; ``max_pages`` bounds the file's
    size in SQLite's pages, as a disk that is full would.

    Raises ``StoreTooNew``, ``StoreUnwritable``, ``StoreLocked``, ``StoreFull``, or ``StoreError`` for a file that is
    damaged or is no store.
    """
    return await anyio.to_thread.run_sync(_open, path, busy_timeout, readers, max_pages)


def _open(path: Path, busy_timeout: float, readers: int, max_pages: int | None) -> SqliteDatabase:
    path = path.absolute()
    location = str(path)
    owners = path.with_name(f"{path.name}.owners")
    faults = faults_asked_for()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            # Made here, because SQLite would make it readable by everyone whom the umask lets.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        elif not os.access(path, os.W_OK):
            raise unwritable(location)
        owners.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as unless_done, opening(owners, location, busy_timeout):
            writer = unless_done.enter_context(closing(_connect(path, busy_timeout)))
            _prepare(writer, path, max_pages)
            reading = [unless_done.enter_context(closing(_connect(path, busy_timeout))) for _ in range(readers)]
            for connection in reading:
                connection.execute("PRAGMA query_only = ON")
            owner = Owner(owners)
            unless_done.pop_all()
    except sqlite3.Error as error:
        meaning = store_error(error, location, busy_timeout)
        if meaning is None:
            raise
        raise meaning from error
    except OSError as error:
        raise path_error(error, location) from error
    return SqliteDatabase(Settings(location, busy_timeout, faults), owner, writer=writer, readers=reading)


def _connect(path: Path, busy_timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_CACHED_STATEMENTS,
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _prepare(writer: sqlite3.Connection, path: Path, max_pages: int | None) -> None:
    """Switch to WAL and bring the schema up to date; at first the file's schema is only read."""
    fresh = writer.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()[0] == 0
    applied = _applied(writer)
    if not fresh and not applied:
        raise StoreError(f"The file {path} is a database of some other program, not an Eunoe store. Name another path.")
    wanted = migrations.pending(applied, str(path))
    writer.execute("PRAGMA journal_mode = WAL")
    if wanted:
        if not fresh:
            _back_up(writer, path, wanted[0])
        _migrate(writer, path, wanted)
    if max_pages is not None:
        writer.execute(f"PRAGMA max_page_count = {max_pages:d}")


def _applied(connection: sqlite3.Connection) -> list[str]:
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'").fetchone()
    return [] if known is None else [name for (name,) in connection.execute("SELECT name FROM migrations")]


def _back_up(connection: sqlite3.Connection, path: Path, migration: str) -> None:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    target = path.with_name(f"{path.name}.before-{migration}-{stamp}")
    os.close(os.open(target, os.O_RDWR | os.O_CREAT, 0o600))
    with closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)


def _migrate(connection: sqlite3.Connection, path: Path, wanted: list[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(migrations.LEDGER)
        for name in wanted:
            _apply(connection, path, name)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _apply(connection: sqlite3.Connection, path: Path, name: str) -> None:
    try:
        for statement in migrations.statements(name, "sqlite"):
            connection.execute(statement)
    except sqlite3.Error as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        raise StoreError(
            f"The store {path} could not be brought up to date: migration {name!r} failed ({error}). "
            f"The store is as it was. Report this with the message, or use the version of Eunoe that wrote it.",
            migration=name,
        ) from error
    connection.execute("INSERT INTO migrations (name, applied_at) VALUES (?, ?)", (name, micros(datetime.now(UTC))))
