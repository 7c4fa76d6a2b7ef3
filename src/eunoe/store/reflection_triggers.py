"""When agents are reflected for by themselves, and what has happened since the last time, counted from messages."""

from typing import Final

from eunoe.state.reflections import ReflectionTrigger
from eunoe.store.database import Transaction
from eunoe.store.rows import Shape

_TRIGGERS: Final = Shape(ReflectionTrigger, "reflection_triggers")


def get(tx: Transaction, agent_id: str) -> ReflectionTrigger | None:
    """Return an agent's trigger, ``None`` for an agent that has none."""
    row = tx.row(f"{_TRIGGERS.select} WHERE agent_id = ?", (agent_id,))
    return None if row is None else _TRIGGERS.read(row)


def of_idle_agents(tx: Transaction) -> list[ReflectionTrigger]:
    """Return the triggers of agents whose memory is files and that have no run that goes on."""
    rows = tx.rows(
        f"{_TRIGGERS.select} JOIN memory_heads ON memory_heads.agent_id = reflection_triggers.agent_id "
        f"WHERE reflection_triggers.agent_id NOT IN "
        f"(SELECT agent_id FROM runs WHERE status IN ('created', 'running')) ORDER BY reflection_triggers.agent_id"
    )
    return _TRIGGERS.all(rows)


def put(tx: Transaction, trigger: ReflectionTrigger) -> None:
    """Record a trigger in place of the agent's last one."""
    delete(tx, trigger.agent_id)
    tx.execute(_TRIGGERS.insert, _TRIGGERS.values(trigger))


def delete(tx: Transaction, agent_id: str) -> None:
    """Forget an agent's trigger."""
    tx.execute("DELETE FROM reflection_triggers WHERE agent_id = ?", (agent_id,))


def has_made_steps(tx: Transaction, agent_id: str, after_seq: int, steps: int) -> bool:
    """Say whether an agent's model answered at least so often after a message."""
    row = tx.row(
        "SELECT COUNT(*) FROM (SELECT 1 FROM messages WHERE agent_id = ? AND seq > ? AND role = 'assistant' LIMIT ?)",
        (agent_id, after_seq, steps),
    )
    return row is not None and row[0] >= steps


def was_compacted(tx: Transaction, agent_id: str, after_seq: int) -> bool:
    """Say whether a conversation of an agent was compacted after a message."""
    query = "SELECT 1 FROM messages WHERE agent_id = ? AND seq > ? AND role = 'summary' LIMIT 1"
    return tx.row(query, (agent_id, after_seq)) is not None
