"""How the git library is reached: the only module that imports pygit2, and only when a repository is opened.

pygit2 comes with the extra ``git`` and takes a tenth of a second and more to import, which agents without memory files
shall not pay. Handles are not thread-safe: each thread opens its own.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from eunoe.state.errors import InvalidInput, StoreError

if TYPE_CHECKING:
    import pygit2

MAIN: Final = "refs/heads/main"
"""The branch that is the agent's memory."""

_NOT_IN_A_NAME: Final = str.maketrans("", "", "<>\n\r\0")


class Author(Struct, frozen=True):
    """Who made a commit."""

    name: str
    email: str


@cache
def _library() -> ModuleType:
    """Return pygit2, with durable writes switched on. Raises ``InvalidInput`` when it is not installed."""
    try:
        import pygit2
    except ImportError as error:
        raise InvalidInput(
            "Memory files need the git library, which is not installed. Install it with: pip install 'eunoe[git]'"
        ) from error
    # A commit that the store has recorded must be on the disk when the machine loses power.
    pygit2.settings.enable_fsync_gitdir(True)
    return pygit2


def open_handle(path: Path) -> "pygit2.Repository":
    """Open the repository whose working tree is exactly this folder; parent folders are not searched.

    Raises ``InvalidInput`` when pygit2 is missing, and ``StoreError`` when there is no repository or it cannot be read.
    """
    library = _library()
    try:
        handle = library.Repository(str(path), library.enums.RepositoryOpenFlag.NO_SEARCH)
    except (library.GitError, OSError, ValueError) as error:
        raise StoreError(
            f"The memory repository {path} cannot be opened: {error}. "
            f"Check who owns it and that it is whole (`git -C {path} fsck`), or restore it from a backup or a clone.",
            path=str(path),
        ) from error
    if handle.is_bare:
        raise StoreError(f"The memory repository {path} has no working tree. Clone it without --bare.", path=str(path))
    return handle


def add_objects(handle: "pygit2.Repository", folder: Path) -> None:
    """Let a handle read the objects of one more folder as well."""
    handle.odb.add_disk_alternate(str(folder))


def init_handle(path: Path) -> "pygit2.Repository":
    """Make an empty repository with a working tree, whose HEAD is main."""
    return _library().init_repository(str(path), bare=False, initial_head="main")


def link_worktree(handle: "pygit2.Repository", path: Path, branch: str) -> None:
    """Check a branch out into a new folder beside the working tree. Raises ``StoreError`` when git cannot do so."""
    try:
        handle.add_worktree(path.name, str(path), handle.lookup_reference(branch))
    except (KeyError, ValueError, OSError, _library().GitError) as error:
        raise StoreError(f"{branch} cannot be checked out into {path}: {error}", path=str(path)) from error


def nothing_begun(handle: "pygit2.Repository") -> bool:
    """Say whether files and index are as the commit that is checked out, and no merge or the like is half done.

    Ignored files count for nothing. Where the branch is gone, only what differs from the index counts. Raises
    ``StoreError`` when it cannot be looked at.
    """
    status = _library().enums.FileStatus
    alike = status.CURRENT | status.IGNORED
    if handle.head_is_unborn:
        alike |= status.INDEX_NEW
    try:
        return handle.state() == 0 and not any(flags & ~alike for flags in handle.status().values())
    except (_library().GitError, OSError) as error:
        raise StoreError(f"The working tree {handle.workdir} cannot be looked at: {error}") from error


def set_config(handle: "pygit2.Repository", key: str, value: str) -> None:
    """Set a value in the repository's own configuration. Raises ``StoreError`` when it cannot be written."""
    try:
        handle.config[key] = value
    except (_library().GitError, OSError) as error:
        raise StoreError(f"The configuration of the repository {handle.workdir} cannot be written: {error}") from error


def signature(author: Author, when: datetime) -> "pygit2.Signature":
    """Return who and when for a commit; characters that git cannot keep in a name are left out."""
    name = author.name.translate(_NOT_IN_A_NAME).strip() or "unknown"
    email = author.email.translate(_NOT_IN_A_NAME).strip() or "unknown"
    offset = when.utcoffset()
    minutes = int(offset.total_seconds() // 60) if offset is not None else 0
    return _library().Signature(name, email, int(when.timestamp()), minutes)


def insert(builder: "pygit2.TreeBuilder", name: str, object_id: str, mode: int) -> None:
    """Put an entry into a tree. Raises ``InvalidInput`` for a name that git refuses because it stands for ``.git``."""
    library = _library()
    try:
        builder.insert(name, library.Oid(hex=object_id), mode)
    except (library.GitError, ValueError) as error:
        raise InvalidInput(f"Git takes no file or folder named {name!r}. Choose another name.", field="path") from error


def set_branch(handle: "pygit2.Repository", name: str, expected: str | None, new: str, message: str) -> bool:
    """Set a reference to a commit if it is still at ``expected`` (``None``: does not exist), and say whether it was.

    Raises ``BlockingIOError`` when another process holds the reference's lock file.
    """
    library = _library()
    try:
        if expected is None:
            handle.create_reference_direct(name, library.Oid(hex=new), False, message)
            return True
        reference = handle.lookup_reference(name)
        if str(reference.target) != expected:
            return False
        # libgit2 compares again under its lock: with the value that was read here.
        reference.set_target(library.Oid(hex=new), message)
    except KeyError:
        return False
    except (library.GitError, OSError) as error:
        if (Path(handle.path) / f"{name}.lock").exists() or "failed to lock" in str(error):
            raise BlockingIOError(str(error)) from error
        if reference_target(handle, name) == expected:
            raise StoreError(f"{name} in {handle.workdir} cannot be set: {error}") from error
        return False
    return True


def reference_target(handle: "pygit2.Repository", name: str) -> str | None:
    """Return what a direct reference names, or ``None`` when there is none of that name."""
    try:
        return str(handle.lookup_reference(name).target)
    except KeyError:
        return None


def references(handle: "pygit2.Repository", wanted: Callable[[str], bool]) -> dict[str, str]:
    """Return the ids of what the references with a wanted name name; a tag with a message is an object of its own."""
    found: dict[str, str] = {}
    for name in handle.references:
        if wanted(name):
            try:
                found[name] = str(handle.lookup_reference(name).resolve().target)
            except KeyError:
                continue  # deleted meanwhile, or it names nothing
    return found


def delete_reference(handle: "pygit2.Repository", name: str, expected: str) -> bool:
    """Delete a reference if it is still at a commit, and say whether it was deleted; a lock of git's keeps it."""
    try:
        reference = handle.lookup_reference(name)
        if str(reference.target) != expected:
            return False
        reference.delete()  # libgit2 compares again under its lock
    except (KeyError, OSError, _library().GitError):
        return False
    return True


def find_commit(handle: "pygit2.Repository", commit: str) -> "pygit2.Commit | None":
    """Return the commit of a full id, or ``None`` when the repository has no such commit."""
    try:
        found = handle.get(commit)
    except ValueError:
        return None
    return cast("pygit2.Commit", found) if isinstance(found, _library().Commit) else None


def named_commit(handle: "pygit2.Repository", revision: str) -> str | None:
    """Return the full id of the commit that a revision (``gitrevisions``) names; ``None`` for none or several."""
    library = _library()
    try:
        commit = cast("pygit2.Object", handle.revparse_single(revision).peel(library.Commit))
    except (KeyError, ValueError, library.GitError):
        return None
    return str(commit.id)


def merged_commits(handle: "pygit2.Repository", ours: str, theirs: str, *, renames: bool) -> "pygit2.Index":
    """Merge two commits since they parted, in memory; what they disagree on are the index's conflicts."""
    return handle.merge_commits(ours, theirs, flags=_merge_flags(renames=renames))


def merged_trees(handle: "pygit2.Repository", base: str, ours: str, theirs: str, *, renames: bool) -> "pygit2.Index":
    """Merge two trees that come from a third, in memory; what they disagree on are the index's conflicts."""
    return handle.merge_trees(base, ours, theirs, flags=_merge_flags(renames=renames))


def _merge_flags(*, renames: bool) -> "pygit2.enums.MergeFlag":
    flags = _library().enums.MergeFlag
    return cast("pygit2.enums.MergeFlag", flags.FIND_RENAMES if renames else flags(0))


def walk_by_time(handle: "pygit2.Repository", start: str) -> "Iterator[pygit2.Commit]":
    """Yield a commit and its ancestors, newest first, and each before those that it was made on."""
    order = _library().enums.SortMode
    yield from handle.walk(start, order.TOPOLOGICAL | order.TIME)


def blob_type() -> int:
    """Return libgit2's number for blobs."""
    return int(_library().enums.ObjectType.BLOB)


def index_file(path: Path) -> "pygit2.Index":
    """Open an index file, which need not exist yet. Raises ``StoreError`` when it cannot be understood."""
    library = _library()
    try:
        index = library.Index(str(path))
        index.read(force=True)
    except (library.GitError, OSError) as error:
        raise StoreError(
            f"The index {path} cannot be read: {error}. Run `git read-tree HEAD`.", path=str(path)
        ) from error
    return index


def index_entry(path: str, blob_id: str, mode: int) -> "pygit2.IndexEntry":
    """Return an entry for an index."""
    library = _library()
    return library.IndexEntry(path, library.Oid(hex=blob_id), library.enums.FileMode(mode))


def file_patch(path: str, before: bytes | None, after: bytes | None) -> bytes:
    """Return the unified diff of one file with its header; ``None`` stands for a file that is not there."""
    patch = _library().Patch.create_from(before, after, old_as_path=path, new_as_path=path)
    return patch.data


def valid_reference_name(name: str) -> bool:
    """Say whether git takes this as the full name of a reference."""
    return bool(_library().reference_is_valid_name(name))


def create_tag(
    handle: "pygit2.Repository", name: str, commit: str, author: Author, message: str, when: datetime
) -> bool:
    """Make an annotated tag, and say whether the name was free."""
    library = _library()
    try:
        handle.create_tag(
            name, library.Oid(hex=commit), library.enums.ObjectType.COMMIT, signature(author, when), message
        )
    except library.AlreadyExistsError:
        return False
    return True
