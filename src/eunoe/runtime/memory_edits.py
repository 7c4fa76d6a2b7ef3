"""What a person changes in an agent's memory files: each a commit, based on what was read, never lost and never forced.

A change names the commit that it was based on (``expected``). When memory has moved on since, it is made on top of what
is there now, unless the same paths were changed: then it is refused with the current commit (I8).
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from eunoe.memory import history
from eunoe.memory.git_library import Author
from eunoe.memory.paths import check_path
from eunoe.memory.revisions import resolve
from eunoe.memory.snapshot import changed_paths
from eunoe.runtime.file_edits import USER, Commit, FileStore
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


async def write_files(
    runtime: Runtime,
    agent_id: str,
    changes: Mapping[str, bytes | None],
    *,
    expected: str | None = None,
    why: str = "",
    author: Author = USER,
) -> MemoryChange:
    """Write files (``None`` deletes) as one commit of the user.

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
) -> MemoryChange:
    """Make files as they were at a revision, in a new commit: all of them, or those at and below paths.

    History stays. Raises as ``write_files`` does.
    """

    def edit(files: FileStore) -> None:
        repository = files.repository
        then = resolve(repository, revision)
        changes = history.restore(repository, files.head.revision, then, paths)
        what = ", ".join(paths) if paths else "all files"
        commit = Commit(actor="user", subject=f"Restore {what} to {then[:10]}", why=why)
        files.commit(changes, commit, expected=resolve(repository, expected) if expected is not None else None)

    return await change_memory(runtime, agent_id, edit)


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
