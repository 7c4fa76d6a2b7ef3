"""Names for commits of memory: tags, branches, and what becomes of a branch that is merged into main."""

from collections.abc import Callable
from datetime import datetime
from typing import Literal

from msgspec import Struct

from eunoe.memory import revisions
from eunoe.memory.commits import Changes
from eunoe.memory.git_library import Author
from eunoe.memory.locks import writing
from eunoe.memory.merge import MergeConflict, merge
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.revisions import NamedCommit
from eunoe.memory.settle import merge_settled
from eunoe.memory.trailers import commit_message
from eunoe.memory.verdict import check_reason
from eunoe.runtime.file_edits import Commit, FileStore
from eunoe.runtime.following import both_kept
from eunoe.runtime.memory_edits import change_memory
from eunoe.runtime.memory_history import ChangedFile, in_repository, revision_or_head
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.memory import MemoryHead

MergePolicy = Literal["abort", "ours", "theirs", "both"]
"""What becomes of files that both sides changed: nothing is merged, one side's form, or both forms.

With ``both``, a file stays as memory has it, and the other form is put under ``conflicts/<short id>/``.
"""


FindCommit = Callable[[MemoryRepository], str]
"""Gives the full id of the commit to merge; runs in the transaction."""


class MergeOutcome(Struct, frozen=True, kw_only=True):
    """What a merge did. ``commit`` is where memory is now; ``conflicts`` are the paths that both sides changed."""

    outcome: Literal["merged", "nothing to do", "conflict"]
    commit: str
    files: tuple[ChangedFile, ...] = ()
    conflicts: tuple[str, ...] = ()


async def memory_tags(runtime: Runtime, agent_id: str) -> tuple[NamedCommit, ...]:
    """Return the tags by name."""
    return await in_repository(runtime, agent_id, lambda repository, _: revisions.tags(repository))


async def create_memory_tag(
    runtime: Runtime, agent_id: str, name: str, revision: str | None = None, *, message: str = ""
) -> NamedCommit:
    """Give a revision (or memory as it is) a lasting name. Raises ``Conflict`` when it is taken."""
    check_reason(message, "message")
    now = utc_now()

    def work(repository: MemoryRepository, head: MemoryHead) -> NamedCommit:
        commit = revision_or_head(repository, head, revision)
        with writing(repository.git_folder):
            revisions.tag(repository, name, commit, author=runtime.homes.caller, message=message or name, when=now)
        return NamedCommit(name=name, commit=commit)

    return await in_repository(runtime, agent_id, work)


async def memory_branches(runtime: Runtime, agent_id: str) -> tuple[NamedCommit, ...]:
    """Return the branches by name, main among them."""
    return await in_repository(runtime, agent_id, lambda repository, _: revisions.branches(repository))


async def create_memory_branch(runtime: Runtime, agent_id: str, name: str, revision: str | None = None) -> NamedCommit:
    """Begin a branch at a revision (or at memory as it is). Raises ``Conflict`` when the name is taken."""

    def work(repository: MemoryRepository, head: MemoryHead) -> NamedCommit:
        commit = revision_or_head(repository, head, revision)
        with writing(repository.git_folder):
            revisions.create_branch(repository, name, commit)
        return NamedCommit(name=name, commit=commit)

    return await in_repository(runtime, agent_id, work)


async def delete_memory_branch(runtime: Runtime, agent_id: str, name: str) -> None:
    """Delete a branch; what was merged stays. Raises ``NotFound``, and ``Conflict`` for main."""

    def work(repository: MemoryRepository, head: MemoryHead) -> None:
        del head
        with writing(repository.git_folder):
            revisions.delete_branch(repository, name)

    await in_repository(runtime, agent_id, work)


async def merge_memory(
    runtime: Runtime, agent_id: str, revision: str, *, policy: MergePolicy = "abort", why: str = ""
) -> MergeOutcome:
    """Merge a branch (or any revision) into memory. Raises ``NotFound``, and the verdict on a file that may not be so.

    With the policy ``abort`` a merge in which both sides changed the same lines changes nothing, and is told.
    """
    return await merge_into(runtime, agent_id, lambda repository: revisions.resolve(repository, revision), policy, why)


async def merge_into(
    runtime: Runtime,
    agent_id: str,
    find: FindCommit,
    policy: MergePolicy,
    why: str,
    *,
    subject: str = "Merge",
) -> MergeOutcome:
    """Merge the commit that ``find`` gives into memory, as ``merge_memory`` does."""
    check_reason(why)
    now = utc_now()
    conflicts: list[str] = []
    blocked = False

    def edit(files: FileStore) -> None:
        nonlocal blocked
        theirs = find(files.repository)
        ours = files.head.revision
        merged, found = merged_commit(files.repository, ours, theirs, policy, subject, why, now, files.caller)
        conflicts.extend(conflict.path for conflict in found)
        blocked = merged is None
        if merged is not None:
            files.adopt(merged, Commit(actor="user", subject=subject, why=why))

    change = await change_memory(runtime, agent_id, edit)
    outcome: Literal["merged", "nothing to do", "conflict"] = "merged"
    if blocked:
        outcome = "conflict"
    elif change.commit == change.previous:
        outcome = "nothing to do"
    return MergeOutcome(outcome=outcome, commit=change.commit, files=change.files, conflicts=tuple(conflicts))


def merged_commit(
    repository: MemoryRepository,
    ours: str,
    theirs: str,
    policy: MergePolicy,
    subject: str,
    why: str,
    now: datetime,
    author: Author,
) -> tuple[str | None, tuple[MergeConflict, ...]]:
    """Return the merge of two commits, as an object that no reference names, and what both sides changed.

    The commit is ``None`` when the policy is to merge nothing then.
    """
    message = commit_message(f"{subject} {theirs[:10]}", why, {})
    result = merge(repository, ours, theirs, author=author, message=message, when=now)
    if result.commit is not None or policy == "abort":
        return result.commit, result.conflicts
    settled = _settled(result.conflicts, theirs, policy)
    commit = merge_settled(repository, ours, theirs, settled, author=author, message=message, when=now)
    return commit, result.conflicts


def _settled(conflicts: tuple[MergeConflict, ...], theirs: str, policy: MergePolicy) -> Changes:
    if policy == "both":
        return both_kept(conflicts, theirs)
    sides = {one.path: one.ours if policy == "ours" else one.theirs for one in conflicts}
    return {path: data for path, data in sides.items() if data is not None}
