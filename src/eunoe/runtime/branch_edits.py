"""Memory tools that work on a branch of another agent's files: commits there, no rows, and main does not move."""

from datetime import datetime

from eunoe.memory.git_library import reference_target, set_branch
from eunoe.memory.locks import WAIT_SECONDS, locked_message, until_free, writing
from eunoe.memory.merge import merge
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.revisions import BRANCHES
from eunoe.memory.trailers import commit_message
from eunoe.memory.worktrees import move_worktree
from eunoe.runtime.file_edits import Commit, FileStore
from eunoe.runtime.following import HARNESS, head_at
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.turn import MemoryBranch
from eunoe.state.blocks import Block
from eunoe.state.errors import NotFound, StaleRevision
from eunoe.state.memory import MemoryHead
from eunoe.store.database import Transaction


class BranchStore(FileStore):
    """The files of a branch within one transaction of a turn that works on it.

    The turn knows the newest commit, so that several calls of one step build on each other; the branch moves there
    after the transaction. A crash in between loses commits of a turn that is lost too.
    """

    def __init__(self, tx: Transaction, homes: MemoryHomes, branch: MemoryBranch, now: datetime) -> None:
        self._tx = tx
        self._now = now
        self._homes = homes
        self._branch = branch
        self.agent_id = branch.agent_id
        self.repository: MemoryRepository = homes.repository(branch.agent_id)
        self.caller = homes.caller
        tip = _joined(self.repository, branch, _at(self.repository, branch), now)
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
        self._branch.tip = new
        self._tx.after_commit(lambda: settle_branch(self._homes, self._branch, self._now))
        self.head = head_at(self.repository, self.agent_id, new)
        return self.head


def settle_branch(homes: MemoryHomes, branch: MemoryBranch, now: datetime) -> None:
    """Bring a branch, and the files of its working tree, to the newest commit that its turn has made.

    What somebody else committed on it meanwhile is merged. Raises ``StaleRevision`` when both changed the same lines,
    ``NotFound`` when the branch is gone, and ``StoreLocked``.
    """
    if branch.tip is None:
        return
    repository = homes.repository(branch.agent_id)
    full_name = BRANCHES + branch.name
    with writing(repository.git_folder):
        at = _at(repository, branch)
        new = _joined(repository, branch, at, now)

        def move() -> None:
            moved = until_free(
                lambda: set_branch(repository.handle(), full_name, at, new, "eunoe: reflection"),
                locked_message(repository.git_folder / f"{full_name}.lock"),
                WAIT_SECONDS,
            )
            if not moved:
                raise StaleRevision("Branch", branch.name, at, new)

        if new != at:
            move_worktree(homes.worktree(branch.agent_id, branch.name), full_name, at, new, move)
        branch.tip = new


def _at(repository: MemoryRepository, branch: MemoryBranch) -> str:
    found = reference_target(repository.handle(), BRANCHES + branch.name)
    if found is None:
        raise NotFound("Branch", branch.name, f"Somebody deleted the branch {branch.name} that this works on.")
    return found


def _joined(repository: MemoryRepository, branch: MemoryBranch, at: str, now: datetime) -> str:
    """Return the commit that has what the turn made and what is on the branch."""
    if branch.tip is None:
        return at
    message = commit_message("Merge what was committed on the branch meanwhile", "", {})
    result = merge(repository, branch.tip, at, author=HARNESS, message=message, when=now)
    if result.commit is None:
        raise StaleRevision("Branch", branch.name, branch.tip, at, [one.path for one in result.conflicts])
    return result.commit
