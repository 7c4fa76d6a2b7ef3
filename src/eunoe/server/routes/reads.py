"""Agents as an answer wants them: one transaction, however many agents."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from eunoe.server.wire.agents import EVERYTHING, agent, included
from eunoe.server.wire.queries import AgentsQuery, BlockAgentsQuery, IncludeQuery
from eunoe.state.agents import AgentState
from eunoe.state.messages import Message
from eunoe.store import agents, approvals, messages
from eunoe.store.database import Transaction
from eunoe.store.listing import window_ids


def relationships(request: Request, query: IncludeQuery | AgentsQuery | BlockAgentsQuery) -> frozenset[str]:
    """Return which relationships the caller wants to see."""
    return included(
        include=query.include,
        relationships=query.include_relationships,
        user_agent=request.headers.get("user-agent"),
        is_generated_client="x-stainless-package-version" in request.headers,
    )


def shown_agents(tx: Transaction, ids: Sequence[str], shown: frozenset[str] = EVERYTHING) -> list[dict[str, Any]]:
    """Return the wire's objects of these agents. Raises ``NotFound``."""
    return shown_states(tx, agents.states(tx, ids), shown)


def shown_states(
    tx: Transaction, states: Sequence[AgentState], shown: frozenset[str] = EVERYTHING
) -> list[dict[str, Any]]:
    """Return the wire's objects of agents that were read."""
    windows = window_ids(tx, [state.conversation for state in states])
    pending = _pending(tx, states) if "agent.pending_approval" in shown else {}
    return [
        agent(state, windows[state.conversation.id], shown, pending=pending.get(state.agent.id)) for state in states
    ]


def _pending(tx: Transaction, states: Sequence[AgentState]) -> dict[str, Message]:
    """Return, for each agent that waits for an answer, the message whose calls wait."""
    asked = approvals.open_of_agents(tx, [state.agent.id for state in states])
    return {agent_id: messages.get(tx, approval.message_id) for agent_id, approval in asked.items()}
