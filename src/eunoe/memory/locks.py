"""How writers of one repository wait for each other and for other git programs: bounded, and never failing at once.

POSIX only: ``flock`` for Eunoe's own processes, and git's lock files, which git makes with O_EXCL and removes when it
is done.
"""

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event
from typing import Final, TypeVar

from eunoe.state.errors import StoreError, StoreLocked

WAIT_SECONDS: Final = 10.0
_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.05
_MARK: Final = b"held by eunoe\n"

T = TypeVar("T")


def until_free(attempt: Callable[[], T], message: str, seconds: float = WAIT_SECONDS) -> T:
    """Return what ``attempt`` returns, trying again while it raises ``BlockingIOError``, for at most so many seconds.

    Locks that are files give no sign when they go, so this asks again at growing intervals. Raises ``StoreLocked`` with
    the message, which says who may hold the lock and what to do.
    """
    ends = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    never = Event()
    while True:
        try:
            return attempt()
        except BlockingIOError as error:
            left = ends - time.monotonic()
            if left <= 0:
                raise StoreLocked(f"{message} (waited {seconds:g} seconds)") from error
            never.wait(min(pause, left))
            pause = min(pause * 2, _LONGEST_PAUSE)


def writing(git_folder: Path, seconds: float = WAIT_SECONDS) -> AbstractContextManager[None]:
    """Be the one writer of a repository among the threads and processes of Eunoe, as long as the block runs.

    Not reentrant. The lock ends with the process that holds it. Raises ``StoreLocked``.
    """
    return held(git_folder / "eunoe.lock", seconds)


@contextmanager
def held(path: Path, seconds: float = WAIT_SECONDS) -> Generator[None]:
    """Hold a ``flock`` on a file in a repository's git folder. Not reentrant.

    Raises ``StoreLocked``, and ``StoreError`` when the repository is gone, as it is once its agent is deleted.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except FileNotFoundError as error:
        gone = path.parent.parent
        raise StoreError(f"The memory repository {gone} is gone; was its agent deleted?", path=str(gone)) from error
    try:
        until_free(
            lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB),
            f"Another process of Eunoe writes to the memory repository {path.parent.parent}; try again when it is done",
            seconds,
        )
        yield
    finally:
        os.close(descriptor)


@contextmanager
def index_locked(git_folder: Path, seconds: float = WAIT_SECONDS) -> Generator[None]:
    """Keep every git program from changing the index, as long as the block runs.

    That is git's own ``index.lock``. Git leaves it behind when it is killed; ours carries a mark, and whoever of Eunoe
    comes next removes it. Raises ``StoreLocked`` when a git process keeps it for so many seconds.
    """
    path = git_folder / "index.lock"

    def take() -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError as error:
            if _has_our_mark(path):
                path.unlink(missing_ok=True)
            raise BlockingIOError(str(error)) from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MARK)

    # The marked file is only looked at under the flock: then its maker is no longer alive.
    with held(git_folder / "eunoe-index.lock", seconds):
        until_free(take, locked_message(path), seconds)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _has_our_mark(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MARK) + 1) == _MARK
    except FileNotFoundError:
        return False


def locked_message(path: Path) -> str:
    """Return the sentence about a lock file of git that does not go away."""
    return (
        f"Another git process holds {path}. Let it end; if none is running, a crash has left the file behind: remove it"
    )
