"""Reflections of agents: which go on, how the others ended, and up to which message they went."""

from typing import Final

from eunoe.state.errors import NotFound
from eunoe.state.messages import Message
from eunoe.state.reflections import Reflection
from eunoe.store.database import Transaction
from eunoe.store.messages import since
from eunoe.store.rows import Shape

_REFLECTIONS: Final = Shape(Reflection, "reflections", fixed=("agent_id", "created_at"))


def insert(tx: Transaction, reflection: Reflection) -> None:
    """Store a reflection that begins."""
    tx.execute(_REFLECTIONS.insert, _REFLECTIONS.values(reflection))


def update(tx: Transaction, reflection: Reflection) -> None:
    """Store what has become of a reflection. Raises ``NotFound``."""
    if tx.execute(_REFLECTIONS.update, _REFLECTIONS.new_values(reflection)) == 0:
        raise NotFound("Reflection", reflection.id)


def get(tx: Transaction, agent_id: str, reflection_id: str) -> Reflection:
    """Return a reflection of an agent. Raises ``NotFound``, also for one of another agent."""
    row = tx.row(f"{_REFLECTIONS.select} WHERE id = ? AND agent_id = ?", (reflection_id, agent_id))
    if row is None:
        raise NotFound("Reflection", reflection_id)
    return _REFLECTIONS.read(row)


def of_agent(tx: Transaction, agent_id: str, limit: int = 100) -> list[Reflection]:
    """Return an agent's newest reflections, newest first."""
    rows = tx.rows(f"{_REFLECTIONS.select} WHERE agent_id = ? ORDER BY created_at DESC, id LIMIT ?", (agent_id, limit))
    return _REFLECTIONS.all(rows)


def going_on(tx: Transaction, agent_id: str) -> list[Reflection]:
    """Return an agent's reflections that have not ended."""
    return _REFLECTIONS.all(tx.rows(f"{_REFLECTIONS.select} WHERE agent_id = ? AND outcome IS NULL", (agent_id,)))


def waiting(tx: Transaction, agent_id: str) -> int:
    """Return how many of an agent's reflections are kept for a person to decide on."""
    row = tx.row(
        "SELECT COUNT(*) FROM reflections WHERE agent_id = ? AND outcome IN ('waits for review', 'conflict', 'failed') "
        "AND tip IS NOT NULL AND tip <> base",
        (agent_id,),
    )
    return row[0] if row is not None else 0


def carried_by(tx: Transaction, owner: str) -> int:
    """Return how many reflections an opening of the store carries."""
    row = tx.row("SELECT COUNT(*) FROM reflections WHERE outcome IS NULL AND owner = ?", (owner,))
    return row[0] if row is not None else 0


def last_seq(tx: Transaction, agent_id: str) -> int:
    """Return up to which message the agent's reflections went; 0 before the first. Those that failed do not count."""
    row = tx.row(
        "SELECT COALESCE(MAX(to_seq), 0) FROM reflections WHERE agent_id = ? AND outcome <> 'failed'", (agent_id,)
    )
    return row[0] if row is not None else 0


def new_messages(tx: Transaction, agent_id: str, limit: int) -> list[Message]:
    """Return the agent's messages that no reflection went over, of all its conversations: the oldest ones first."""
    return since(tx, agent_id, last_seq(tx, agent_id), limit)
