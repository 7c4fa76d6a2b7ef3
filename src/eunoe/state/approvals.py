"""Approvals: recorded questions to a person, or to the client, about tool calls."""

from datetime import datetime

from msgspec import Struct

from eunoe.state.messages import ApprovalPart, ToolCallPart, ToolReturnPart

Answer = ApprovalPart | ToolReturnPart
"""The answer about one call: a decision, or what the client's own tool gave."""


class Approval(Struct, frozen=True, kw_only=True):
    """A question about calls of one assistant message.

    ``calls`` are those that wait; other calls of the message run once it is answered. ``expires_at`` is when the
    calls are closed as errors if nobody has answered (never, if ``None``). ``answered_by`` is ``user``, ``client``,
    ``policy`` or ``timeout``. ``answer_run_id`` is the run that went on from the answer.
    """

    id: str
    agent_id: str
    conversation_id: str
    run_id: str
    message_id: str
    calls: tuple[ToolCallPart, ...]
    asked_at: datetime
    expires_at: datetime | None = None
    answered_at: datetime | None = None
    answers: tuple[Answer, ...] | None = None
    answered_by: str | None = None
    answer_run_id: str | None = None
