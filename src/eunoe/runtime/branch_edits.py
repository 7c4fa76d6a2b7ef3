"""Memory tools that work on a branch of another agent's files: commits there, no rows, and main does not move."""

from datetime import datetime
from pathlib import Path

from eunoe.memory.git_library import set_branch
from eunoe.memory.locks import WAIT_SECONDS, locked_message, until_free, writing
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.revisions import BRANCHES, resolve
from eunoe.memory.worktrees import move_worktree
from eunoe.runtime.file_edits import Commit, FileStore
from eunoe.runtime.following import head_at
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.turn import MemoryBranch, Turn
from eunoe.state.blocks import Block
from eunoe.state.errors import StaleRevision
from eunoe.state.memory import MemoryHead
from eunoe.store.database import Transaction


class BranchStore(FileStore):
    """The files of a branch within one transaction of a turn that works on it.

    The turn knows the newest commit, so that several calls of one step build on each other; the branch moves there
    after the transaction. A crash in between loses commits of a turn that is lost too.
    """

    def __init__(self, tx: Transaction, homes: MemoryHomes, turn: Turn, branch: MemoryBranch, now: datetime) -> None:
        self._tx = tx
        self._now = now
        self._turn = turn
        self._name = branch.name
        self.agent_id = branch.agent_id
        self._worktree = homes.worktree(branch.agent_id, branch.name)
        self.repository: MemoryRepository = homes.repository(branch.agent_id)
        self.caller = homes.caller
        tip = turn.branch_tip or resolve(self.repository, branch.name)
        self.head: MemoryHead = head_at(self.repository, branch.agent_id, tip)

    def rows(self) -> tuple[Block, ...]:
        """Return none: rows show main."""
        return ()

    def adopt(self, new: str, commit: Commit) -> MemoryHead:
        """Take a commit that comes after the head as the branch's. Raises the verdict on a file that may not be so."""
        before = self.head.revision
        if new == before:
            return self.head
        self.judge(before, new, commit.actor)
        self._turn.branch_tip = new
        self._tx.after_commit(lambda: move_branch(self.repository, self._worktree, self._name, before, new))
        self.head = head_at(self.repository, self.agent_id, new)
        return self.head


def move_branch(repository: MemoryRepository, worktree: Path, name: str, expected: str, new: str) -> None:
    """Move a branch from one commit to another, with the files of its working tree if there is one in that folder.

    Raises ``StaleRevision`` when it is elsewhere, and ``StoreLocked``.
    """
    full_name = BRANCHES + name

    def move() -> None:
        moved = until_free(
            lambda: set_branch(repository.handle(), full_name, expected, new, "eunoe: reflection"),
            locked_message(repository.git_folder / f"{full_name}.lock"),
            WAIT_SECONDS,
        )
        if not moved:
            raise StaleRevision("Branch", name, expected, new)

    with writing(repository.git_folder):
        move_worktree(worktree, full_name, expected, new, move)
