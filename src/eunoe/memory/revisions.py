"""Which commit is meant: short ids, tags, branches and ``HEAD~2``; and how commits are given names."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from eunoe.memory.git_library import Author, create_tag, named_commit, set_branch, valid_reference_name
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.worktrees import checked_out_branches
from eunoe.state.errors import Conflict, InvalidInput, NotFound

BRANCHES: Final = "refs/heads/"
_TAGS: Final = "refs/tags/"


class NamedCommit(Struct, frozen=True, kw_only=True):
    """A branch or a tag, and the full id of the commit that it names."""

    name: str
    commit: str


def resolve(repository: MemoryRepository, revision: str) -> str:
    """Return the full id of the commit that a person names. Raises ``NotFound`` when there is none, or several."""
    commit = named_commit(repository.handle(), revision)
    if commit is None:
        raise _unknown(repository, revision)
    return commit


def branches(repository: MemoryRepository) -> tuple[NamedCommit, ...]:
    """Return the local branches by name."""
    return _named(repository, BRANCHES)


def tags(repository: MemoryRepository) -> tuple[NamedCommit, ...]:
    """Return the tags of commits by name."""
    return _named(repository, _TAGS)


def create_branch(repository: MemoryRepository, name: str, commit: str) -> None:
    """Make a branch at a commit. Raises ``Conflict`` when the name is taken, and ``InvalidInput`` for a bad one."""
    _check_name(BRANCHES + name, name)
    _check_free(branches(repository), name, "branch")
    if not set_branch(repository.handle(), BRANCHES + name, None, commit, "eunoe: branch"):
        raise _taken("branch", name)


def delete_branch(repository: MemoryRepository, name: str) -> None:
    """Delete a branch. Raises ``Conflict`` for main and for one that is checked out, ``NotFound`` for no branch."""
    if name == "main" or BRANCHES + name in checked_out_branches(repository):
        raise Conflict(f"Branch {name!r} is in use: main is the memory itself, and a checked-out branch stays.")
    try:
        repository.handle().lookup_reference(BRANCHES + name).delete()
    except (KeyError, ValueError) as error:
        raise _unknown(repository, name) from error


def tag(repository: MemoryRepository, name: str, commit: str, *, author: Author, message: str, when: datetime) -> None:
    """Give a commit a lasting name, as an annotated tag. Raises ``Conflict`` when the name is taken."""
    _check_name(_TAGS + name, name)
    _check_free(tags(repository), name, "tag")
    if not create_tag(repository.handle(), name, commit, author, message, when):
        raise _taken("tag", name)


def _check_name(full_name: str, name: str) -> None:
    if name.startswith("-") or not valid_reference_name(full_name):
        raise InvalidInput(
            f"{name!r} is no name for a branch or a tag. Use letters, digits, '-' and '/'.", field="name"
        )


def _check_free(existing: Sequence[NamedCommit], name: str, kind: str) -> None:
    """Raise ``Conflict`` for a name that is taken; names are files for git, so ``a`` and ``a/b`` exclude each other."""
    for other in existing:
        if f"{other.name}/".startswith(f"{name}/") or f"{name}/".startswith(f"{other.name}/"):
            raise _taken(kind, other.name)


def _taken(kind: str, name: str) -> Conflict:
    return Conflict(f"There is a {kind} {name!r} already. Choose a name that is not that, nor below or above it.")


def _named(repository: MemoryRepository, prefix: str) -> tuple[NamedCommit, ...]:
    handle = repository.handle()
    names = [name for name in sorted(handle.references) if name.startswith(prefix)]
    # Git allows tags of files and folders; those name no commit.
    found = [(name, named_commit(handle, name)) for name in names]
    return tuple(NamedCommit(name=name.removeprefix(prefix), commit=commit) for name, commit in found if commit)


def _unknown(repository: MemoryRepository, revision: str) -> NotFound:
    names = [named.name for named in (*branches(repository), *tags(repository))]
    known = f" Known names: {', '.join(names[:20])}." if names else ""
    return NotFound(
        "commit",
        revision,
        f"{revision!r} names no single commit in the memory of {repository.path.name}. "
        f"Use a commit id (at least 4 digits), a branch, a tag, or HEAD~1 and the like.{known}",
    )
