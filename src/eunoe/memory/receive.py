"""What git runs before it takes a push: ``python -m eunoe.memory.receive``, as the hook ``pre-receive``.

The pushed objects are still in quarantine then: what is refused leaves nothing behind. Git itself compares main with
what was judged here when it moves the reference afterwards.

What may be pushed: main, forward only, with files as they may be; other branches, forward only, that no working tree
is at; new tags. All else of a repository is hidden from clients.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TextIO

from msgspec import Struct

from eunoe.memory.file_problems import FileProblem
from eunoe.memory.git_library import MAIN, add_objects, find_commit
from eunoe.memory.judgement import judge
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.worktrees import checked_out_branches
from eunoe.state.errors import EunoeError

_BRANCHES: Final = "refs/heads/"
_TAGS: Final = "refs/tags/"
_MOST_TOLD: Final = 20
"""Problems of files that a refusal names; of more, only their number is told."""

SCRIPT: Final = """#!/bin/sh
# made by eunoe: it judges a push before it becomes memory
exec "$MEMORY_PYTHON" -P -m eunoe.memory.receive
"""
"""The hook. ``-P`` keeps Python from importing modules out of the folder that it starts in."""


class Update(Struct, frozen=True):
    """One reference that a push wants to move; ``None`` stands for no commit."""

    old: str | None
    new: str | None
    name: str


def updates(lines: Iterable[str]) -> Iterator[Update]:
    """Read what git tells ``pre-receive`` (githooks): lines of the old id, the new id, and the reference."""
    for line in lines:
        old, new, name = line.rstrip("\n").split(" ", 2)
        yield Update(old if old.strip("0") else None, new if new.strip("0") else None, name)


def refusal(repository: MemoryRepository, update: Update) -> list[str]:
    """Return the sentences of why a reference may not move as it is pushed; empty when it may.

    Raises ``StoreError`` when objects cannot be read.
    """
    if update.name.startswith(_TAGS):
        if update.old is None:
            return []
        return [f"The tag {update.name.removeprefix(_TAGS)!r} is there already, and a tag stays what it is."]
    if not update.name.startswith(_BRANCHES):
        return [f"{update.name!r} is no branch and no tag. Push branches and tags only."]
    branch = update.name.removeprefix(_BRANCHES)
    if update.name == MAIN and update.new is None:
        return ["main is the memory itself, and cannot be deleted."]
    if update.name != MAIN and update.name in checked_out_branches(repository):
        return [f"A working tree of the agent is at the branch {branch!r}. Push to another branch."]
    if update.new is None:
        return []
    if find_commit(repository.handle(), update.new) is None:
        return [f"What is pushed to {branch!r} is no commit."]
    if update.old is not None and not repository.is_ancestor(update.old, update.new):
        rewritten = f"{branch!r} would lose commits, and the history of memory is never rewritten."
        return [f"{rewritten} Run `git pull --rebase` first, then push without --force."]
    if update.name != MAIN:
        return []
    before = repository.snapshot(update.old).entries if update.old is not None else ()
    return _told(judge(repository, before, repository.snapshot(update.new).entries, "user"))


def main(lines: Iterable[str], out: TextIO) -> int:
    """Judge a push to the repository that git names in ``GIT_DIR``, and return the exit code: 0 lets git go on."""
    folder = Path(os.environ["GIT_DIR"]).absolute().parent
    try:
        repository = MemoryRepository(folder)
        quarantine = os.environ.get("GIT_QUARANTINE_PATH")
        if quarantine:
            add_objects(repository.handle(), Path(quarantine))
        reasons = [reason for update in updates(lines) for reason in refusal(repository, update)]
    except EunoeError as error:
        reasons = [f"The push could not be checked. {error.message}"]
    out.writelines(f"{reason}\n" for reason in reasons)
    return 1 if reasons else 0


def _told(problems: list[FileProblem]) -> list[str]:
    said = [problem.sentence for problem in problems[:_MOST_TOLD]]
    more = len(problems) - _MOST_TOLD
    return [*said, f"And {more} more problems like these."] if more > 0 else said


if __name__ == "__main__":
    sys.exit(main(sys.stdin, sys.stderr))
