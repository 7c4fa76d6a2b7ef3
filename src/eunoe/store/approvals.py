"""Approvals: at most one open question in a conversation, and the answered ones."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from msgspec import structs

from eunoe.state.approvals import Answer, Approval
from eunoe.store.database import Transaction
from eunoe.store.rows import Shape, marks, micros

_APPROVALS: Final = Shape(Approval, "approvals")


def insert(tx: Transaction, approval: Approval) -> None:
    """Store a new question."""
    tx.execute(_APPROVALS.insert, _APPROVALS.values(approval))


def open_of(tx: Transaction, conversation_id: str) -> Approval | None:
    """Return the question that a conversation waits for, if there is one."""
    row = tx.row(f"{_APPROVALS.select} WHERE conversation_id = ? AND answered_at IS NULL", (conversation_id,))
    return None if row is None else _APPROVALS.read(row)


def open_of_agents(tx: Transaction, agent_ids: Sequence[str]) -> dict[str, Approval]:
    """Return the open question of each of these agents' default conversations that has one."""
    if not agent_ids:
        return {}
    rows = tx.rows(
        f"SELECT {_APPROVALS.columns} FROM approvals "
        f"JOIN conversations ON conversations.id = approvals.conversation_id "
        f"WHERE conversations.is_default = 1 AND answered_at IS NULL AND approvals.agent_id IN ({marks(agent_ids)})",
        agent_ids,
    )
    return {approval.agent_id: approval for approval in _APPROVALS.all(rows)}


def expired(tx: Transaction, now: datetime) -> list[Approval]:
    """Return the open questions whose time is over."""
    return _APPROVALS.all(tx.rows(f"{_APPROVALS.select} WHERE answered_at IS NULL AND expires_at <= ?", (micros(now),)))


def last_answered(
    tx: Transaction, conversation_id: str, call_ids: Collection[str], request_id: str | None = None
) -> Approval | None:
    """Return the newest question of a conversation that a person or the client has answered, if there is such a one.

    It is about exactly these calls; without any, it has the id ``request_id``, or its message has.
    """
    rows = tx.rows(
        f"{_APPROVALS.select} WHERE conversation_id = ? AND answered_by IN ('user', 'client') "
        f"ORDER BY asked_at DESC LIMIT 50",
        (conversation_id,),
    )
    wanted = set(call_ids)
    for approval in _APPROVALS.all(rows):
        if {call.id for call in approval.calls} == wanted or (
            not wanted and request_id in (approval.id, approval.message_id)
        ):
            return approval
    return None


def answer(
    tx: Transaction, approval: Approval, answers: Sequence[Answer], *, by: str, run_id: str | None, now: datetime
) -> Approval:
    """Record the answer to an open question and return it answered; one that is answered already stays as it is."""
    answered = structs.replace(approval, answers=tuple(answers), answered_at=now, answered_by=by, answer_run_id=run_id)
    tx.execute(f"{_APPROVALS.update} AND answered_at IS NULL", _APPROVALS.new_values(answered))
    return answered
