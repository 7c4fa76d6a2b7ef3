"""What happened to an agent's memory files, for people: who wrote what, when, in which run, and what was there then.

Everything is read from git in a worker thread; nothing is changed but that rows follow main first.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Literal, TypeVar

import anyio.to_thread
from msgspec import Struct

from eunoe.memory import history
from eunoe.memory.git_library import Author
from eunoe.memory.history import CommitInfo
from eunoe.memory.paths import in_prompt, layout_of
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.revisions import resolve
from eunoe.memory.snapshot import PathChange
from eunoe.runtime.following import require_files
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.runtime import Runtime
from eunoe.state.errors import InvalidInput
from eunoe.state.memory import MemoryHead
from eunoe.store import agents, memory_heads
from eunoe.store.database import Transaction

T = TypeVar("T")

MOST_COMMITS: Final = 1_000
"""Commits that one call of ``log`` returns at most."""

NOTHING: Final = "nothing"
"""The name of what was there before the first commit, for ``diff``."""


class MemoryCommit(Struct, frozen=True, kw_only=True):
    """One commit, and which run, step, message and model it comes from, where its trailers tell."""

    id: str
    parents: tuple[str, ...]
    author: Author
    when: datetime
    subject: str
    message: str
    run_id: str | None = None
    step_id: str | None = None
    message_id: str | None = None
    model: str | None = None


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A file that differs between two commits."""

    path: str
    change: Literal["added", "changed", "deleted"]


class MemoryCommitShown(Struct, frozen=True, kw_only=True):
    """A commit with what it changed since its first parent; ``diff`` is unified text, bounded."""

    commit: MemoryCommit
    files: tuple[ChangedFile, ...]
    diff: str


class MemoryDiff(Struct, frozen=True, kw_only=True):
    """What differs between two commits (full ids; ``None`` is before the first); ``diff`` is unified text, bounded."""

    old: str | None
    new: str
    files: tuple[ChangedFile, ...]
    diff: str


class MemoryLine(Struct, frozen=True, kw_only=True):
    """A line of a file, counted from 1, and the commit that wrote it."""

    number: int
    text: str
    commit: MemoryCommit


class MemoryFileEntry(Struct, frozen=True, kw_only=True):
    """A file of memory: its size in bytes, and whether its text is in the prompt."""

    path: str
    size: int
    in_prompt: bool


class MemoryFiles(Struct, frozen=True, kw_only=True):
    """The files of one commit by path."""

    commit: str
    layout: Literal[1, 2]
    files: tuple[MemoryFileEntry, ...]


class MemoryFileRead(Struct, frozen=True, kw_only=True):
    """A file at a commit, byte for byte."""

    path: str
    commit: str
    data: bytes

    @property
    def text(self) -> str:
        """The file as text. Raises ``InvalidInput`` for bytes that are no UTF-8."""
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{self.path!r} is not UTF-8 text; read its bytes.", field="path") from error


def commit_of(info: CommitInfo) -> MemoryCommit:
    """Return a commit as people are told of it."""
    trailers = {key.lower(): value for key, value in info.trailers}
    return MemoryCommit(
        id=info.id,
        parents=info.parents,
        author=info.author,
        when=info.when,
        subject=info.subject,
        message=info.message,
        run_id=trailers.get("run"),
        step_id=trailers.get("step"),
        message_id=trailers.get("message"),
        model=trailers.get("model"),
    )


def changed_files(changes: Sequence[PathChange]) -> tuple[ChangedFile, ...]:
    """Return what became of each path."""

    def became(change: PathChange) -> Literal["added", "changed", "deleted"]:
        if change.before is None:
            return "added"
        return "deleted" if change.after is None else "changed"

    return tuple(ChangedFile(path=change.path, change=became(change)) for change in changes)


def recorded_head(tx: Transaction, agent_id: str) -> MemoryHead:
    """Return an agent's recorded head. Raises ``NotFound``, and ``Conflict`` for an agent whose memory is blocks."""
    return require_files(memory_heads.get(tx, agents.get(tx, agent_id).id), agent_id)


async def in_repository(runtime: Runtime, agent_id: str, work: Callable[[MemoryRepository, MemoryHead], T]) -> T:
    """Do work on an agent's repository in a worker thread, once its rows have followed main.

    Raises ``NotFound``, ``Conflict`` for an agent whose memory is blocks, ``StoreError``, and what ``work`` raises.
    """
    await follow_memory(runtime, agent_id)
    head = await runtime.db.read(lambda tx: recorded_head(tx, agent_id))
    return await anyio.to_thread.run_sync(lambda: work(runtime.homes.repository(agent_id), head))


def revision_or_head(repository: MemoryRepository, head: MemoryHead, revision: str | None) -> str:
    """Return the full id of a named commit, or of the one that memory is at. Raises ``NotFound``."""
    return head.revision if revision is None else resolve(repository, revision)


async def memory_log(
    runtime: Runtime,
    agent_id: str,
    *,
    paths: Sequence[str] = (),
    limit: int = 50,
    before: str | None = None,
    revision: str | None = None,
) -> tuple[MemoryCommit, ...]:
    """Return the newest commits of main (or before a revision), newest first, after ``before`` in that order.

    With paths of files or folders, only commits that changed one of them. Raises ``NotFound``, and ``InvalidInput``
    for a limit out of 1 to 1,000.
    """
    if not 1 <= limit <= MOST_COMMITS:
        raise InvalidInput(f"limit must be from 1 to {MOST_COMMITS}, not {limit}.", field="limit")

    def work(repository: MemoryRepository, head: MemoryHead) -> tuple[MemoryCommit, ...]:
        # Main may be at a commit that cannot be read yet; whoever looks for the reason must see it here.
        start = resolve(repository, revision) if revision is not None else repository.head() or head.revision
        after = resolve(repository, before) if before is not None else None
        found = history.log(repository, start=start, paths=paths, limit=limit, before=after)
        return tuple(commit_of(info) for info in found)

    return await in_repository(runtime, agent_id, work)


async def memory_show(runtime: Runtime, agent_id: str, revision: str) -> MemoryCommitShown:
    """Return a commit and what it changed. Raises ``NotFound``."""

    def work(repository: MemoryRepository, head: MemoryHead) -> MemoryCommitShown:
        shown = history.show(repository, revision_or_head(repository, head, revision))
        return MemoryCommitShown(commit=commit_of(shown.info), files=changed_files(shown.changes), diff=shown.diff)

    return await in_repository(runtime, agent_id, work)


async def memory_diff(
    runtime: Runtime, agent_id: str, old: str, new: str | None = None, *, paths: Sequence[str] = ()
) -> MemoryDiff:
    """Return what differs between two revisions, the second being memory as it is when only one is named.

    ``nothing`` names what was before the first commit. Raises ``NotFound``.
    """

    def work(repository: MemoryRepository, head: MemoryHead) -> MemoryDiff:
        before = None if old == NOTHING else resolve(repository, old)
        after = revision_or_head(repository, head, new)
        changes = history.changes_between(repository, before, after, paths)
        text = history.diff(repository, before, after, paths)
        return MemoryDiff(old=before, new=after, files=changed_files(changes), diff=text)

    return await in_repository(runtime, agent_id, work)


async def memory_blame(
    runtime: Runtime, agent_id: str, path: str, revision: str | None = None
) -> tuple[MemoryLine, ...]:
    """Return the lines of a file, each with the commit that wrote it. Raises ``NotFound`` and ``InvalidInput``."""

    def work(repository: MemoryRepository, head: MemoryHead) -> tuple[MemoryLine, ...]:
        lines = history.blame(repository, path, revision_or_head(repository, head, revision))
        told: dict[str, MemoryCommit] = {}
        return tuple(
            MemoryLine(
                number=line.number, text=line.text, commit=told.setdefault(line.commit.id, commit_of(line.commit))
            )
            for line in lines
        )

    return await in_repository(runtime, agent_id, work)


async def memory_files(runtime: Runtime, agent_id: str, revision: str | None = None) -> MemoryFiles:
    """Return the files of a revision, or of memory as it is. Raises ``NotFound``."""

    def work(repository: MemoryRepository, head: MemoryHead) -> MemoryFiles:
        commit = revision_or_head(repository, head, revision)
        entries = repository.with_sizes(repository.snapshot(commit).entries)
        layout = layout_of(entry.path for entry in entries)
        return MemoryFiles(
            commit=commit,
            layout=layout,
            files=tuple(
                MemoryFileEntry(path=entry.path, size=entry.size or 0, in_prompt=in_prompt(entry.path, layout))
                for entry in entries
            ),
        )

    return await in_repository(runtime, agent_id, work)


async def memory_file(runtime: Runtime, agent_id: str, path: str, revision: str | None = None) -> MemoryFileRead:
    """Return a file as it was at a revision, or as it is. Raises ``NotFound``."""

    def work(repository: MemoryRepository, head: MemoryHead) -> MemoryFileRead:
        commit = revision_or_head(repository, head, revision)
        return MemoryFileRead(path=path, commit=commit, data=history.file_at(repository, path, commit))

    return await in_repository(runtime, agent_id, work)
