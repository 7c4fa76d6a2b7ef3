"""How the repository of an agent's memory comes to be: whole at once, or not at all."""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from eunoe.memory.git_library import Author, init_handle
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.working_files import TEMPORARY_PREFIX
from eunoe.memory.working_tree import fast_forward_working_tree
from eunoe.state.errors import Conflict

_BUILDING: Final = ".unfinished"
"""How the name of a folder ends in which a repository is being made."""

_YOUNG_SECONDS: Final = 60.0


def agent_author(agent_id: str, agent_name: str) -> Author:
    """Return how an agent signs the commits that it makes itself."""
    return Author(agent_name, f"{agent_id}@eunoe.local")


def create_repository(
    path: Path, *, agent_id: str, agent_name: str, files: Mapping[str, bytes], message: str, when: datetime
) -> MemoryRepository:
    """Make the memory repository of an agent with its first commit, which may be without files.

    It is made beside its place and renamed, so that nobody finds half of one. Only its own configuration is written:
    whose memory it is, who commits by default, no signing (a global setting must not make it wait for a passphrase)
    and no conversion of line ends. Raises ``Conflict`` when something other than an empty folder is in its place.
    """
    author = agent_author(agent_id, agent_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{path.name}-", suffix=_BUILDING, dir=path.parent))
    try:
        with _marked(building):
            repository = _begin(building, agent_id, author)
            first = repository.write_commit(None, files, author=author, message=message, when=when)
            repository.move_head(None, first)
            fast_forward_working_tree(repository, None, first)
            _put_in_place(building, path)
    except BaseException:
        shutil.rmtree(building)
        raise
    return MemoryRepository(path)


def clear_unfinished(folder: Path) -> tuple[Path, ...]:
    """Remove what processes that were killed while they made a repository left in a folder, and return what it was.

    Whoever makes one holds a lock on its folder; one that was made this minute is let be, for it may not hold it yet.
    """
    removed: list[Path] = []
    for left in folder.glob(f".*{_BUILDING}"):
        try:
            with _marked(left):
                if time.time() - left.stat().st_mtime > _YOUNG_SECONDS:
                    shutil.rmtree(left)
                    removed.append(left)
        except (BlockingIOError, FileNotFoundError):
            continue  # it is being made, or has got its place
    return tuple(removed)


@contextmanager
def _marked(folder: Path) -> Generator[None]:
    """Hold a lock on a folder. Raises ``BlockingIOError`` when somebody else does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _begin(folder: Path, agent_id: str, author: Author) -> MemoryRepository:
    handle = init_handle(folder)
    handle.config["eunoe.agentId"] = agent_id
    handle.config["user.name"] = author.name
    handle.config["user.email"] = author.email
    handle.config["commit.gpgsign"] = False
    handle.config["core.autocrlf"] = False
    exclude = folder / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text(f"# files that Eunoe is about to put in place\n{TEMPORARY_PREFIX}*.tmp\n", "utf-8")
    return MemoryRepository(folder)


def _put_in_place(building: Path, path: Path) -> None:
    try:
        building.rename(path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise Conflict(
                f"There is something at {path} already. Open it as it is, or move it away first.", path=str(path)
            ) from error
        raise
