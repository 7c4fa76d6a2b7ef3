"""Updating a block costs the same, however many agents share it (I6)."""

import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import anyio

from bench.clock import in_turn, quiet, seconds_of
from bench.figures import Figure, against
from eunoe.runtime.agents import create_agent
from eunoe.runtime.blocks import update_block
from eunoe.runtime.runtime import Runtime, open_runtime, utc_now
from eunoe.runtime.settings import Settings
from eunoe.state.agents import AgentSpec
from eunoe.state.blocks import BlockChanges, BlockSpec

SHARED_BY: Final = 1_000
ROUNDS: Final = 400
TIMES: Final = 1.2


def measure() -> list[Figure]:
    """Measure updates of both blocks in turn."""
    return anyio.run(_measure)


async def _measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_runtime(Settings(home=Path(folder))) as runtime:
            few = await _update_of_block_shared_by(runtime, 1)
            many = await _update_of_block_shared_by(runtime, SHARED_BY)
            ones, others = await in_turn(few, many, ROUNDS)
    note = f"lower quartiles of {ROUNDS} durable updates of each, in turn"
    name = f"update of a block that {SHARED_BY:,} agents share (floor: 1 agent)"
    return [against(name, quiet(others) * 1e3, quiet(ones) * 1e3, TIMES, "ms", note)]


async def _update_of_block_shared_by(runtime: Runtime, agents: int) -> Callable[[], Awaitable[float]]:
    """Make a block that so many agents have, and return what updates it once and tells the seconds."""
    first = await create_agent(
        runtime,
        AgentSpec(
            model="scripted/demo",
            include_base_tools=False,
            memory_blocks=(BlockSpec(label="human", value="Likes maps."),),
        ),
    )
    block_id = first.blocks[0].id
    for _ in range(agents - 1):
        spec = AgentSpec(model="scripted/demo", include_base_tools=False, block_ids=(block_id,))
        await create_agent(runtime, spec)
    numbers = count()

    async def update() -> float:
        changes = BlockChanges(value=f"Likes maps. {next(numbers):06}")
        work = partial(update_block, homes=runtime.homes, block_id=block_id, changes=changes, now=utc_now())
        return await seconds_of(lambda: runtime.db.write(work))

    return update
