"""Which agent a person means, by id or by name, and which of its conversations."""

from typing import Final

from eunoe.state.agents import Agent
from eunoe.state.conversations import Conversation
from eunoe.state.errors import Conflict, NotFound
from eunoe.state.ids import is_id
from eunoe.store import agents, conversations
from eunoe.store.agents import AgentQuery
from eunoe.store.database import Transaction

_SHOWN: Final = 10
"""How many agents of one name an error lists."""


def find_agent(tx: Transaction, text: str) -> Agent:
    """Return the agent with this id or name; hidden ones too.

    Raises ``NotFound``, and ``Conflict`` when several agents have the name (the sentence lists their ids).
    """
    if is_id("agent", text):
        return agents.get(tx, text)
    found = agents.page(tx, AgentQuery(name=text, show_hidden=True, limit=_SHOWN + 1))
    if not found:
        raise NotFound("Agent", text, f"There is no agent named {text!r}. `eunoe agents list` shows those there are.")
    if len(found) > 1:
        ids = ", ".join(agent.id for agent in found[:_SHOWN]) + (" and more" if len(found) > _SHOWN else "")
        raise Conflict(f"Several agents are named {text!r}: {ids}. Give the id of the one that you mean.", name=text)
    return found[0]


def last_used(tx: Transaction) -> Agent | None:
    """Return the agent whose run ended last, else the newest one, or ``None`` when the store has no agent."""
    recent = agents.page(tx, AgentQuery(order_by="last_run_completion", limit=1))
    if recent and recent[0].last_run_completion is not None:
        return recent[0]
    return next(iter(agents.page(tx, AgentQuery(limit=1))), None)


def find_conversation(tx: Transaction, agent_id: str, conversation_id: str | None) -> Conversation:
    """Return this conversation of the agent, or its default one. Raises ``NotFound``, for one of another agent too."""
    if conversation_id is None:
        return conversations.default(tx, agent_id)
    found = conversations.get(tx, conversation_id)
    if found.agent_id != agent_id:
        raise NotFound(
            "Conversation",
            conversation_id,
            f"Agent {agent_id} has no conversation {conversation_id}; it is one of agent {found.agent_id}.",
        )
    return found
