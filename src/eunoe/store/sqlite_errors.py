"""What an error of SQLite means for the person who must act."""

import errno
import re
import sqlite3
from typing import Final

from eunoe.state.errors import Conflict, EunoeError, StoreError, StoreFull, StoreLocked, StoreUnwritable

_PRIMARY: Final = 0xFF
"""Extended result codes keep the primary code in the low byte (https://sqlite.org/rescode.html)."""

_COLUMN: Final = re.compile(r"^Could not decode to UTF-8 column '(\w+)'")

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def store_error(error: sqlite3.Error, location: str, busy_timeout: float) -> EunoeError | None:
    """Return our error for SQLite's, or ``None`` for one that only a mistake in our code can cause.

    ``busy_timeout`` is how long (in seconds) the store waits for another process's lock.
    """
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    match code & _PRIMARY:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreLocked(
                f"Another process held the write lock of the store {location} for more than {busy_timeout:g} seconds. "
                f"Try again; if that does not help, find the process that has the file open and end it."
            )
        case sqlite3.SQLITE_FULL:
            return _full(location)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return unwritable(location)
        case sqlite3.SQLITE_NOTADB:
            return StoreError(f"The file {location} is not an Eunoe store (not an SQLite database). Name another path.")
        case sqlite3.SQLITE_CORRUPT:
            return StoreError(
                f"The store {location} is damaged ({error}). Stop every process that uses it, keep a copy of the file, "
                f"and put back a backup."
            )
        case sqlite3.SQLITE_IOERR:
            return StoreError(
                f"The disk that holds the store {location} gave an error ({error}). Nothing of this change was stored."
            )
        case sqlite3.SQLITE_CONSTRAINT:
            return Conflict(f"The store refuses this change, because it would contradict what is stored ({error}).")
        case _:
            return None


def damaged_text(error: sqlite3.OperationalError) -> StoreError | None:
    """Return our error for a stored text that is no UTF-8, which Python finds and not SQLite; ``None`` for others."""
    if getattr(error, "sqlite_errorcode", None) is not None:
        return None
    column = _COLUMN.search(str(error))  # not the rest, which quotes the text
    where = f" (in a column {column[1]})" if column else ""
    return StoreError(
        f"A text in the store is damaged and cannot be read, because it is not UTF-8{where}. Nothing was changed. "
        "Restore the store from a backup."
    )


def path_error(error: OSError, location: str) -> StoreError:
    """Return our error for one of the file system's while a store was being opened."""
    return _full(location) if error.errno in _NO_SPACE else unwritable(location)


def unwritable(location: str) -> StoreUnwritable:
    """Return the error for a path that cannot be opened, made or written."""
    return StoreUnwritable(
        f"The store {location} cannot be opened for writing. Check that its folder exists, that this user may write "
        f"there, and that the path is a file."
    )


def _full(location: str) -> StoreFull:
    return StoreFull(
        f"The disk that holds the store {location} is full. Nothing of this change was stored. Make room and try again."
    )
