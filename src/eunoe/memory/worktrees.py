"""Working trees beside the main one: a branch that is worked on has its files in a folder of its own (git-worktree).

They share the objects, branches and hooks of the repository. What a person has edited there and not committed is
theirs, as in the main one.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from eunoe.memory.git_library import link_worktree, nothing_begun
from eunoe.memory.locks import index_locked
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.tree import EXECUTABLE, FILE
from eunoe.memory.working_files import WorkingFiles
from eunoe.memory.working_tree import INDEX_WAIT, checked_out, fast_forward_working_tree
from eunoe.state.errors import EunoeError, StoreError

_log: Final = logging.getLogger(__name__)


def add_worktree(repository: MemoryRepository, branch: str, path: Path) -> None:
    """Check a branch (its full name) out into a new folder, whose last part names the working tree.

    Its files are as they are stored: attributes and settings that convert line ends change nothing. Raises
    ``StoreError`` when something is there, it cannot be written, or the branch is checked out elsewhere.
    """
    if path.exists() or path.is_symlink():
        raise StoreError(f"{branch} cannot be checked out into {path}: something is there already.", path=str(path))
    part = _part(repository, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
        link_worktree(repository.handle(), path, branch)
        _write_as_stored(MemoryRepository.open(path), str(repository.handle().lookup_reference(branch).target))
        part.unlink()
    except OSError as error:
        raise StoreError(f"{branch} cannot be checked out into {path}: {error}", path=str(path)) from error


def move_worktree(path: Path, branch: str, old: str, new: str, move: Callable[[], object]) -> None:
    """Bring the files of a branch from one commit to the next, with ``move``, which moves the branch there.

    The branch moves whatever is the matter with that folder: where it is gone or damaged, or another git process holds
    its index, the files stay behind. What ``move`` raises is passed on.
    """
    tried = moved = False

    def begin() -> None:
        nonlocal tried, moved
        tried = True
        move()
        moved = True

    if (path / ".git").exists():
        try:
            tree = MemoryRepository.open(path)
            fast_forward_working_tree(tree, old, new, begin=begin, seconds=INDEX_WAIT, branch=branch)
        except (EunoeError, OSError) as error:
            if tried and not moved:
                raise
            _log.warning("the files in %s stay behind their branch: %s", path, error)
    if not moved:
        begin()


def remove_worktree(repository: MemoryRepository, branch: str, path: Path, drop: Callable[[], bool]) -> bool:
    """Remove the working tree of a branch and, with ``drop``, the branch; say whether both are gone.

    ``drop`` says whether it could; if not, the folder stays too. It also stays, and ``drop`` is not called, while
    somebody has locked it, moved it elsewhere or damaged it, or works in it: with edits that are not committed, at
    another commit than the branch's, or in the middle of a merge or the like. One that was half made, or half removed,
    goes. Raises ``StoreLocked`` while a git program writes to its index.
    """
    noted = repository.git_folder / "worktrees" / path.name
    part = _part(repository, path)
    if branch in checked_out_branches(repository, but=path.name):
        return False
    if not part.exists():
        if (noted / "locked").exists() or path.is_symlink() or _is_elsewhere(noted, path):
            return False
        if noted.exists() and path.exists():
            return _remove_unused(noted, path, branch, drop, part)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            return False  # git knows nothing of it, so neither does anybody know whose it is
    return drop() and _remove(noted, path, part)


def checked_out_branches(repository: MemoryRepository, *, but: str = "") -> set[str]:
    """Return the full names of the branches that the working tree and those beside it are at.

    One beside it is left out when its folder is gone, or its name is ``but``.
    """
    found = {checked_out(repository) or ""}
    for noted in (repository.git_folder / "worktrees").glob("*"):
        try:
            if noted.name != but and Path((noted / "gitdir").read_text("utf-8").strip()).exists():
                found.add((noted / "HEAD").read_text("utf-8").strip().removeprefix("ref: "))
        except (FileNotFoundError, NotADirectoryError):
            continue  # it is being removed
    return found - {""}


def _remove_unused(noted: Path, path: Path, branch: str, drop: Callable[[], bool], part: Path) -> bool:
    # Under git's lock: what somebody is about to commit there is seen, or its commit fails.
    with index_locked(noted, INDEX_WAIT):
        try:
            tree = MemoryRepository.open(path)
            unused = checked_out(tree) == branch and nothing_begun(tree.handle())
        except (StoreError, KeyError) as error:
            _log.warning("the working tree %s stays as it is: %s", path, error)
            return False
        return unused and drop() and _remove(noted, path, part)


def _remove(noted: Path, path: Path, part: Path) -> bool:
    part.touch()
    for folder in (path, noted):
        shutil.rmtree(folder, ignore_errors=True)
    if path.exists() or noted.exists():
        return False
    part.unlink()
    return True


def _part(repository: MemoryRepository, path: Path) -> Path:
    """Return the file that says, while it is there, that a working tree is being made or removed."""
    return repository.git_folder / f"eunoe-part-{path.name}"


def _is_elsewhere(noted: Path, path: Path) -> bool:
    """Say whether git knows the working tree of this name in another folder, to which somebody has moved it."""
    try:
        there = Path((noted / "gitdir").read_text("utf-8").strip())
    except (FileNotFoundError, NotADirectoryError):
        return False
    return there.exists() and not (path / ".git").exists()


def _write_as_stored(tree: MemoryRepository, commit: str) -> None:
    """Write the files again that git's conversions have changed: what differs from a blob then is somebody's edit."""
    files = WorkingFiles(tree.path)
    for entry in tree.with_sizes(tree.snapshot(commit).entries):
        if entry.mode in (FILE, EXECUTABLE) and (tree.path / entry.path).lstat().st_size != entry.size:
            files.write(entry.path, tree.read(entry.blob_id), executable=entry.mode == EXECUTABLE)
