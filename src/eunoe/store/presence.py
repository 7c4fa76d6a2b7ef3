"""Whether a thing is there: for modules that attach something to an agent and do not read the agent."""

from eunoe.state.errors import NotFound
from eunoe.store.database import Transaction


def agent_not_found(agent_id: str) -> NotFound:
    """Return the error for an agent that is not in the store."""
    return NotFound("Agent", agent_id, f"Agent with ID {agent_id} not found")


def require_agent(tx: Transaction, agent_id: str) -> None:
    """Raise ``NotFound`` unless the agent is in the store."""
    if tx.row("SELECT 1 FROM agents WHERE id = ?", (agent_id,)) is None:
        raise agent_not_found(agent_id)
