"""What git runs before a commit in a memory repository: ``python -m eunoe.memory.hook``.

It judges what is about to be committed by the same code as every other way to write memory (I9). A person can go round
it (``git commit --no-verify``); then the commit is judged again before it becomes memory.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from eunoe.memory.constraints import CONFIG
from eunoe.memory.file_changes import Actor
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.judgement import judge
from eunoe.memory.repository import MemoryRepository
from eunoe.state.errors import EunoeError, StoreError

GIT_SECONDS: Final = 60.0
"""How long git may take to say what is about to be committed."""

APPROVED: Final = "LETTA_MEMORY_CONSTRAINTS_UPDATE"
"""The setting in the environment (``1``) by which a person lets an agent's commit change the limits of memory."""

_REFUSED: Final = "This commit was refused: its files cannot be memory as they are."


def main(arguments: Sequence[str], out: TextIO) -> int:
    """Judge the staged files of the repository in the current folder, and return the exit code: 0 lets git go on.

    ``EUNOE_ACTOR=agent`` in the environment says that it is the agent that commits; else it is a person.
    """
    folder = Path(arguments[0]) if arguments else Path.cwd()
    actor: Actor = "agent" if os.environ.get("EUNOE_ACTOR") == "agent" else "user"
    try:
        problems = staged_problems(MemoryRepository(folder), actor)
    except EunoeError as error:
        out.write(f"The files could not be checked, so nothing was committed. {error.message}\n")
        return 1
    if problems:
        out.write(f"{_REFUSED}\n")
        out.writelines(f"  {problem.sentence}\n" for problem in problems)
    return 1 if problems else 0


def staged_problems(repository: MemoryRepository, actor: Actor) -> list[FileProblem]:
    """Judge what is about to be committed against HEAD. Raises ``StoreError`` when git or an object cannot be read."""
    handle = repository.handle()
    before = () if handle.head_is_unborn else repository.snapshot(str(handle.head.target)).entries
    problems = judge(repository, before, repository.folder(_staged_tree(repository)).entries, actor)
    if os.environ.get(APPROVED) == "1":
        return [problem for problem in problems if (problem.path, problem.rule) != (CONFIG, "read only")]
    return problems


def _staged_tree(repository: MemoryRepository) -> str:
    """Return the tree that git would commit now: of the index that it names in GIT_INDEX_FILE for a partial commit.

    Git itself is asked, because an index can hold more than what is committed (``git add --intent-to-add``).
    """
    done = subprocess.run(  # noqa: S603 - the words are ours, and the path is one argument
        ["git", "-C", str(repository.path), "write-tree"],  # noqa: S607 - the git that runs this hook is on the PATH
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=GIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise StoreError(f"git says: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("ascii").strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stderr))
