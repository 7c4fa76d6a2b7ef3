"""How the repository of an agent's memory comes to be: whole at once, or not at all."""

import errno
import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from eunoe.memory.git_library import Author, init_handle
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.working_files import TEMPORARY_PREFIX
from eunoe.memory.working_tree import fast_forward_working_tree
from eunoe.state.errors import Conflict


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
    building = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        handle = init_handle(building)
        handle.config["eunoe.agentId"] = agent_id
        handle.config["user.name"] = agent_name
        handle.config["user.email"] = author.email
        handle.config["commit.gpgsign"] = False
        handle.config["core.autocrlf"] = False
        exclude = building / ".git" / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text(f"# files that Eunoe is about to put in place\n{TEMPORARY_PREFIX}*.tmp\n", "utf-8")
        repository = MemoryRepository(building)
        first = repository.write_commit(None, files, author=author, message=message, when=when)
        repository.move_head(None, first)
        fast_forward_working_tree(repository, None, first)
        _put_in_place(building, path)
    except BaseException:
        shutil.rmtree(building)
        raise
    return MemoryRepository(path)


def _put_in_place(building: Path, path: Path) -> None:
    try:
        building.rename(path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise Conflict(
                f"There is something at {path} already. Open it as it is, or move it away first.", path=str(path)
            ) from error
        raise
