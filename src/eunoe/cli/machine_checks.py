"""Checks of this machine and of the store. They change nothing."""

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from eunoe.cli.checks import Check, failed, ok, warning
from eunoe.cli.memory_checks import memory_checks
from eunoe.runtime.settings import Settings
from eunoe.server.auth import check_binding
from eunoe.state.errors import EunoeError, InvalidInput, StoreLocked, StoreTooNew
from eunoe.store import migrations, runs
from eunoe.store.cipher import KEY_FILE, KEY_VARIABLE, load_cipher
from eunoe.store.sqlite_errors import store_error
from eunoe.store.sqlite_threads import SqliteTransaction

_PYTHON: Final = (3, 11)
_SQLITE: Final = (3, 34, 0)
"""The first SQLite whose full-text search has the trigram tokenizer."""

_LITTLE: Final = 1 << 30
_TOO_LITTLE: Final = 50 << 20
"""Bytes of free disk space below which there is a warning, and a failure."""

_SHORT_TOKEN: Final = 16
"""Characters below which a token can be guessed."""

_BUSY: Final = 2.0
"""Seconds to wait for another process that writes."""

_STEPS: Final = 10_000
"""SQLite instructions between two looks at the clock."""


def machine_checks(settings: Settings, seconds: float) -> Iterator[Check]:
    """Check programs, folder, disk, store, key and binding. The check of the whole file ends after ``seconds``."""
    yield _python()
    yield _sqlite()
    yield _home(settings.home)
    yield _space(settings.home)
    yield from _store(settings, seconds)
    yield _key(settings)
    yield _binding(settings)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= _PYTHON:
        return ok("Python", version)
    return failed("Python", version, f"Install Python {'.'.join(map(str, _PYTHON))} or newer.")


def _sqlite() -> Check:
    version = sqlite3.sqlite_version
    needed = ".".join(map(str, _SQLITE))
    advice = f"Use a Python whose SQLite is {needed} or newer, with full-text search (FTS5)."
    if sqlite3.sqlite_version_info < _SQLITE:
        return failed("SQLite", version, advice)
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5(word, tokenize = 'trigram')")
        except sqlite3.OperationalError as error:
            return failed("SQLite", f"{version} without full-text search ({error})", advice)
    return ok("SQLite", version)


def _standing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _home(home: Path) -> Check:
    standing = _standing(home)
    if not standing.is_dir():
        return failed("home", f"{standing} is not a folder", "Name a folder with --home or EUNOE_HOME.")
    if not os.access(standing, os.W_OK | os.X_OK):
        return failed("home", f"{standing} cannot be written", "Give this user the right to write, or name another.")
    return ok("home", str(home) if home.exists() else f"{home} (will be made)")


def _space(home: Path) -> Check:
    free = shutil.disk_usage(_standing(home)).free
    found = f"{free / (1 << 30):.1f} GiB free"
    if free < _TOO_LITTLE:
        return failed("disk", found, "Make room: a full disk stores nothing.")
    return warning("disk", found, "Make room before it is full.") if free < _LITTLE else ok("disk", found)


def _store(settings: Settings, seconds: float) -> Iterator[Check]:
    path = settings.database
    if not path.exists():
        yield ok("store", f"none yet; {path} will be made")
        return
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=_BUSY)) as connection:
            yield from _opened(connection, settings, seconds)
        yield _lock(path)
    except sqlite3.Error as error:
        meaning = store_error(error, str(path), _BUSY)
        yield failed("store", meaning.message if meaning else str(error))


def _opened(connection: sqlite3.Connection, settings: Settings, seconds: float) -> Iterator[Check]:
    path = settings.database
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'").fetchone()
    if known is None:
        yield failed("store", f"{path} is no store of Eunoe", "Name another folder with --home.")
        return
    yield ok("store", str(path))
    yield _integrity(connection, seconds)
    try:
        pending = migrations.pending([name for (name,) in connection.execute("SELECT name FROM migrations")], str(path))
    except StoreTooNew as error:
        yield failed("schema", error.message)
        return
    if pending:
        found = f"{len(pending)} migrations to do"
        yield warning("schema", found, "The next start does them, after it has made a copy of the file beside it.")
        return
    yield ok("schema", "up to date")
    tx = SqliteTransaction(connection, writes=False)
    unfinished = len(runs.unfinished(tx))
    if unfinished:
        advice = "Nothing to do: if no process works on them any more, the next start ends them as interrupted."
        yield warning("runs", f"{unfinished} without an end", advice)
    else:
        yield ok("runs", "none interrupted")
    yield from memory_checks(tx, settings)


def _lock(path: Path) -> Check:
    """Take the lock that every write needs, and give it back; nothing is written."""
    name = f"file:{quote(str(path))}?mode=rw"
    with closing(sqlite3.connect(name, uri=True, timeout=_BUSY, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            meaning = store_error(error, str(path), _BUSY)
            if not isinstance(meaning, StoreLocked):
                raise
            return failed("lock", meaning.message, "End the process that holds it: it may be a tool that looks at it.")
        connection.execute("ROLLBACK")
    return ok("lock", "free to write")


def _integrity(connection: sqlite3.Connection, seconds: float) -> Check:
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        lines = [line for (line,) in connection.execute("PRAGMA integrity_check(3)")]
    except sqlite3.OperationalError as error:
        if time.monotonic() <= deadline:
            raise
        advice = "Give it longer with --timeout, when nothing else needs the disk."
        return warning("integrity", f"not known after {seconds:g} seconds ({error})", advice)
    finally:
        connection.set_progress_handler(None, 0)
    if lines == ["ok"]:
        return ok("integrity", "every page and index is whole")
    advice = "Stop every process that uses the store, keep a copy of it, and put back a backup."
    return failed("integrity", "; ".join(lines), advice)


def _key(settings: Settings) -> Check:
    path = settings.home / KEY_FILE
    if not settings.environment.get(KEY_VARIABLE) and not path.exists():
        return ok("key for secrets", "none yet; it is made when the first secret is stored")
    try:
        load_cipher(settings.database)
    except EunoeError as error:
        return failed("key for secrets", error.message, "Put the right key back: without it stored secrets are lost.")
    if not settings.environment.get(KEY_VARIABLE) and path.stat().st_mode & 0o077:
        return warning("key for secrets", f"others can read {path}", f"chmod 600 {path}")
    return ok("key for secrets", KEY_VARIABLE if settings.environment.get(KEY_VARIABLE) else str(path))


def _binding(settings: Settings) -> Check:
    host = settings.environment.get("EUNOE_HOST") or "127.0.0.1"
    token = settings.environment.get("EUNOE_TOKEN") or None
    try:
        check_binding(host, token)
    except InvalidInput as error:
        return failed("server", error.message)
    if token is None:
        return ok("server", f"would listen on {host}, for this machine only, without a token")
    if len(token) < _SHORT_TOKEN:
        advice = f"Take a random token of at least {_SHORT_TOKEN} characters."
        return warning("server", f"would listen on {host} with a token that can be guessed", advice)
    return ok("server", f"would listen on {host} with a token")
