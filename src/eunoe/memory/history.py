"""What happened to memory, when and why: log, differences, who wrote each line, and files as they were."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from eunoe.memory.commits import Changes
from eunoe.memory.git_library import Author, file_patch, find_commit, walk_by_time
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.snapshot import PathChange, changed_paths
from eunoe.memory.trailers import parse_trailers
from eunoe.memory.tree import EXECUTABLE, FILE, SUBMODULE, TreeEntry
from eunoe.state.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    import pygit2

MAX_FILE_DIFF: Final = 50_000
"""Characters of the longest diff of one file that is shown; of a longer one only its size is told."""

MAX_DIFF: Final = 500_000
"""Characters of the longest diff in all."""

MAX_DIFFED_FILE: Final = 2 * 1024 * 1024
"""Bytes of the largest file that is compared at all."""


class CommitInfo(Struct, frozen=True, kw_only=True):
    """One commit. ``subject`` is the first line of ``message``; ``when`` is the author's time."""

    id: str
    parents: tuple[str, ...]
    author: Author
    when: datetime
    subject: str
    message: str
    trailers: tuple[tuple[str, str], ...]


class ShownCommit(Struct, frozen=True, kw_only=True):
    """One commit with what it changed since its first parent; ``diff`` is unified text, bounded like ``diff``."""

    info: CommitInfo
    changes: tuple[PathChange, ...]
    diff: str


class BlamedLine(Struct, frozen=True, kw_only=True):
    """One line of a file, without its end, and the commit that it comes from. Lines count from 1."""

    number: int
    text: str
    commit: CommitInfo


def log(
    repository: MemoryRepository,
    *,
    start: str,
    paths: Sequence[str] = (),
    limit: int = 50,
    before: str | None = None,
) -> tuple[CommitInfo, ...]:
    """Return a commit and its ancestors, newest first: at most so many, those after ``before`` in that order.

    With paths (of files or folders), only commits that changed one of them against each of their parents. Commits are
    given by their full ids. Raises ``NotFound`` for an unknown commit.
    """
    _commit(repository, start)
    found: list[CommitInfo] = []
    waiting = before is not None
    for commit in walk_by_time(repository.handle(), start):
        if waiting:
            waiting = str(commit.id) != before
            continue
        if paths and not _touches(commit, paths):
            continue
        found.append(_info(commit))
        if len(found) >= limit:
            break
    if waiting and before is not None:
        raise NotFound("commit", before, f"Commit {before} is not in the history of {start}. Begin without it.")
    return tuple(found)


def show(repository: MemoryRepository, commit: str) -> ShownCommit:
    """Return a commit (a full id) and what it changed. Raises ``NotFound``."""
    info = _info(_commit(repository, commit))
    parent = info.parents[0] if info.parents else None
    return ShownCommit(
        info=info, changes=changes_between(repository, parent, commit), diff=diff(repository, parent, commit)
    )


def changes_between(
    repository: MemoryRepository, old: str | None, new: str, paths: Sequence[str] = ()
) -> tuple[PathChange, ...]:
    """Return the paths that differ between two commits; with ``paths``, those and what is below them only.

    ``None`` as the old one stands for nothing at all. Raises ``NotFound``.
    """
    before = repository.snapshot(old) if old is not None else None
    changes = changed_paths(before, repository.snapshot(new))
    return tuple(change for change in changes if not paths or _below(change.path, paths))


def diff(repository: MemoryRepository, old: str | None, new: str, paths: Sequence[str] = ()) -> str:
    """Return the differences between two commits as unified text, as ``changes_between`` has them.

    What is too long is left out, and a line in square brackets says so. Bytes that are no UTF-8 are shown as U+FFFD.
    """
    parts: list[str] = []
    length = 0
    changes = changes_between(repository, old, new, paths)
    for number, change in enumerate(changes):
        text = _file_diff(repository, change)
        length += len(text)
        if length > MAX_DIFF:
            parts.append(f"[{len(changes) - number} more files differ; ask for them by path]\n")
            break
        parts.append(text)
    return "".join(parts)


def blame(repository: MemoryRepository, path: str, commit: str) -> tuple[BlamedLine, ...]:
    """Return the lines of a text file at a commit (a full id), each with the commit that wrote it.

    Raises ``NotFound`` for an unknown commit or file, and ``InvalidInput`` for what is no UTF-8 text.
    """
    data = file_at(repository, path, commit)
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path!r} is not UTF-8 text, so it has no lines to tell about.", field="path") from error
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return ()
    known: dict[str, CommitInfo] = {}
    found: list[BlamedLine] = []
    for hunk in repository.handle().blame(path, newest_commit=commit):
        author_id = str(hunk.final_commit_id)
        info = known.setdefault(author_id, _info(_commit(repository, author_id)))
        first = hunk.final_start_line_number
        numbers = range(first, first + hunk.lines_in_hunk)
        found += (BlamedLine(number=number, text=lines[number - 1], commit=info) for number in numbers)
    return tuple(found)


def file_at(repository: MemoryRepository, path: str, commit: str) -> bytes:
    """Return a file as it was at a commit (a full id). Raises ``NotFound``, also for a submodule."""
    entry = repository.snapshot(commit).entry(path)
    if entry is None or entry.mode == SUBMODULE:
        raise NotFound("file", path, f"Commit {commit[:10]} has no file {path!r}.")
    return repository.read(entry.blob_id)


def restore(repository: MemoryRepository, now: str, then: str, paths: Sequence[str] = ()) -> Changes:
    """Return the changes for ``write_commit`` on ``now`` that make files as they were ``then``; all, or below paths.

    Raises ``NotFound`` for an unknown commit or a path that neither has, and ``InvalidInput`` for a symbolic link or
    submodule, which Eunoe does not make.
    """
    for path in paths:
        if not any(_below(entry.path, (path,)) for c in (now, then) for entry in repository.snapshot(c).entries):
            raise NotFound("file", path, f"Neither commit {now[:10]} nor {then[:10]} has {path!r}.")
    changes: dict[str, bytes | None] = {}
    for change in changes_between(repository, now, then, paths):
        if change.after is not None and change.after.mode not in (FILE, EXECUTABLE):
            raise InvalidInput(
                f"{change.path!r} was no plain file at commit {then[:10]} and cannot be restored. Name other paths.",
                field="paths",
            )
        changes[change.path] = repository.read(change.after.blob_id) if change.after is not None else None
    return changes


def _commit(repository: MemoryRepository, commit: str) -> "pygit2.Commit":
    found = find_commit(repository.handle(), commit)
    if found is None:
        raise NotFound("commit", commit, f"There is no commit {commit} in the memory of {repository.path.name}.")
    return found


def _info(commit: "pygit2.Commit") -> CommitInfo:
    message = commit.raw_message.decode("utf-8", "replace")
    who = commit.author
    zone = timezone(timedelta(minutes=who.offset)) if who.offset else UTC
    return CommitInfo(
        id=str(commit.id),
        parents=tuple(str(parent) for parent in commit.parent_ids),
        author=Author(who.raw_name.decode("utf-8", "replace"), who.raw_email.decode("utf-8", "replace")),
        when=datetime.fromtimestamp(who.time, zone),
        subject=message.strip().partition("\n")[0],
        message=message,
        trailers=parse_trailers(message),
    )


def _touches(commit: "pygit2.Commit", paths: Sequence[str]) -> bool:
    parents = commit.parents
    if not parents:
        return any(_object_at(commit, path) is not None for path in paths)
    return all(any(_object_at(commit, path) != _object_at(parent, path) for path in paths) for parent in parents)


def _object_at(commit: "pygit2.Commit", path: str) -> str | None:
    try:
        return str(commit.tree[path.rstrip("/")].id)
    except KeyError:
        return None


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _file_diff(repository: MemoryRepository, change: PathChange) -> str:
    sides = (change.before, change.after)
    sizes = [entry.size or 0 for entry in repository.with_sizes([entry for entry in sides if entry is not None])]
    if max(sizes) > MAX_DIFFED_FILE:
        return f"[{change.path!r} differs; it is too large to compare: {max(sizes)} bytes]\n"
    before, after = (_bytes(repository, entry) for entry in sides)
    text = file_patch(change.path, before, after).decode("utf-8", "replace")
    if len(text) > MAX_FILE_DIFF:
        return f"[{change.path!r} differs; its diff is too long to show: {len(text)} characters]\n"
    modes = [entry.mode for entry in sides if entry is not None]
    if len(set(modes)) > 1:
        text = f"[{change.path!r}: mode {modes[0]:o} became {modes[1]:o}]\n{text}"
    return text


def _bytes(repository: MemoryRepository, entry: TreeEntry | None) -> bytes | None:
    if entry is None:
        return None
    return entry.blob_id.encode() if entry.mode == SUBMODULE else repository.read(entry.blob_id)
