"""Whether the opening of a store that took a lease is still alive.

Every opening has a random name, and a file of that name on which it holds an exclusive ``flock`` for as long as it
lives. The kernel drops the lock when the process ends, however it ends. A file that can be locked is of a dead owner.
"""

import fcntl
import os
import re
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eunoe.state.errors import StoreLocked

_NAME: Final = re.compile(r"[0-9a-f]{32}")
_POLL: Final = 0.02
"""Seconds between two tries for a lock: ``flock`` itself has no bound on how long it waits."""


class Owner:
    """The name of this opening, held until ``release`` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self.name: Final = uuid.uuid4().hex
        self._folder = folder
        # Locked under another name first: under its own name the file is never seen unlocked.
        unfinished = folder / f".{self.name}"
        self._descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unfinished.rename(folder / self.name)

    def is_alive(self, name: str) -> bool:
        """Say whether the opening of this name still lives; clear away what a dead one left."""
        if name == self.name:
            return True
        return _NAME.fullmatch(name) is not None and not _clear_if_dead(self._folder / name)

    def release(self) -> None:
        """Give the name up."""
        (self._folder / self.name).unlink(missing_ok=True)
        os.close(self._descriptor)


@contextmanager
def opening(folder: Path, location: str, timeout: float) -> Generator[None]:
    """Let one process at a time open the store, and clear away owners that died.

    ``timeout`` is in seconds. Raises ``StoreLocked`` when another process does not finish opening within it.
    """
    descriptor = os.open(folder / "opening", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor, location, timeout)
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name.removeprefix(".")):
                _clear_if_dead(path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, location: str, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise StoreLocked(
                    f"Another process has been opening the store {location} for {timeout:g} seconds. "
                    f"Wait until it is done, or end it."
                ) from None
            threading.Event().wait(_POLL)
        else:
            return


def _clear_if_dead(path: Path) -> bool:
    """Say whether nobody holds the file, and remove it then."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        path.unlink(missing_ok=True)
        return True
    finally:
        os.close(descriptor)
