"""What git runs before a commit in a memory repository: ``python -m eunoe.memory.hook``.

It judges what is about to be committed by the same code as every other way to write memory (I9). A person can go round
it (``git commit --no-verify``); then the commit is judged again before it becomes memory.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TextIO

from eunoe.memory.file_changes import Actor, check_change
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.file_rules import Read, check_tree
from eunoe.memory.git_library import entries_of, index_file
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.tree import TreeEntry
from eunoe.state.errors import EunoeError

Check = Callable[[Sequence[TreeEntry], Sequence[TreeEntry], Read], list[FileProblem]]
"""Judges the files before and after, which it can read."""

_REFUSED: Final = "This commit was refused: its files cannot be memory as they are."


def main(arguments: Sequence[str], out: TextIO, check: Check | None = None) -> int:
    """Judge the staged files of the repository in the current folder, and return the exit code: 0 lets git go on.

    ``EUNOE_ACTOR=agent`` in the environment says that it is the agent that commits; else it is a person.
    """
    folder = Path(arguments[0]) if arguments else Path.cwd()
    actor: Actor = "agent" if os.environ.get("EUNOE_ACTOR") == "agent" else "user"
    try:
        problems = staged_problems(MemoryRepository(folder), check or _rules_for(actor))
    except EunoeError as error:
        out.write(f"The files could not be checked, so nothing was committed. {error.message}\n")
        return 1
    if problems:
        out.write(f"{_REFUSED}\n")
        out.writelines(
            f"  {problem.path}{f':{problem.line}' if problem.line else ''}: {problem.message}\n" for problem in problems
        )
    return 1 if problems else 0


def staged_problems(repository: MemoryRepository, check: Check) -> list[FileProblem]:
    """Judge what the index holds against HEAD. Git names another index in GIT_INDEX_FILE for a partial commit."""
    named = os.environ.get("GIT_INDEX_FILE")
    index = index_file(Path(named) if named else repository.git_folder / "index")
    staged = [
        TreeEntry(path=str(entry.path), blob_id=str(entry.id), mode=int(entry.mode), size=None)
        for entry in entries_of(index)
    ]
    handle = repository.handle()
    before = () if handle.head_is_unborn else repository.snapshot(str(handle.head.target)).entries
    return check(before, sorted(staged, key=lambda entry: entry.path), lambda entry: repository.read(entry.blob_id))


def _rules_for(actor: Actor) -> Check:
    def check(before: Sequence[TreeEntry], after: Sequence[TreeEntry], read: Read) -> list[FileProblem]:
        return check_tree(after, read, since=before) + check_change(before, after, read, actor)

    return check


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stderr))
