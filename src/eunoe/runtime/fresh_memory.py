"""Reading memory as it is now: block rows are brought to main before somebody looks at them (I7).

Costs agents whose memory is blocks one look for a folder, and the others one short transaction.
"""

from collections.abc import Sequence

from eunoe.runtime.following import follow, is_behind
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.store import memory_heads
from eunoe.store.database import Transaction


async def follow_memory(runtime: Runtime, agent_id: str) -> bool:
    """Bring the agent's rows to the newest good commit of its memory files, and say whether there was anything to do.

    Raises ``StoreError`` when the repository cannot be read, and ``InvalidInput`` without the extra ``git``.
    """
    return await follow_memories(runtime, [agent_id])


async def follow_memories(runtime: Runtime, agent_ids: Sequence[str]) -> bool:
    """As ``follow_memory``, for several agents; those that do not exist are passed over."""
    homes = runtime.homes
    with_files = [agent_id for agent_id in agent_ids if homes.exists(agent_id)]
    if not with_files:
        return False
    behind = await runtime.db.read(lambda tx: [one for one in with_files if _behind(tx, homes, one)])
    now = utc_now()
    for agent_id in behind:
        await runtime.db.write(lambda tx, agent_id=agent_id: follow(tx, homes, agent_id, now))
    return bool(behind)


async def follow_memory_of_block(runtime: Runtime, block_id: str) -> bool:
    """As ``follow_memory``, for the agent whose memory file this block is, if it is one."""
    if not runtime.homes.folder.exists():
        return False
    owner = await runtime.db.read(lambda tx: memory_heads.agent_of_block(tx, block_id))
    return owner is not None and await follow_memory(runtime, owner)


def _behind(tx: Transaction, homes: MemoryHomes, agent_id: str) -> bool:
    recorded = memory_heads.revision(tx, agent_id)
    # The whole record lists every file's name, so it is read only where the two differ.
    if recorded is None or homes.repository(agent_id).head() == recorded:
        return False
    return is_behind(homes, memory_heads.get(tx, agent_id))
