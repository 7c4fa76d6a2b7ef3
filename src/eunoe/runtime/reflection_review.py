"""What becomes of a reflection's branch: its diff, and merging or dropping it; by policy, or because a person says."""

from datetime import datetime
from typing import Final

import anyio.to_thread
from msgspec import Struct, structs

from eunoe.memory import history, revisions
from eunoe.memory.file_changes import Actor
from eunoe.memory.locks import writing
from eunoe.memory.repository import MemoryRepository
from eunoe.runtime.commit import commit
from eunoe.runtime.file_edits import Commit, FileStore
from eunoe.runtime.following import HARNESS
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.memory_branches import MergePolicy, merged_commit
from eunoe.runtime.memory_history import ChangedFile, MemoryCommit, changed_files, commit_of, in_repository
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.errors import Conflict, InvalidInput, NotFound
from eunoe.state.memory import MemoryHead
from eunoe.state.reflections import REVIEWABLE, Reflection
from eunoe.store import agents, reflections
from eunoe.store.database import Transaction

_MOST_COMMITS: Final = 100
"""Commits of one reflection that are listed."""

_NEEDLESS: Final = frozenset({"merged", "nothing to do", "rejected"})
"""Outcomes after which the branch has nothing that is wanted."""


class ReflectionShown(Struct, frozen=True, kw_only=True):
    """A reflection with its edits: one diff from where it began to where it ended, and the commits in between."""

    reflection: Reflection
    files: tuple[ChangedFile, ...] = ()
    commits: tuple[MemoryCommit, ...] = ()
    diff: str = ""


async def list_reflections(runtime: Runtime, agent_id: str) -> list[Reflection]:
    """Return an agent's newest reflections, newest first. Raises ``NotFound``."""
    await _settle(runtime, agent_id)
    return await runtime.db.read(lambda tx: reflections.of_agent(tx, agents.get(tx, agent_id).id))


async def show_reflection(runtime: Runtime, agent_id: str, reflection_id: str) -> ReflectionShown:
    """Return a reflection with its edits, as far as its commits are still there. Raises ``NotFound``."""
    await _settle(runtime, agent_id)
    found = await runtime.db.read(lambda tx: reflections.get(tx, agent_id, reflection_id))

    def look(repository: MemoryRepository, head: MemoryHead) -> ReflectionShown:
        del head
        tip = _tip(repository, found) or found.tip
        if tip is None or tip == found.base:
            return ReflectionShown(reflection=found)
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
        )

    return await in_repository(runtime, agent_id, look)


async def accept_reflection(
    runtime: Runtime, agent_id: str, reflection_id: str, *, policy: MergePolicy = "abort"
) -> Reflection:
    """Merge the branch of a reflection that waits, and return the reflection, merged.

    ``policy`` says what becomes of files that memory changed in the meantime too. Raises ``NotFound``, and
    ``Conflict`` when it does not wait, or when both sides changed the same lines and the policy is to merge nothing.
    """
    found = await _waiting(runtime, agent_id, reflection_id)
    done = await merge_branch(runtime, found, policy=policy, actor="user")
    if done.outcome != "merged":
        raise Conflict(f"{done.detail} Accept it with a policy (ours, theirs, both), or reject it.", field="policy")
    return await record(runtime, done)


async def reject_reflection(runtime: Runtime, agent_id: str, reflection_id: str) -> Reflection:
    """Drop the edits of a reflection that waits. Raises ``NotFound``, and ``Conflict`` when it does not wait."""
    found = await _waiting(runtime, agent_id, reflection_id)
    return await record(runtime, structs.replace(found, outcome="rejected", detail="A person rejected its edits."))


async def merge_branch(
    runtime: Runtime, reflection: Reflection, *, policy: MergePolicy, actor: Actor = "agent"
) -> Reflection:
    """Merge a reflection's branch into memory and store that in the same transaction.

    What collides, or may not be so in memory as it is now, is the outcome ``conflict``: then nothing is merged.
    """
    now = utc_now()
    subject = f"Merge reflection {reflection.branch.removeprefix('reflection/')}"

    def merge(tx: Transaction) -> Reflection:
        files = FileStore(tx, runtime.homes, reflection.agent_id, now)
        tip = revisions.resolve(files.repository, reflection.branch)
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
        done = structs.replace(
            reflection, outcome="merged", detail=f"Its edits are memory since {merged[:10]}.", tip=tip, ended_at=now
        )
        reflections.update(tx, done)
        return done

    return await commit(runtime.db, merge)


async def record(runtime: Runtime, reflection: Reflection) -> Reflection:
    """Store how a reflection ended, and let its branch go where nothing in it is wanted."""
    tip = await anyio.to_thread.run_sync(_known_tip, runtime.homes, reflection)
    done = structs.replace(reflection, tip=tip, ended_at=utc_now())
    await commit(runtime.db, lambda tx: reflections.update(tx, done))
    await anyio.to_thread.run_sync(_drop_branch, runtime.homes, done)
    return done


def end_dead(tx: Transaction, runtime: Runtime, agent_id: str, now: datetime) -> None:
    """End the reflections of processes that are gone as failed; their branches stay for a person to look at."""
    for reflection in reflections.going_on(tx, agent_id):
        if not runtime.db.is_alive(reflection.owner):
            tip = _known_tip(runtime.homes, reflection)
            detail = "The process that carried it ended before it did."
            reflections.update(tx, structs.replace(reflection, outcome="failed", detail=detail, tip=tip, ended_at=now))


async def _settle(runtime: Runtime, agent_id: str) -> None:
    going_on = await runtime.db.read(lambda tx: reflections.going_on(tx, agent_id))
    if any(not runtime.db.is_alive(one.owner) for one in going_on):
        now = utc_now()
        await runtime.db.write(lambda tx: end_dead(tx, runtime, agent_id, now))


async def _waiting(runtime: Runtime, agent_id: str, reflection_id: str) -> Reflection:
    await _settle(runtime, agent_id)
    found = await runtime.db.read(lambda tx: reflections.get(tx, agent_id, reflection_id))
    if found.outcome not in REVIEWABLE or found.tip in {None, found.base}:
        told = found.outcome or "it goes on"
        raise Conflict(f"Reflection {reflection_id} does not wait for a person ({told}).", outcome=found.outcome)
    return found


def _tip(repository: MemoryRepository, reflection: Reflection) -> str | None:
    names = {branch.name: branch.commit for branch in revisions.branches(repository)}
    return names.get(reflection.branch)


def _known_tip(homes: MemoryHomes, reflection: Reflection) -> str | None:
    return _tip(homes.repository(reflection.agent_id), reflection) or reflection.tip


def _drop_branch(homes: MemoryHomes, reflection: Reflection) -> None:
    repository = homes.repository(reflection.agent_id)
    tip = _tip(repository, reflection)
    if tip is not None and (reflection.outcome in _NEEDLESS or tip == reflection.base):
        with writing(repository.git_folder):
            revisions.delete_branch(repository, reflection.branch)
