"""How a reference moves: compared and set in one, waiting for other git processes, leaving no lock after a crash."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eunoe.memory.git_library import MAIN, set_branch
from eunoe.memory.locks import WAIT_SECONDS, held, locked_message, until_free

if TYPE_CHECKING:
    import pygit2

_STALE_SECONDS: Final = 2.0
"""A lock file of ours that old, whose maker is gone, was left by a crash; git holds one for milliseconds."""


def advance(
    handle: "pygit2.Repository",
    git_folder: Path,
    expected: str | None,
    new: str,
    seconds: float = WAIT_SECONDS,
    *,
    name: str = MAIN,
) -> bool:
    """Set main, or another reference, to a commit if it is at ``expected``, and say whether it was.

    The library leaves ``main.lock`` behind when it is killed in the middle. So where it is going is noted first: who
    finds both the note and a lock file that fits it, under the flock that ends with its holder, removes the lock file.
    Raises ``StoreLocked`` when another git process holds the reference for so many seconds.
    """
    lock_file = git_folder / f"{name}.lock"
    note = git_folder / f"eunoe-advance-{name.rpartition('/')[2]}"
    with held(git_folder / "eunoe-advance.lock", seconds):
        earlier = (_text(note) or "").split()

        def attempt() -> bool:
            try:
                return set_branch(handle, name, expected, new, "eunoe: advance")
            except BlockingIOError:
                if _left_behind(lock_file, earlier):
                    lock_file.unlink(missing_ok=True)
                raise

        note.write_text("\n".join((*earlier, new)), "ascii")
        try:
            return until_free(attempt, locked_message(lock_file), seconds)
        finally:
            note.unlink(missing_ok=True)


def _text(path: Path) -> str | None:
    try:
        return path.read_text("ascii")
    except FileNotFoundError:
        return None


def _left_behind(lock_file: Path, earlier: Sequence[str]) -> bool:
    """Say whether a lock file is that of an earlier move, which noted where it was going and did not end."""
    text = _text(lock_file)
    if not earlier or text is None or text.strip() not in ("", *earlier):
        return False
    try:
        return time.time() - lock_file.stat().st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return False
