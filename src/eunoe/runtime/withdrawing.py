"""Withdrawing questions: calls that wait for an answer are closed without one, because the user cancelled."""

from collections.abc import Collection

from eunoe.runtime.approvals import CANCELLED_REQUEST
from eunoe.runtime.recovery import close_approval
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.store import agents, approvals, conversations
from eunoe.store.database import Transaction


async def withdraw_questions(
    runtime: Runtime, agent_id: str, *, conversation_id: str | None = None, run_ids: Collection[str] | None = None
) -> list[str]:
    """Close an agent's open questions, and return the runs that asked them. Their calls get error returns.

    Only those of one conversation, or of these runs, where they are named. Raises ``NotFound`` and ``StoreError``.
    """
    now = utc_now()

    def close(tx: Transaction) -> list[str]:
        closed: list[str] = []
        for conversation in conversations.of_agent(tx, agents.get(tx, agent_id).id):
            question = approvals.open_of(tx, conversation.id)
            if question is None or conversation_id not in {None, conversation.id}:
                continue
            if run_ids is None or question.run_id in run_ids:
                close_approval(tx, question, by="user", run_id=None, reason=CANCELLED_REQUEST, now=now)
                closed.append(question.run_id)
        return closed

    return await runtime.db.write(close)
