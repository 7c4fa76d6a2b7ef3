"""A process that reflects for the store's one agent, and may be killed on the way: ``reflecting_dying.py FOLDER TEXT``.

``EUNOE_FAULT`` says where it dies, and ``EUNOE_FAULT_COUNT`` where it writes how many points there are.
"""

import sys
from pathlib import Path

import anyio

import eunoe


async def reflect(folder: Path, instructions: str) -> None:
    async with eunoe.open(folder) as home:
        (agent,) = await home.agents()
        await agent.memory.reflect(instructions=instructions)


if __name__ == "__main__":
    anyio.run(reflect, Path(sys.argv[1]), sys.argv[2])
