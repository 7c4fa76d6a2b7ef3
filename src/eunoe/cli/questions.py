"""Questions about tool calls: which one waits, and what is answered where nobody can be asked."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from eunoe.cli.finding import find_conversation
from eunoe.state.approvals import Answer, Approval
from eunoe.state.errors import InvalidInput
from eunoe.state.messages import ApprovalPart, ToolCallPart, ToolReturnPart
from eunoe.store import approvals, tools
from eunoe.store.database import Transaction

UNATTENDED: Final = "unattended: nobody can approve"
"""The reason of a denial by policy, as the model reads it."""

NO_CLIENT: Final = "Error: {name} is a tool of a client, and that client is not here. The call was not made."


class Question(Struct, frozen=True, kw_only=True):
    """A question that waits. ``foreign`` are the ids of calls that only another program can run: its own tools."""

    approval: Approval
    foreign: frozenset[str]

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        """The calls that wait, in order."""
        return self.approval.calls


def open_question(tx: Transaction, agent_id: str, conversation_id: str | None, now: datetime) -> Question | None:
    """Return the question that the conversation waits for, unless its time is over. Raises ``NotFound``."""
    pending = approvals.open_of(tx, find_conversation(tx, agent_id, conversation_id).id)
    if pending is None or (pending.expires_at is not None and pending.expires_at <= now):
        return None
    own = {tool.name for tool in tools.of_agent(tx, agent_id)}
    foreign = frozenset(call.id for call in pending.calls if call.name not in own)
    return Question(approval=pending, foreign=foreign)


class Policy(Struct, frozen=True, kw_only=True):
    """What is answered where nobody can be asked: calls of these tools are approved, all others denied.

    ``deny`` wins over ``approve`` and ``everything``.
    """

    approve: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()
    everything: bool = False

    def allows(self, tool_name: str) -> bool:
        """Say whether calls of this tool are approved."""
        return tool_name not in self.deny and (self.everything or tool_name in self.approve)


DENY_ALL: Final = Policy()


def check_names(policy: Policy, known: frozenset[str]) -> None:
    """Raise ``InvalidInput`` when the policy names a tool that the agent does not have: a typing error denies."""
    strange = sorted((policy.approve | policy.deny) - known)
    if strange:
        listed = ", ".join(sorted(known)) or "none"
        raise InvalidInput(f"The agent has no tool {strange[0]!r}. Its tools: {listed}.", field="approve")


def answers_by(policy: Policy, question: Question) -> tuple[Answer, ...]:
    """Return the policy's answer about each waiting call, in order; a foreign call gets an error return."""
    return tuple(_answer(policy, call, foreign=call.id in question.foreign) for call in question.calls)


def _answer(policy: Policy, call: ToolCallPart, *, foreign: bool) -> Answer:
    if foreign:
        return ToolReturnPart(
            tool_call_id=call.id, name=call.name, content=NO_CLIENT.format(name=call.name), status="error", refused=True
        )
    allowed = policy.allows(call.name)
    return ApprovalPart(tool_call_id=call.id, approve=allowed, reason=None if allowed else UNATTENDED)
