"""Turns with nobody there: no question is left open, and none is waited for."""

from typing import Final

from msgspec import Struct, structs

from eunoe.cli.opening import Door
from eunoe.cli.questions import DENY_ALL, Policy, Question, answers_by, open_question
from eunoe.cli.talk import Show, answering, take_turns
from eunoe.runtime.recovery import close_approval
from eunoe.runtime.runtime import utc_now
from eunoe.runtime.turn import TurnRequest
from eunoe.state.approvals import Answer
from eunoe.state.events import RunEnded
from eunoe.state.messages import ApprovalPart, ToolCallPart
from eunoe.store.database import Transaction

MOST_QUESTIONS: Final = 50
"""Questions that are answered by policy for one message; a model that goes on asking is stopped."""


class Unattended(Struct, frozen=True, kw_only=True):
    """How it ended, and the calls that were not allowed."""

    ended: RunEnded
    denied: tuple[ToolCallPart, ...]


def take_unattended(
    door: Door, request: TurnRequest, show: Show, policy: Policy, until: float | None = None
) -> Unattended:
    """Run a turn, its questions answered by the policy; a question from before it is denied. ``until`` as elsewhere.

    Raises what ``Runtime.start`` raises; then nothing is stored.
    """
    clerk = _Clerk(policy)
    waiting = door.read(lambda tx: open_question(tx, request.agent_id, request.conversation_id, utc_now()))
    if waiting is not None:
        request = answering(request, clerk.answer(waiting, DENY_ALL))
    ended = take_turns(door, request, show, clerk.decide, until)
    if ended.stop_reason == "requires_approval":
        door.write(lambda tx: _close(tx, request))
        ended = structs.replace(ended, stop_reason="max_steps")
    return Unattended(ended=ended, denied=tuple(clerk.denied))


class _Clerk:
    """Answers questions by a policy, as often as is reasonable."""

    def __init__(self, policy: Policy) -> None:
        self._policy: Final = policy
        self._left = MOST_QUESTIONS
        self.denied: Final[list[ToolCallPart]] = []

    def decide(self, question: Question) -> tuple[Answer, ...] | None:
        """Answer, or leave the question open when there were too many."""
        if self._left == 0:
            return None
        self._left -= 1
        return self.answer(question, self._policy)

    def answer(self, question: Question, policy: Policy) -> tuple[Answer, ...]:
        """Answer by this policy, and remember what was not allowed."""
        answers = answers_by(policy, question)
        self.denied.extend(
            call
            for call, answer in zip(question.calls, answers, strict=True)
            if not (isinstance(answer, ApprovalPart) and answer.approve)
        )
        return answers


def _close(tx: Transaction, request: TurnRequest) -> None:
    now = utc_now()
    question = open_question(tx, request.agent_id, request.conversation_id, now)
    if question is not None:
        answers = answers_by(DENY_ALL, question)
        close_approval(tx, question.approval, answers, by="policy", run_id=question.approval.run_id, now=now)
