"""How the working tree follows main, without ever touching what a person has not committed.

Files are written first and the index after them, under git's own lock. So after a crash anywhere, doing it again from
the commit in ``.git/eunoe-worktree``, the last one that the working tree followed, completes it: a path whose index
entry is already the new one is done.
"""

import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from eunoe.memory.git_library import MAIN, index_entry, index_file
from eunoe.memory.locks import WAIT_SECONDS, index_locked
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.snapshot import PathChange, changed_paths
from eunoe.memory.tree import EXECUTABLE, FILE, TreeEntry
from eunoe.memory.working_files import WorkingFiles
from eunoe.state.errors import Conflict

if TYPE_CHECKING:
    import pygit2

Why = Literal["modified", "deleted", "untracked", "staged", "conflicted", "in the way", "not a file"]
"""Why a file of the working tree was left as it is.

``modified``, ``deleted`` and ``untracked`` are uncommitted edits; ``staged`` and ``conflicted`` are in the index;
``in the way`` is a link or folder in the place of a file or its folder; ``not a file`` is a symbolic link or submodule
in the commit, which Eunoe does not make.
"""

INDEX_WAIT: Final = 2.0
"""Seconds that an edit waits for a person's git program to let go of the index."""

_FOLLOWED: Final = "eunoe-worktree"


class KeptFile(Struct, frozen=True, kw_only=True):
    """A path that changed in memory while the file in the working tree stays as it was."""

    path: str
    why: Why


class WorkingTreeReport(Struct, frozen=True, kw_only=True):
    """What following a commit did. ``skipped`` says why nothing was done at all, in a sentence."""

    commit: str
    updated: tuple[str, ...] = ()
    kept: tuple[KeptFile, ...] = ()
    skipped: str | None = None


def checked_out(repository: MemoryRepository) -> str | None:
    """Return the full name of the checked-out branch, or ``None`` when HEAD is detached."""
    head = repository.handle().lookup_reference("HEAD")
    target = head.raw_target
    return target.decode("utf-8", "surrogateescape") if isinstance(target, bytes) else None


def fast_forward_working_tree(
    repository: MemoryRepository,
    old: str | None,
    new: str,
    *,
    begin: Callable[[], object] | None = None,
    seconds: float = WAIT_SECONDS,
    branch: str = MAIN,
) -> WorkingTreeReport:
    """Bring the paths that differ between two commits from one to the other in the working tree and the index.

    ``begin`` moves the branch there, and is done first, while the index is locked: a commit by hand that began in
    between would be made from an index older than its parent, and undo the change unseen. What it raises is passed on.

    Files with uncommitted edits stay, and are reported; their index entries follow, so that a person's next commit
    does not undo the change unseen. Nothing is done while another branch is checked out. Raises ``StoreLocked`` when
    another git process holds the index for so many seconds.
    """
    now = checked_out(repository)
    if now != branch:
        if begin is not None:
            begin()
        at = f"branch {now.removeprefix('refs/heads/')}" if now else "a commit without a branch"
        wanted = branch.removeprefix("refs/heads/")
        return WorkingTreeReport(
            commit=new, skipped=f"The working tree is at {at}, not at {wanted}; it was left alone."
        )
    before = repository.snapshot(old) if old is not None else None
    changes = changed_paths(before, repository.snapshot(new))
    updated: list[str] = []
    kept: list[KeptFile] = []
    if changes or begin is not None:
        with _changed_index(repository, seconds) as index:
            if begin is not None:
                begin()
            step = _Follow(repository, index)
            # Deletions first: a folder may become a file, or the other way round.
            for change in sorted(changes, key=lambda change: change.after is not None):
                why = step.follow(change)
                if why is not None:
                    kept.append(KeptFile(path=change.path, why=why))
                else:
                    updated.append(change.path)
    _remember(repository, new)
    return WorkingTreeReport(commit=new, updated=tuple(sorted(updated)), kept=tuple(kept))


def followed_commit(repository: MemoryRepository) -> str | None:
    """Return the commit that the working tree was last brought to by Eunoe; ``None`` when there was none."""
    try:
        return (repository.git_folder / _FOLLOWED).read_text("ascii").strip() or None
    except FileNotFoundError:
        return None


def heal_working_tree(repository: MemoryRepository, *, seconds: float = WAIT_SECONDS) -> WorkingTreeReport | None:
    """Complete what a crash left between moving main and updating the working tree; ``None`` when nothing was left.

    Raises ``StoreLocked`` as ``fast_forward_working_tree`` does.
    """
    old, new = followed_commit(repository), repository.head()
    if new is None or old is None or old == new or not repository.is_ancestor(old, new):
        return None
    return fast_forward_working_tree(repository, old, new, seconds=seconds)


def _remember(repository: MemoryRepository, commit: str) -> None:
    temporary = repository.git_folder / f"{_FOLLOWED}.tmp"
    temporary.write_text(f"{commit}\n", "ascii")
    temporary.replace(repository.git_folder / _FOLLOWED)


class _Follow:
    """Brings single paths from what they were to what they are, in files and index."""

    def __init__(self, repository: MemoryRepository, index: "pygit2.Index") -> None:
        self._repository = repository
        self._index = index
        self._files = WorkingFiles(repository.path)
        conflicts = index.conflicts
        self._conflicted = {side.path for sides in conflicts or () for side in sides if side is not None}

    def follow(self, change: PathChange) -> Why | None:
        """Do one path, and say why its file was left alone if it was."""
        if change.path in self._conflicted:
            return "conflicted"
        staged = self._staged(change.path)
        if staged == _key(change.after):
            return None
        if staged != _key(change.before):
            return "staged"
        why = self._follow_file(change)
        if change.after is None:
            self._index.remove(change.path)
        else:
            self._index.add(index_entry(change.path, change.after.blob_id, change.after.mode))
        return why

    def _staged(self, path: str) -> tuple[str, int] | None:
        try:
            entry = self._index[path]
        except KeyError:
            return None
        return str(entry.id), int(entry.mode)

    def _follow_file(self, change: PathChange) -> Why | None:
        if not (_is_file(change.before) and _is_file(change.after)):
            return "not a file"
        before, after = self._bytes(change.before), self._bytes(change.after)
        try:
            now = self._files.read(change.path, at_most=max(len(before or b""), len(after or b"")))
            if now == after and not _mode_differs(change):
                return None
            if now not in (before, after):
                return _edited(before, now)
            if change.after is None or after is None:
                self._files.delete(change.path)
            else:
                self._files.write(change.path, after, executable=change.after.mode == EXECUTABLE)
        except Conflict:
            return "in the way"
        return None

    def _bytes(self, entry: TreeEntry | None) -> bytes | None:
        return self._repository.read(entry.blob_id) if entry is not None else None


def _edited(before: bytes | None, now: bytes | None) -> Why:
    if now is None:
        return "deleted"
    return "untracked" if before is None else "modified"


def _mode_differs(change: PathChange) -> bool:
    return change.before is not None and change.after is not None and change.before.mode != change.after.mode


def _key(entry: TreeEntry | None) -> tuple[str, int] | None:
    return (entry.blob_id, entry.mode) if entry is not None else None


def _is_file(entry: TreeEntry | None) -> bool:
    return entry is None or entry.mode in (FILE, EXECUTABLE)


@contextmanager
def _changed_index(repository: MemoryRepository, seconds: float) -> Generator["pygit2.Index"]:
    """Yield git's index to change under git's own lock, and put it in place whole at the end."""
    folder = repository.git_folder
    copy = folder / "eunoe-index"
    with index_locked(folder, seconds):
        for left in (copy, folder / f"{copy.name}.lock"):
            left.unlink(missing_ok=True)
        try:
            shutil.copyfile(folder / "index", copy)
        except FileNotFoundError:
            copy.unlink(missing_ok=True)
        index = index_file(copy)
        yield index
        index.write()
        copy.replace(folder / "index")
