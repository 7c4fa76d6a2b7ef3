"""What becomes of a reflection's branch: its diff, and merging or dropping it; by policy, or because a person says."""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import anyio.to_thread
from msgspec import Struct, structs

from eunoe.memory import history, revisions
from eunoe.memory.file_changes import Actor
from eunoe.memory.git_library import delete_reference, find_commit, open_handle, reference_target
from eunoe.memory.locks import writing
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.worktrees import remove_worktree
from eunoe.runtime.commit import commit
from eunoe.runtime.file_edits import Commit, FileStore
from eunoe.runtime.following import HARNESS
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.memory_branches import MergePolicy, merged_commit
from eunoe.runtime.memory_history import ChangedFile, MemoryCommit, changed_files, commit_of, in_repository
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.errors import Conflict, InvalidInput, NotFound, StoreError, StoreLocked
from eunoe.state.memory import MemoryHead
from eunoe.state.reflections import REVIEWABLE, Reflection
from eunoe.store import agents, reflections
from eunoe.store.database import Transaction
from eunoe.store.presence import agent_not_found

_log: Final = logging.getLogger(__name__)

_MOST_COMMITS: Final = 100
"""Commits of one reflection that are listed."""

_NEEDLESS: Final = frozenset({"merged", "nothing to do", "rejected"})
"""Outcomes after which the branch has nothing that is wanted."""


class ReflectionShown(Struct, frozen=True, kw_only=True):
    """A reflection with its edits: one diff from where it began to where it ended, and the commits in between.

    ``worktree`` is the folder of the server's machine where its branch is checked out, if it is.
    """

    reflection: Reflection
    files: tuple[ChangedFile, ...] = ()
    commits: tuple[MemoryCommit, ...] = ()
    diff: str = ""
    worktree: str | None = None


async def list_reflections(runtime: Runtime, agent_id: str) -> list[Reflection]:
    """Return an agent's newest reflections, newest first. Raises ``NotFound``."""
    await _settle(runtime, agent_id)
    return await runtime.db.read(lambda tx: reflections.of_agent(tx, agents.get(tx, agent_id).id))


async def show_reflection(runtime: Runtime, agent_id: str, reflection_id: str) -> ReflectionShown:
    """Return a reflection with its edits, as far as its commits are still there. Raises ``NotFound``."""
    await _settle(runtime, agent_id)
    found = await runtime.db.read(lambda tx: reflections.get(tx, agent_id, reflection_id))

    folder = runtime.homes.worktree(agent_id, found.branch)

    def look(repository: MemoryRepository, head: MemoryHead) -> ReflectionShown:
        del head
        tip, worktree = _tip(repository, found), str(folder) if folder.exists() else None
        if tip is None or tip == found.base:
            return ReflectionShown(reflection=found, worktree=worktree)
        try:
            changes = history.changes_between(repository, found.base, tip)
        except NotFound:
            return ReflectionShown(reflection=found)  # rejected, and git has cleared away what no branch names
        commits = history.log(repository, start=tip, limit=_MOST_COMMITS)
        ours = [one for one in commits if repository.is_ancestor(found.base, one.id) and one.id != found.base]
        return ReflectionShown(
            reflection=found,
            files=changed_files(changes),
            commits=tuple(commit_of(one) for one in ours),
            diff=history.diff(repository, found.base, tip),
            worktree=worktree,
        )

    return await in_repository(runtime, agent_id, look)


async def accept_reflection(
    runtime: Runtime, agent_id: str, reflection_id: str, *, policy: MergePolicy = "abort"
) -> Reflection:
    """Merge the branch of a reflection that waits, and return the reflection, merged.

    ``policy`` says what becomes of files that memory changed in the meantime too. Raises ``NotFound``, and
    ``Conflict`` when it does not wait, or when both sides changed the same lines and the policy is to merge nothing.
    """
    now = utc_now()

    def accept(tx: Transaction) -> Reflection:
        # Looked at in the transaction that decides, so that of two decisions the second finds it decided.
        found = _waiting(tx, runtime, agent_id, reflection_id, now)
        done = _merge(tx, runtime, found, policy, "user", now)
        if done.outcome != "merged":
            raise Conflict(f"{done.detail} Accept it with a policy (ours, theirs, both), or reject it.", field="policy")
        reflections.update(tx, done)
        return done

    done = await commit(runtime.db, accept)
    await anyio.to_thread.run_sync(_drop_branch, runtime.homes, done)
    return done


async def reject_reflection(runtime: Runtime, agent_id: str, reflection_id: str) -> Reflection:
    """Drop the edits of a reflection that waits. Raises ``NotFound``, and ``Conflict`` when it does not wait."""
    now = utc_now()

    def reject(tx: Transaction) -> Reflection:
        found = _waiting(tx, runtime, agent_id, reflection_id, now)
        tip = _tip(runtime.homes.repository(agent_id), found)
        done = structs.replace(found, outcome="rejected", detail="A person rejected its edits.", tip=tip, ended_at=now)
        reflections.update(tx, done)
        return done

    done = await commit(runtime.db, reject)
    await anyio.to_thread.run_sync(_drop_branch, runtime.homes, done)
    return done


async def merge_reflection(runtime: Runtime, reflection: Reflection) -> Reflection:
    """Merge the branch of a reflection that goes on, and end it as merged or in conflict, in one transaction."""
    now = utc_now()

    def merge(tx: Transaction) -> Reflection:
        stored = _stored(tx, reflection)
        if stored.outcome is not None:
            return stored
        return _ended(tx, runtime, _merge(tx, runtime, reflection, "abort", "agent", now), now)

    done = await commit(runtime.db, merge)
    await anyio.to_thread.run_sync(_drop_branch, runtime.homes, done)
    return done


async def record(runtime: Runtime, reflection: Reflection) -> Reflection:
    """Store how a reflection ended, unless that is stored already, and let its branch go if nothing in it is wanted.

    Raises ``NotFound`` when its agent was deleted meanwhile.
    """
    now = utc_now()
    done = await commit(runtime.db, lambda tx: _ended(tx, runtime, reflection, now))
    await anyio.to_thread.run_sync(_drop_branch, runtime.homes, done)
    return done


def end_dead(tx: Transaction, runtime: Runtime, agent_id: str, now: datetime) -> None:
    """End the reflections of processes that are gone as failed; their branches stay for a person to look at."""
    for reflection in reflections.going_on(tx, agent_id):
        if not runtime.db.is_alive(reflection.owner):
            detail = "The process that carried it ended before it did."
            _ended(tx, runtime, structs.replace(reflection, outcome="failed", detail=detail), now)


def needless_branches(tx: Transaction, agent_id: str) -> tuple[Reflection, ...]:
    """Return reflections whose branches nobody wants, but which may be there: a process died before it dropped them."""
    return tuple(
        one
        for one in reflections.of_agent(tx, agent_id)
        if one.outcome in _NEEDLESS or (one.outcome is not None and one.tip in {None, one.base})
    )


def drop_branches(homes: MemoryHomes, ended: Sequence[Reflection]) -> None:
    """Let the branches of reflections go, as far as they are there."""
    for reflection in ended:
        _drop_branch(homes, reflection)


def _ended(tx: Transaction, runtime: Runtime, reflection: Reflection, now: datetime) -> Reflection:
    """Store the end of a reflection that goes on, and return it as it is stored."""
    stored = _stored(tx, reflection)
    if stored.outcome is not None:
        return stored
    done = structs.replace(
        reflection, tip=_tip(runtime.homes.repository(reflection.agent_id), reflection), ended_at=now
    )
    reflections.update(tx, done)
    return done


def _stored(tx: Transaction, reflection: Reflection) -> Reflection:
    try:
        return reflections.get(tx, reflection.agent_id, reflection.id)
    except NotFound:
        raise agent_not_found(reflection.agent_id) from None


def _merge(
    tx: Transaction, runtime: Runtime, reflection: Reflection, policy: MergePolicy, actor: Actor, now: datetime
) -> Reflection:
    """Merge a reflection's branch into memory.

    What collides, or may not be so in memory as it is now, is the outcome ``conflict``: then nothing is merged.
    """
    subject = f"Merge reflection {reflection.branch.removeprefix('reflection/')}"
    files = FileStore(tx, runtime.homes, reflection.agent_id, now)
    tip = _tip(files.repository, reflection)
    # Looked for with a fresh eye: a handle that is in use remembers commits that git has cleared away.
    if tip is None or find_commit(open_handle(files.repository.path), tip) is None:
        raise Conflict(
            f"The edits of reflection {reflection.id} are gone: somebody deleted the branch {reflection.branch}. "
            f"Reject it.",
            branch=reflection.branch,
        )
    merged, conflicts = merged_commit(
        files.repository, files.head.revision, tip, policy, subject, "", now, author=HARNESS
    )
    if merged is None:
        paths = ", ".join(one.path for one in conflicts)
        return structs.replace(
            reflection, outcome="conflict", detail=f"Memory and the reflection both changed {paths}."
        )
    try:
        files.adopt(merged, Commit(actor=actor, subject=subject, run_id=reflection.run_id))
    except InvalidInput as error:
        return structs.replace(reflection, outcome="conflict", detail=error.message)
    detail = f"Its edits are memory since {merged[:10]}."
    return structs.replace(reflection, outcome="merged", detail=detail, tip=tip, ended_at=now)


async def _settle(runtime: Runtime, agent_id: str) -> None:
    going_on = await runtime.db.read(lambda tx: reflections.going_on(tx, agent_id))
    if any(not runtime.db.is_alive(one.owner) for one in going_on):
        now = utc_now()
        await runtime.db.write(lambda tx: end_dead(tx, runtime, agent_id, now))


def _waiting(tx: Transaction, runtime: Runtime, agent_id: str, reflection_id: str, now: datetime) -> Reflection:
    """Return a reflection that a person may decide on. Raises ``NotFound``, and ``Conflict`` for another one."""
    end_dead(tx, runtime, agent_id, now)
    found = reflections.get(tx, agent_id, reflection_id)
    if found.outcome not in REVIEWABLE or found.tip in {None, found.base}:
        told = found.outcome or "it goes on"
        raise Conflict(f"Reflection {reflection_id} does not wait for a person ({told}).", outcome=found.outcome)
    return found


def _tip(repository: MemoryRepository, reflection: Reflection) -> str | None:
    """Return the newest commit of a reflection's branch; of one that is gone, the newest that was recorded."""
    names = {branch.name: branch.commit for branch in revisions.branches(repository)}
    return names.get(reflection.branch) or reflection.tip


def _drop_branch(homes: MemoryHomes, reflection: Reflection) -> None:
    """Let the branch of a reflection go with its working tree, if nothing in it is wanted.

    One that somebody has checked out or works on stays, as does one that another git process has locked, and one with
    commits from after the decision: what became of the reflection is stored already, and the next one drops it.
    """
    try:
        _drop_unwanted(homes, reflection)
    except (Conflict, NotFound, StoreLocked):
        return
    except (StoreError, OSError) as error:
        _log.warning("the branch %s stays for now: %s", reflection.branch, error)


def _drop_unwanted(homes: MemoryHomes, reflection: Reflection) -> None:
    repository = homes.repository(reflection.agent_id)
    worktree = homes.worktree(reflection.agent_id, reflection.branch)
    there = any(branch.name == reflection.branch for branch in revisions.branches(repository))
    if not (there or worktree.exists()):
        return
    name = revisions.BRANCHES + reflection.branch

    def drop() -> bool:
        at = reference_target(repository.handle(), name)
        if at is None:
            return True
        return _is_unwanted(repository, reflection, at) and delete_reference(repository.handle(), name, at)

    with writing(repository.git_folder):
        remove_worktree(repository, name, worktree, drop)


def _is_unwanted(repository: MemoryRepository, reflection: Reflection, commit: str) -> bool:
    """Say whether a branch at this commit has nothing that the decision on the reflection did not see."""
    if commit == reflection.base:
        return True
    if reflection.outcome not in _NEEDLESS:
        return False
    main = repository.head()
    return any(one is not None and repository.is_ancestor(commit, one) for one in (reflection.tip, main))
