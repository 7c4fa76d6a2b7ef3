"""The git repository of an agent's memory files: the commit that it is at, what that holds, and how it advances.

The files are memory, and the block rows of the store are a view of them at the recorded head H. A memory edit first
writes a commit object on H (``write_commit``) and names it (``keep_recorded``), then the store records the new head in
its own transaction, and only then does ``refs/heads/main`` move there (``move_head``). A crash in between leaves an
object that nobody asks for, or a reference that is behind H and can be moved on. Commits from outside move the
reference first, and the store follows.
History is never rewritten: no function moves main to anything but a descendant.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import structs

from eunoe.memory.advance import advance
from eunoe.memory.blob_cache import BlobCache
from eunoe.memory.commits import Changes, rewrite_tree, tree_of, write_object
from eunoe.memory.git_library import MAIN, Author, blob_type, delete_reference, open_handle, reference_target
from eunoe.memory.locks import WAIT_SECONDS, locked_message, until_free
from eunoe.memory.snapshot import Folder, Snapshot, read_folder
from eunoe.memory.tree import SUBMODULE, TreeEntry
from eunoe.state.errors import Conflict, InvalidInput, StaleRevision, StoreError

if TYPE_CHECKING:
    import pygit2

RECORDED: Final = "refs/eunoe/recorded"
"""What names a commit from before the store records it until main has it. Clients over HTTP do not see it."""

_BLOB_CACHE_BYTES: Final = 8 * 1024 * 1024
_SNAPSHOTS: Final = 8


class MemoryRepository:
    """A repository with its working tree in ``path``, which is absolute.

    One instance may be used by any number of threads: each gets its own handle of the library, and what is cached is
    content under its own id. Writers that read, decide and write hold ``locks.writing(repository.git_folder)``.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_absolute():
            raise InvalidInput(f"The path of a memory repository must be absolute, not {path}.", field="path")
        self.path: Final = path
        self.publication_waits = False
        """Whether the last commit could not be put on main because another git process was at work."""
        self._local = threading.local()
        self._blobs = BlobCache(_BLOB_CACHE_BYTES)
        self._snapshots: OrderedDict[str, Snapshot] = OrderedDict()
        self._lock = threading.Lock()
        self.git_folder: Final = Path(self.handle().path)

    @classmethod
    def open(cls, path: Path) -> "MemoryRepository":
        """Open the repository of a working tree.

        Raises ``StoreError`` when there is none or it cannot be read, and ``InvalidInput`` without the extra ``git``.
        """
        return cls(path)

    def handle(self) -> "pygit2.Repository":
        """Return this thread's handle of the git library; for the modules of this room."""
        handle: pygit2.Repository | None = getattr(self._local, "handle", None)
        if handle is None:
            handle = self._local.handle = open_handle(self.path)
        return handle

    def head(self) -> str | None:
        """Return the commit of main as it is now on the disk, or ``None`` before the first commit.

        Raises ``StoreError`` when the repository itself is gone.
        """
        try:
            return str(self.handle().lookup_reference(MAIN).target)
        except KeyError as error:
            if not (self.git_folder / "HEAD").exists():
                raise StoreError(
                    f"The memory repository {self.path} is gone. Restore it from a backup or a clone.",
                    path=str(self.path),
                ) from error
            return None

    def snapshot(self, commit: str) -> Snapshot:
        """Return what a commit (a full id) holds, without reading blobs; folders like those of the last one are reused.

        Raises ``NotFound`` when there is no such commit, and ``StoreError`` when its objects are damaged.
        """
        with self._lock:
            found = self._snapshots.get(commit)
            if found is not None:
                self._snapshots.move_to_end(commit)
                return found
            last = next(reversed(self._snapshots.values()), None)
        root = self.folder(tree_of(self.handle(), commit), last.root if last else None)
        snapshot = Snapshot(commit=commit, root=root)
        with self._lock:
            self._snapshots[commit] = snapshot
            while len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
        return snapshot

    def folder(self, tree_id: str, before: Folder | None = None) -> Folder:
        """Return what a tree object holds; what ``before`` has as well is not read again. Raises ``StoreError``."""
        return read_folder(tree_id, self._read_object, before)

    def read(self, blob_id: str) -> bytes:
        """Return the bytes of a blob. Raises ``StoreError`` when the repository lacks it or cannot read it."""
        data = self._blobs.get(blob_id)
        if data is None:
            data = self._read_object(blob_id)
            self._blobs.put(blob_id, data)
        return data

    def with_sizes(self, entries: Sequence[TreeEntry]) -> tuple[TreeEntry, ...]:
        """Return entries with their sizes looked up: one small read for each, of the object's header only.

        Raises ``StoreError`` for an object that the repository lacks.
        """
        return tuple(structs.replace(entry, size=self._size(entry)) for entry in entries)

    def write_commit(
        self, parent: str | None, changes: Changes, *, author: Author, message: str, when: datetime
    ) -> str:
        """Write a commit object with changes on a parent and return its id; no reference moves.

        Changes that change nothing return the parent. Raises ``NotFound`` for an unknown parent or a deleted file that
        is not there, and ``InvalidInput`` for a path that cannot be.
        """
        handle = self.handle()
        before = tree_of(handle, parent) if parent is not None else None
        after = rewrite_tree(handle, before, changes)
        if parent is not None and after == before:
            return parent
        parents = [parent] if parent is not None else []
        return write_object(handle, after, parents, author=author, message=message, when=when)

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Say whether a commit is the other, or comes before it. Raises ``NotFound`` for an unknown commit."""
        handle = self.handle()
        for commit in (older, newer):
            tree_of(handle, commit)
        return older == newer or handle.descendant_of(newer, older)

    def move_head(self, expected: str | None, new: str, *, seconds: float = WAIT_SECONDS) -> None:
        """Move main from one commit to a descendant, if it is still there (``None``: if there is no main yet).

        Waits while another git process holds the reference. Raises ``StaleRevision`` when main is elsewhere,
        ``Conflict`` when the new commit does not come after the expected one, ``NotFound`` for an unknown commit and
        ``StoreLocked`` after so many seconds.
        """
        handle = self.handle()
        tree_of(handle, new)
        if expected is not None and not self.is_ancestor(expected, new):
            raise Conflict(
                f"Commit {new} does not come after {expected}, and the history of memory is never rewritten. "
                f"Merge the two, or write the change on top of {expected}."
            )
        moved = self.head() == new if expected == new else advance(handle, self.git_folder, expected, new, seconds)
        if not moved:
            raise StaleRevision("Memory", self.path.name, expected or "(none)", self.head() or "(none)")

    def keep_recorded(self, commit: str, *, seconds: float = WAIT_SECONDS) -> None:
        """Name a commit that the store is about to record, so that no ``git gc`` takes it before main is there.

        To be called in the store's write transaction: one commit at a time is on its way. A commit that is not recorded
        after all loses its name to the next. Raises ``StoreLocked`` as ``move_head`` does.
        """
        handle = self.handle()

        def attempt() -> None:
            now = reference_target(handle, RECORDED)
            if now != commit and not advance(handle, self.git_folder, now, commit, seconds, name=RECORDED):
                raise BlockingIOError(f"{RECORDED} was released meanwhile")

        until_free(attempt, locked_message(self.git_folder / f"{RECORDED}.lock"), seconds)

    def release_recorded(self) -> None:
        """Take that name away, once main has the commit; does nothing while it has not."""
        handle = self.handle()
        kept, main = reference_target(handle, RECORDED), self.head()
        if kept is not None and main is not None and self.is_ancestor(kept, main):
            delete_reference(handle, RECORDED, kept)

    def _size(self, entry: TreeEntry) -> int:
        if entry.mode == SUBMODULE:
            return 0
        try:
            kind, size = self.handle().odb.read_header(entry.blob_id)
        except (KeyError, ValueError) as error:
            raise self._damaged(entry.blob_id) from error
        if int(kind) != blob_type():
            raise self._damaged(entry.blob_id)
        return size

    def _read_object(self, object_id: str) -> bytes:
        try:
            return self.handle().odb.read(object_id)[1]
        except (KeyError, ValueError, OSError) as error:
            raise self._damaged(object_id) from error

    def _damaged(self, object_id: str) -> StoreError:
        return StoreError(
            f"The memory repository {self.path} lacks the object {object_id}, or cannot read it. "
            f"Run `git fsck` in it, and fetch what is missing from a clone or a backup.",
            path=str(self.path),
            object_id=object_id,
        )
