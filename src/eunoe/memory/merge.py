"""What two histories come to together: three-way merges in memory: no working tree, no index, no reference."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from eunoe.memory.commits import Changes, tree_of, write_object
from eunoe.memory.git_library import Author, merged_commits, merged_trees
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.tree import SUBMODULE

if TYPE_CHECKING:
    import pygit2


class MergeConflict(Struct, frozen=True, kw_only=True):
    """One path on which both sides disagree; ``None`` stands for a side that has no such file.

    A submodule's bytes are its commit id.
    """

    path: str
    base: bytes | None
    ours: bytes | None
    theirs: bytes | None


class MergeResult(Struct, frozen=True, kw_only=True):
    """A commit object, or the conflicts that stand in its way; never both."""

    commit: str | None
    conflicts: tuple[MergeConflict, ...] = ()


def merge(
    repository: MemoryRepository, ours: str, theirs: str, *, author: Author, message: str, when: datetime
) -> MergeResult:
    """Merge two commits into one with both as parents, ours first.

    A file that one side renamed and the other edited is edited under its new name, if no path is in conflict then.
    Where one commit contains the other already, that one is the result and nothing is written. Histories without a
    common commit are merged as if both had begun with nothing. Raises ``NotFound`` for an unknown commit.
    """
    if repository.is_ancestor(theirs, ours):
        return MergeResult(commit=ours)
    if repository.is_ancestor(ours, theirs):
        return MergeResult(commit=theirs)
    handle = repository.handle()
    tree_id, conflicts = _settle(repository, lambda renames: merged_commits(handle, ours, theirs, renames=renames))
    if tree_id is None:
        return MergeResult(commit=None, conflicts=conflicts)
    commit = write_object(handle, tree_id, (ours, theirs), author=author, message=message, when=when)
    return MergeResult(commit=commit)


def rebase_edit(
    repository: MemoryRepository,
    base: str,
    changes: Changes,
    onto: str,
    *,
    author: Author,
    message: str,
    when: datetime,
) -> MergeResult:
    """Make an edit that was based on one commit on top of another one, if both do not touch the same lines (I8).

    The result has ``onto`` as its only parent; an edit that is there already gives ``onto`` itself. Raises as
    ``write_commit`` does.
    """
    edited = repository.write_commit(base, changes, author=author, message=message, when=when)
    if edited == base or base == onto:
        return MergeResult(commit=onto if edited == base else edited)
    handle = repository.handle()
    trees = tree_of(handle, base), tree_of(handle, onto), tree_of(handle, edited)
    tree_id, conflicts = _settle(repository, lambda renames: merged_trees(handle, *trees, renames=renames))
    if tree_id is None:
        return MergeResult(commit=None, conflicts=conflicts)
    if tree_id == trees[1]:
        return MergeResult(commit=onto)
    return MergeResult(commit=write_object(handle, tree_id, (onto,), author=author, message=message, when=when))


def _settle(
    repository: MemoryRepository, merged: "Callable[[bool], pygit2.Index]"
) -> tuple[str | None, tuple[MergeConflict, ...]]:
    """Return the merged tree or the conflicts: path by path first, then with renames where that settles what is left.

    Guessing renames first would make conflicts of files that only look alike.
    """
    first: tuple[MergeConflict, ...] = ()
    for renames in (False, True):
        index = merged(renames)
        conflicts = _conflicts(repository, index)
        if not conflicts:
            return str(index.write_tree(repository.handle())), ()
        first = first or conflicts
    return None, first


def _conflicts(repository: MemoryRepository, index: "pygit2.Index") -> tuple[MergeConflict, ...]:
    found: list[MergeConflict] = []
    for base, ours, theirs in index.conflicts or ():
        named = ours or theirs or base
        if named is None:
            continue
        found.append(
            MergeConflict(
                path=str(named.path),
                base=_side(repository, base),
                ours=_side(repository, ours),
                theirs=_side(repository, theirs),
            )
        )
    return tuple(sorted(found, key=lambda conflict: conflict.path))


def _side(repository: MemoryRepository, entry: "pygit2.IndexEntry | None") -> bytes | None:
    if entry is None:
        return None
    return str(entry.id).encode() if int(entry.mode) == SUBMODULE else repository.read(str(entry.id))
