"""A process that changes two memory files in one edit and dies: ``files_dying.py FOLDER POINT TEXT``."""

import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Final

import anyio

import eunoe
from eunoe.memory.commits import Changes
from eunoe.memory.git_library import Author
from eunoe.memory.locks import WAIT_SECONDS
from eunoe.memory.repository import MemoryRepository
from eunoe.runtime.memory_edits import write_files

POINTS: Final = ("object written", "named", "recorded", "index locked", "main moved", "first file", "second file")
"""Where it can die: after git has the commit, and a name for it; after the store has it; before and after main is
there; at the files."""

NOT_YET: Final = ("object written", "named")
"""The points before the store has the commit: what was cut off there is not done at all."""


class DyingRepository(MemoryRepository):
    """A repository whose user dies at a point."""

    def __init__(self, path: Path, point: str) -> None:
        self._point = point
        self._named = False
        self._moved = False
        self._files = 0
        super().__init__(path)

    def _reached(self, point: str) -> None:
        if point == self._point:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_commit(
        self, parent: str | None, changes: Changes, *, author: Author, message: str, when: datetime
    ) -> str:
        written = super().write_commit(parent, changes, author=author, message=message, when=when)
        self._reached("object written")
        return written

    def keep_recorded(self, commit: str, *, seconds: float = WAIT_SECONDS) -> None:
        super().keep_recorded(commit, seconds=seconds)
        self._reached("named")
        self._named = True

    def head(self) -> str | None:
        if self._named:
            self._reached("recorded")
        return super().head()

    def move_head(self, expected: str | None, new: str, *, seconds: float = WAIT_SECONDS) -> None:
        self._reached("index locked")
        super().move_head(expected, new, seconds=seconds)
        self._moved = True
        self._reached("main moved")

    def read(self, blob_id: str) -> bytes:
        if self._moved:
            # Each file is read twice when the working tree follows: as it was, and as it is.
            self._files += 1
            self._reached({1: "first file", 3: "second file"}.get(self._files, ""))
        return super().read(blob_id)


async def edit(folder: Path, point: str, text: str) -> None:
    async with eunoe.open(folder) as home:
        (agent,) = await home.agents()
        home.runtime.homes.keep(agent.id, DyingRepository(home.runtime.homes.path(agent.id), point))
        changes = {f"system/{label}.md": f"---\ndescription: It\n---\n{text}\n".encode() for label in ("human", "tea")}
        await write_files(home.runtime, agent.id, changes)


if __name__ == "__main__":
    anyio.run(edit, Path(sys.argv[1]), sys.argv[2], sys.argv[3])
