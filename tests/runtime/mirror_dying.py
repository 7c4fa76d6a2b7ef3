"""A process that commits to memory and dies before anything is pushed: ``mirror_dying.py FOLDER TEXT``."""

import os
import signal
import sys
from pathlib import Path

import anyio

import eunoe


async def edit(folder: Path, text: str) -> None:
    async with eunoe.open(folder) as home:
        (agent,) = await home.agents()
        await agent.memory.write("notes/last.md", text)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    anyio.run(edit, Path(sys.argv[1]), sys.argv[2])
