"""The recorded heads of memory repositories: which commit each agent's block rows were read from."""

from collections.abc import Sequence
from typing import Final

from eunoe.state.memory import MemoryHead
from eunoe.store.database import Transaction
from eunoe.store.rows import Shape, marks

_HEADS: Final = Shape(MemoryHead, "memory_heads")


def get(tx: Transaction, agent_id: str) -> MemoryHead | None:
    """Return an agent's recorded head, ``None`` for an agent whose memory is no files."""
    return of_agents(tx, [agent_id]).get(agent_id)


def everyone(tx: Transaction) -> list[MemoryHead]:
    """Return all recorded heads by agent."""
    return _HEADS.all(tx.rows(f"{_HEADS.select} ORDER BY agent_id"))


def of_agents(tx: Transaction, agent_ids: Sequence[str]) -> dict[str, MemoryHead]:
    """Return the recorded heads of those of these agents that have one."""
    if not agent_ids:
        return {}
    rows = tx.rows(f"{_HEADS.select} WHERE agent_id IN ({marks(agent_ids)})", agent_ids)
    return {head.agent_id: head for head in _HEADS.all(rows)}


def revision(tx: Transaction, agent_id: str) -> str | None:
    """Return the commit of an agent's recorded head alone, which is cheaper."""
    row = tx.row("SELECT revision FROM memory_heads WHERE agent_id = ?", (agent_id,))
    return None if row is None else row[0]


def put(tx: Transaction, head: MemoryHead) -> None:
    """Record a head in place of the agent's last one."""
    tx.execute("DELETE FROM memory_heads WHERE agent_id = ?", (head.agent_id,))
    tx.execute(_HEADS.insert, _HEADS.values(head))


def delete(tx: Transaction, agent_id: str) -> None:
    """Forget an agent's head: its memory is blocks again."""
    tx.execute("DELETE FROM memory_heads WHERE agent_id = ?", (agent_id,))


def agent_of_block(tx: Transaction, block_id: str) -> str | None:
    """Return the agent whose memory files this block is one of, if it is one.

    A file belongs to one agent, so one holder is looked at, however many share the block (I6).
    """
    row = tx.row(
        "SELECT memory_heads.agent_id FROM memory_heads WHERE memory_heads.agent_id = "
        "(SELECT agent_id FROM agents_blocks WHERE block_id = ? LIMIT 1)",
        (block_id,),
    )
    return None if row is None else row[0]
