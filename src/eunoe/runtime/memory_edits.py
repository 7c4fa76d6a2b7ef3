"""What a person changes in an agent's memory files: each a commit, based on what was read, never lost and never forced.

A change names the commit that it was based on (``expected``). When memory has moved on since, it is made on top of what
is there now, unless the same lines were changed: then it is refused with the current commit and the files (I8). A
restore is refused when a file that it would change was changed since.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from eunoe.memory import history
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.git_library import Author
from eunoe.memory.judgement import change_problems
from eunoe.memory.paths import check_path
from eunoe.memory.revisions import resolve
from eunoe.memory.snapshot import changed_paths
from eunoe.runtime.file_edits import Commit, FileStore
from eunoe.runtime.memory_history import ChangedFile, changed_files
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.store import agents
from eunoe.store.database import Transaction


class MemoryChange(Struct, frozen=True, kw_only=True):
    """What a change did: the commit that memory is at, the one before, and which files differ between them.

    Both are the same when there was nothing to do.
    """

    commit: str
    previous: str
    files: tuple[ChangedFile, ...]


class NotRestored(Struct, frozen=True, kw_only=True):
    """A file that a restore left as it is, and why."""

    path: str
    why: str


class MemoryRestore(MemoryChange, frozen=True, kw_only=True):
    """What a restore did, and which files it was not allowed to change."""

    not_restored: tuple[NotRestored, ...] = ()


async def write_files(
    runtime: Runtime,
    agent_id: str,
    changes: Mapping[str, bytes | None],
    *,
    expected: str | None = None,
    why: str = "",
    author: Author | None = None,
) -> MemoryChange:
    """Write files (``None`` deletes) as one commit of the user; by default, the caller of this process signs it.

    Raises ``NotFound``, ``Conflict`` for an agent whose memory is blocks, ``StaleRevision``, and ``InvalidInput`` (or
    the verdict on the block) for a file that may not be so; then nothing is changed.
    """
    for path, data in changes.items():
        if data is not None:
            check_path(path)
    told = ", ".join(changes)
    verb = "Delete" if all(data is None for data in changes.values()) else "Write"

    def edit(files: FileStore) -> None:
        commit = Commit(actor="user", subject=f"{verb} {told}", why=why, author=author)
        files.commit(changes, commit, expected=resolve(files.repository, expected) if expected is not None else None)

    return await change_memory(runtime, agent_id, edit)


async def restore_files(
    runtime: Runtime,
    agent_id: str,
    revision: str,
    paths: Sequence[str] = (),
    *,
    expected: str | None = None,
    why: str = "",
) -> MemoryRestore:
    """Make files as they were at a revision, in a new commit: all of them, or those at and below paths.

    Read-only files stay as they are and are told, unless one is named itself: that is refused, as any other change of
    it. History stays. Raises as ``write_files`` does.
    """
    left: list[NotRestored] = []

    def edit(files: FileStore) -> None:
        repository = files.repository
        then = resolve(repository, revision)
        changes = dict(history.restore(repository, files.head.revision, then, paths))
        for problem in _protected(files, then, changes.keys() - set(paths)):
            del changes[problem.path]
            left.append(NotRestored(path=problem.path, why=problem.message))
        what = ", ".join(paths) if paths else "all files"
        if expected is not None:
            files.refuse_stale(changes, resolve(repository, expected))
        files.commit(changes, Commit(actor="user", subject=f"Restore {what} to {then[:10]}", why=why))

    change = await change_memory(runtime, agent_id, edit)
    return MemoryRestore(commit=change.commit, previous=change.previous, files=change.files, not_restored=tuple(left))


def _protected(files: FileStore, then: str, paths: Collection[str]) -> list[FileProblem]:
    """Return which of the paths a user may not make as they were then, because they are read-only now."""
    repository = files.repository
    before = repository.snapshot(files.head.revision).entries
    back = [entry for entry in repository.snapshot(then).entries if entry.path in paths]
    after = sorted([*back, *(entry for entry in before if entry.path not in paths)], key=lambda entry: entry.path)
    problems = change_problems(before, after, lambda entry: repository.read(entry.blob_id), "user")
    return [problem for problem in problems if problem.rule == "read only"]


async def change_memory(runtime: Runtime, agent_id: str, edit: Callable[[FileStore], object]) -> MemoryChange:
    """Edit an agent's memory files in one transaction, and say what became of them. Raises what ``edit`` raises."""
    now = utc_now()

    def write(tx: Transaction) -> MemoryChange:
        agents.get(tx, agent_id)
        files = FileStore(tx, runtime.homes, agent_id, now)
        before = files.head.revision
        edit(files)
        after = files.head.revision
        changes = changed_paths(files.repository.snapshot(before), files.repository.snapshot(after))
        return MemoryChange(commit=after, previous=before, files=changed_files(changes))

    return await runtime.db.write(write)
