"""Working trees beside the main one: a branch that is worked on has its files in a folder of its own (git-worktree).

They share the objects, branches and hooks of the repository. What a person has edited there and not committed is
theirs, as in the main one.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from eunoe.memory.git_library import link_worktree, uncommitted
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.working_tree import INDEX_WAIT, fast_forward_working_tree
from eunoe.state.errors import StoreLocked


def add_worktree(repository: MemoryRepository, branch: str, path: Path) -> None:
    """Check a branch (its full name) out into a new folder, whose last part names the working tree.

    Raises ``StoreError`` when the folder is there or cannot be written, or the branch is checked out elsewhere.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    link_worktree(repository.handle(), path, branch)


def move_worktree(path: Path, branch: str, old: str, new: str, move: Callable[[], object]) -> None:
    """Bring the files of a branch from one commit to the next, with ``move``, which moves the branch there.

    The branch moves also where there is no such folder, and while another git process holds its index; the files stay
    behind then. What ``move`` raises is passed on.
    """
    if not (path / ".git").exists():
        move()
        return
    moved: list[bool] = []

    def begin() -> None:
        move()
        moved.append(True)

    try:
        fast_forward_working_tree(MemoryRepository.open(path), old, new, begin=begin, seconds=INDEX_WAIT, branch=branch)
    except StoreLocked:
        if not moved:
            move()


def remove_worktree(repository: MemoryRepository, path: Path) -> bool:
    """Remove a working tree, and say whether it is gone: not if somebody has locked it or has uncommitted edits in it.

    One that was half made, or half removed, goes too. Raises ``StoreError`` when it cannot be looked at.
    """
    noted = repository.git_folder / "worktrees" / path.name
    if (noted / "locked").exists():
        return False
    if noted.exists() and (path / ".git").exists() and uncommitted(MemoryRepository.open(path).handle()):
        return False
    for folder in (path, noted):
        shutil.rmtree(folder, ignore_errors=True)
    return not path.exists()
