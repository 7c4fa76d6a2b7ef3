"""What does a commit hold? Its files as values, where whatever did not change is shared with the last one."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Final

from msgspec import Struct

from eunoe.memory.tree import TreeEntry

ReadTree = Callable[[str], bytes]
"""Gives the raw tree object of an id in hex."""

_RECORD: Final = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
"""One record of a raw tree object: mode, name, id (gitformat: ``git cat-file tree``)."""

_FOLDER: Final = b"40000"
_PATH: Final = attrgetter("path")


class Folder(Struct, frozen=True, kw_only=True):
    """One folder of a commit: the files in it, its folders by name, and all files in and below it.

    Both lists of files are by path in code point order.
    """

    tree_id: str
    files: tuple[TreeEntry, ...]
    entries: tuple[TreeEntry, ...]
    folders: dict[str, "Folder"]


class Snapshot(Struct, frozen=True, kw_only=True):
    """All files of one commit. ``commit`` is its full id, and ``root`` its top folder."""

    commit: str
    root: Folder

    @property
    def entries(self) -> tuple[TreeEntry, ...]:
        """Every file, by path in code point order; sizes are not looked up."""
        return self.root.entries

    def entry(self, path: str) -> TreeEntry | None:
        """Return the entry of a path, or ``None`` when the commit has no such file."""
        at = bisect_left(self.entries, path, key=_PATH)
        found = self.entries[at] if at < len(self.entries) else None
        return found if found is not None and found.path == path else None

    def below(self, folder: str) -> tuple[TreeEntry, ...]:
        """Return the files in and below a folder, by path in code point order; none when there is no such folder."""
        found = self.root
        for name in folder.strip("/").split("/"):
            inner = found.folders.get(name)
            if inner is None:
                return ()
            found = inner
        return found.entries


class PathChange(Struct, frozen=True, kw_only=True):
    """One path that differs between two commits; ``None`` stands for not there."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


def read_folder(tree_id: str, read: ReadTree, before: Folder | None = None, prefix: str = "") -> Folder:
    """Read a tree and what is below it, except for the parts that ``before``, the same folder earlier, has already."""
    if before is not None and before.tree_id == tree_id:
        return before
    known = before.folders if before is not None else {}
    files: list[TreeEntry] = []
    entries: list[TreeEntry] = []
    folders: dict[str, Folder] = {}
    ascii_only = True
    for mode, raw_name, raw_id in _RECORD.findall(read(tree_id)):
        name = raw_name.decode("utf-8", "surrogateescape")
        ascii_only = ascii_only and name.isascii()
        if mode == _FOLDER:
            folder = folders[name] = read_folder(raw_id.hex(), read, known.get(name), f"{prefix}{name}/")
            entries += folder.entries
        else:
            entry = TreeEntry(path=prefix + name, blob_id=raw_id.hex(), mode=int(mode, 8), size=None)
            files.append(entry)
            entries.append(entry)
    if not ascii_only:
        # Git sorts by bytes, which is the order of code points for text; names that are no text may stand elsewhere.
        files.sort(key=_PATH)
        entries.sort(key=_PATH)
    return Folder(tree_id=tree_id, files=tuple(files), entries=tuple(entries), folders=folders)


def changed_paths(before: Snapshot | None, after: Snapshot) -> tuple[PathChange, ...]:
    """Return what differs between two commits by path in code point order; folders that are the same are not looked at.

    A file that became executable differs. ``None`` before means a commit without files.
    """
    changes = _changes(before.root if before is not None else None, after.root)
    return tuple(sorted(changes, key=_PATH))


def _changes(before: Folder | None, after: Folder | None) -> Iterator[PathChange]:
    if before is not None and after is not None and before.tree_id == after.tree_id:
        return
    ones, others = _files(before), _files(after)
    for path in ones.keys() | others.keys():
        if ones.get(path) != others.get(path):
            yield PathChange(path=path, before=ones.get(path), after=others.get(path))
    inner_ones = before.folders if before is not None else {}
    inner_others = after.folders if after is not None else {}
    for name in inner_ones.keys() | inner_others.keys():
        yield from _changes(inner_ones.get(name), inner_others.get(name))


def _files(folder: Folder | None) -> Mapping[str, TreeEntry]:
    return {entry.path: entry for entry in folder.files} if folder is not None else {}
