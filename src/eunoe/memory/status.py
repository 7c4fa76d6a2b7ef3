"""What is in the working tree that is not in memory? It never reaches the prompt, but a person is told."""

from typing import Final

from msgspec import Struct

from eunoe.memory.repository import MemoryRepository
from eunoe.memory.working_tree import checked_out

_STAGED: Final = 0b1_1111
_UNTRACKED: Final = 1 << 7
_MODIFIED: Final = 0b1_1111 << 8
_CONFLICTED: Final = 1 << 15
"""libgit2's flags of a path (``git_status_t``)."""

_IN_PROGRESS: Final = (
    None,
    "merge",
    "revert",
    "revert",
    "cherry-pick",
    "cherry-pick",
    "bisect",
    "rebase",
    "rebase",
    "rebase",
    "applying patches",
    "applying patches",
)
"""What each of libgit2's states of a repository (``git_repository_state_t``) is called."""


class WorkingTree(Struct, frozen=True, kw_only=True):
    """What is not committed, by path in code point order.

    ``branch`` is the checked-out one, ``None`` when there is none; ``in_progress`` is an operation that a person began
    and did not end. ``staged`` is what the index has and HEAD has not; ``modified`` are edits and deletions that the
    index has not; a path can be in both.
    """

    branch: str | None
    in_progress: str | None = None
    staged: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    conflicted: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether everything in the working tree is committed, on main, with nothing in progress."""
        paths = self.staged or self.modified or self.untracked or self.conflicted
        return not paths and self.branch == "main" and self.in_progress is None

    def sentences(self) -> tuple[str, ...]:
        """Return what a person should know, as sentences; none when it is clean."""
        said: list[str] = []
        if self.branch is None:
            said.append("The working tree is at a commit without a branch; memory is what main holds.")
        elif self.branch != "main":
            said.append(f"The working tree is at branch {self.branch!r}; memory is what main holds.")
        if self.in_progress is not None:
            said.append(f"An operation of git is not finished: {self.in_progress}.")
        for paths, what in (
            (self.conflicted, "in conflict"),
            (self.staged, "staged and not committed"),
            (self.modified, "changed and not committed"),
            (self.untracked, "new and not committed"),
        ):
            if paths:
                names = ", ".join(repr(path) for path in paths[:_NAMED])
                more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
                said.append(f"{_count(len(paths))} {what}, so not in memory: {names}{more}.")
        return tuple(said)


_NAMED: Final = 5


def _count(number: int) -> str:
    return "1 file is" if number == 1 else f"{number} files are"


def status(repository: MemoryRepository) -> WorkingTree:
    """Compare HEAD, index and working tree. Nothing is written, not even git's index."""
    handle = repository.handle()
    branch = checked_out(repository)
    flags = sorted(handle.status(untracked_files="all").items())

    def having(mask: int) -> tuple[str, ...]:
        return tuple(path for path, flag in flags if flag & mask)

    return WorkingTree(
        branch=branch.removeprefix("refs/heads/") if branch is not None else None,
        in_progress=_IN_PROGRESS[int(handle.state())],
        staged=having(_STAGED),
        modified=having(_MODIFIED),
        untracked=having(_UNTRACKED),
        conflicted=having(_CONFLICTED),
    )
