"""How a change of files becomes a commit object; no reference moves here."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct, field

from eunoe.memory.git_library import Author, find_commit, insert, signature
from eunoe.memory.tree import EXECUTABLE, FILE
from eunoe.state.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    import pygit2

FOLDER: Final = 0o040000

Changes = Mapping[str, bytes | None]
"""New bytes of files by path; ``None`` deletes. A file keeps whether it is executable."""


class _Node(Struct):
    """The changes in one folder."""

    files: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    folders: dict[str, "_Node"] = field(default_factory=dict[str, "_Node"])


def check_paths(changes: Changes) -> None:
    """Raise ``InvalidInput`` for a path that git cannot hold, or that stands below another path of the changes."""
    for path in changes:
        parts = path.split("/")
        if "\0" in path or any(part in ("", ".", "..") or part.lower() == ".git" for part in parts):
            raise InvalidInput(
                f"{path!r} cannot be the path of a memory file. Take names with / between them, no '..' or '.git'.",
                field="path",
            )
        try:
            path.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"The path {path!r} is not valid Unicode. Choose another name.", field="path") from error


def rewrite_tree(handle: "pygit2.Repository", tree_id: str | None, changes: Changes) -> str:
    """Write the tree that a tree becomes with changes, and return its id; only folders on changed paths are written.

    Raises ``InvalidInput`` for impossible paths, and ``NotFound`` when a file to delete is not there.
    """
    check_paths(changes)
    top = _Node()
    for path, data in changes.items():
        node = top
        *folders, name = path.split("/")
        for folder in folders:
            node = node.folders.setdefault(folder, _Node())
        node.files[name] = data
    return _rewrite(handle, tree_id, top, "") or str(handle.TreeBuilder().write())


def _rewrite(handle: "pygit2.Repository", tree_id: str | None, node: _Node, prefix: str) -> str | None:
    """Return the id of the rewritten folder, or ``None`` when nothing is left in it."""
    builder = handle.TreeBuilder(tree_id) if tree_id is not None else handle.TreeBuilder()
    for name in [name for name, data in node.files.items() if data is None]:
        if _mode(builder, name) in (None, FOLDER):
            raise NotFound("file", prefix + name, f"There is no file {prefix + name!r} in memory to delete.")
        builder.remove(name)
    for name, inner in node.folders.items():
        path = prefix + name
        mode = _mode(builder, name)
        if mode not in (None, FOLDER):
            raise InvalidInput(f"{path!r} is a file, so it cannot be a folder too. Delete it first.", field="path")
        new = _rewrite(handle, str(builder.get(name).id) if mode is not None else None, inner, f"{path}/")
        if new is not None:
            insert(builder, name, new, FOLDER)
        elif mode is not None:
            builder.remove(name)
    for name, data in node.files.items():
        if data is None:
            continue
        mode = _mode(builder, name)
        if mode == FOLDER:
            raise InvalidInput(
                f"{prefix + name!r} is a folder, so it cannot be a file too. Delete what is in it first.", field="path"
            )
        insert(builder, name, str(handle.create_blob(data)), EXECUTABLE if mode == EXECUTABLE else FILE)
    return str(builder.write()) if len(builder) else None


def _mode(builder: "pygit2.TreeBuilder", name: str) -> int | None:
    found = cast("pygit2.Object | None", builder.get(name))  # None for a name that is not there
    return int(found.filemode) if found is not None else None


def tree_of(handle: "pygit2.Repository", commit: str) -> str:
    """Return the id of a commit's tree. Raises ``NotFound`` when there is no such commit."""
    found = find_commit(handle, commit)
    if found is None:
        raise NotFound("commit", commit, f"There is no commit {commit} in the memory repository {handle.workdir}.")
    return str(found.tree_id)


def write_object(
    handle: "pygit2.Repository",
    tree_id: str,
    parents: Sequence[str],
    *,
    author: Author,
    message: str,
    when: datetime,
) -> str:
    """Write a commit object and return its id. ``when`` counts whole seconds and keeps its offset from UTC."""
    who = signature(author, when)
    return str(handle.create_commit(None, who, who, message, tree_id, list(parents)))
