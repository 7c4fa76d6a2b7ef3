"""What a git client from outside gets and gives: the newest memory before it reads, and its push as memory after."""

from datetime import datetime

import anyio.to_thread

from eunoe.memory.repository import MemoryRepository
from eunoe.runtime.following import follow, lags
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.errors import NotFound
from eunoe.state.memory import GIT_TAG, MemoryHead
from eunoe.store import agents, memory_heads
from eunoe.store.database import Transaction


async def repository_for_clients(runtime: Runtime, agent_id: str) -> MemoryRepository:
    """Return the repository of an agent's memory files, with every edit that was answered on main.

    Raises ``NotFound`` for an unknown agent and for one whose memory is blocks, and ``StoreError``.
    """
    head = await runtime.db.read(lambda tx: _head(tx, agent_id))
    repository = runtime.homes.repository(agent_id)
    if await anyio.to_thread.run_sync(lags, repository, head.revision):
        await _follow(runtime.homes, runtime, agent_id)
    return repository


async def take_push(runtime: Runtime, agent_id: str) -> None:
    """Make what a client pushed the agent's memory: its block rows and its working tree follow main.

    Uncommitted edits in the working tree stay as they are. Raises ``StoreError``; whoever looks next makes up for it.
    """
    await _follow(runtime.homes, runtime, agent_id)


async def _follow(homes: MemoryHomes, runtime: Runtime, agent_id: str) -> None:
    now: datetime = utc_now()
    await runtime.db.write(lambda tx: follow(tx, homes, agent_id, now))


def _head(tx: Transaction, agent_id: str) -> MemoryHead:
    agents.get(tx, agent_id)
    head = memory_heads.get(tx, agent_id)
    if head is None:
        raise NotFound(
            "Repository",
            agent_id,
            f"The memory of agent {agent_id} is blocks, so there is nothing to clone. "
            f"Add the tag '{GIT_TAG}' to the agent to keep it as files.",
        )
    return head
