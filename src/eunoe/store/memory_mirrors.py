"""The mirrors of memory repositories: where each is, and up to where it was pushed."""

from datetime import datetime
from typing import Final

from eunoe.state.mirrors import Mirror
from eunoe.store.database import Transaction
from eunoe.store.rows import Shape, micros

_MIRRORS: Final = Shape(Mirror, "memory_mirrors")


def get(tx: Transaction, agent_id: str) -> Mirror | None:
    """Return an agent's mirror, ``None`` for an agent that has none."""
    row = tx.row(f"{_MIRRORS.select} WHERE agent_id = ?", (agent_id,))
    return None if row is None else _MIRRORS.read(row)


def everyone(tx: Transaction) -> list[Mirror]:
    """Return all mirrors by agent."""
    return _MIRRORS.all(tx.rows(f"{_MIRRORS.select} ORDER BY agent_id"))


def put(tx: Transaction, mirror: Mirror) -> None:
    """Record a mirror in place of the agent's last one."""
    delete(tx, mirror.agent_id)
    tx.execute(_MIRRORS.insert, _MIRRORS.values(mirror))


def delete(tx: Transaction, agent_id: str) -> None:
    """Forget an agent's mirror; what it holds stays there."""
    tx.execute("DELETE FROM memory_mirrors WHERE agent_id = ?", (agent_id,))


def waiting_for_nothing(tx: Transaction, now: datetime) -> list[str]:
    """Return the agents whose memory is files and whose mirror may be pushed to now, whether it is behind or not."""
    rows = tx.rows(
        "SELECT memory_mirrors.agent_id FROM memory_mirrors "
        "JOIN memory_heads ON memory_heads.agent_id = memory_mirrors.agent_id "
        "WHERE memory_mirrors.next_at IS NULL OR memory_mirrors.next_at <= ? ORDER BY memory_mirrors.agent_id",
        (micros(now),),
    )
    return [agent_id for (agent_id,) in rows]


def behind(tx: Transaction, now: datetime) -> list[str]:
    """As ``waiting_for_nothing``, but only those that are known to be behind: without a look at repositories.

    Memory with an unread commit is left out: its main is elsewhere than its head for as long as that is so.
    """
    rows = tx.rows(
        "SELECT memory_mirrors.agent_id FROM memory_mirrors "
        "JOIN memory_heads ON memory_heads.agent_id = memory_mirrors.agent_id "
        "WHERE (memory_mirrors.next_at IS NULL OR memory_mirrors.next_at <= ?) "
        "AND (memory_mirrors.pushed_refs IS NULL OR memory_mirrors.failure IS NOT NULL "
        "OR (memory_mirrors.pushed <> memory_heads.revision AND memory_heads.unread IS NULL)) "
        "ORDER BY memory_mirrors.agent_id",
        (micros(now),),
    )
    return [agent_id for (agent_id,) in rows]
