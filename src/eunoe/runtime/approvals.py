"""What happens when tool calls need an answer: matching answers to calls, and what becomes of each call (pure)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from eunoe.state.approvals import Answer, Approval
from eunoe.state.errors import Conflict, InvalidInput
from eunoe.state.messages import ApprovalPart, ToolReturnPart
from eunoe.tools.protocol import ToolResult

DENIED: Final = "Error: request to call tool denied. User reason: {reason}"
WENT_ON: Final = "the user went on without answering"
CANCELLED_REQUEST: Final = "The user cancelled the request, so the tool call was denied."
RESET: Final = "The messages were reset, so the tool call was denied."
EXPIRED: Final = "Nobody answered in time, so the call was not made."


class Reply(Struct, frozen=True, kw_only=True):
    """An answer as a caller gives it.

    ``answers`` name their calls. ``all_calls`` is one decision about every waiting call; ``request_id`` then names the
    message (or the approval) that is answered, if the caller knows it.
    """

    answers: tuple[Answer, ...] = ()
    all_calls: ApprovalPart | None = None
    request_id: str | None = None

    @property
    def call_ids(self) -> tuple[str, ...]:
        """The ids of the calls that are answered one by one."""
        return tuple(answer.tool_call_id for answer in self.answers)


def is_about(approval: Approval, reply: Reply) -> bool:
    """Say whether a reply is one to this question, and not to an earlier one."""
    if reply.all_calls is not None:
        return reply.request_id in {None, approval.id, approval.message_id}
    return set(reply.call_ids) == {call.id for call in approval.calls}


def _expand(approval: Approval, reply: Reply) -> tuple[Answer, ...]:
    if reply.all_calls is None:
        return reply.answers
    if not is_about(approval, reply):
        raise InvalidInput(
            f"No approval {reply.request_id!r} is pending. The pending request is {approval.message_id!r}.",
            field="approval_request_id",
        )
    return tuple(structs.replace(reply.all_calls, tool_call_id=call.id) for call in approval.calls)


def match_reply(approval: Approval, reply: Reply) -> tuple[Answer, ...]:
    """Return the answers in order of the calls, one for each. Raises ``InvalidInput`` that names the right ids."""
    answers = _expand(approval, reply)
    if not answers:
        raise InvalidInput(
            "Invalid approval response. Approval response message does not contain any approvals.", field="approvals"
        )
    expected = [call.id for call in approval.calls]
    given = [answer.tool_call_id for answer in answers]
    if sorted(given) != sorted(expected):
        raise InvalidInput(f"Invalid tool call IDs. Expected '{expected}', but received '{given}'.", field="approvals")
    by_id = {answer.tool_call_id: answer for answer in answers}
    return tuple(by_id[call_id] for call_id in expected)


def check_same_answer(earlier: Approval, reply: Reply) -> None:
    """Take an answer that is given twice; refuse one that says something else than what was done.

    Raises ``Conflict``.
    """
    given = {answer.tool_call_id: _said(answer) for answer in _expand(earlier, reply)}
    for answer in earlier.answers or ():
        was, is_now = _said(answer), given[answer.tool_call_id]
        if was != is_now:
            raise Conflict(
                f"The call {answer.tool_call_id} was answered before, by {was[0]}, and is now answered by "
                f"{'another return' if was[0] == is_now[0] else is_now[0]}. The first answer counts, and was acted on.",
                approval_id=earlier.id,
                run_id=earlier.answer_run_id,
            )


def _said(answer: Answer) -> tuple[str, ...]:
    if isinstance(answer, ToolReturnPart):
        return ("a return", answer.status, answer.content)
    return ("consent" if answer.approve else "denial",)


def nothing_pending() -> InvalidInput:
    """Return the error for an answer to a question that was never asked."""
    return InvalidInput(
        "Cannot process approval response: No tool call is currently awaiting approval. Send a regular message.",
        field="approvals",
    )


def settled_results(answers: Sequence[Answer]) -> dict[str, ToolResult]:
    """Return the results that the answers themselves give, by call id; approved calls are left to be run."""
    results: dict[str, ToolResult] = {}
    for answer in answers:
        if isinstance(answer, ToolReturnPart):
            results[answer.tool_call_id] = ToolResult(
                content=answer.content, status=answer.status, stdout=answer.stdout, stderr=answer.stderr
            )
        elif not answer.approve:
            results[answer.tool_call_id] = ToolResult(
                content=DENIED.format(reason=answer.reason), status="error", refused=True
            )
    return results


def denials(approval: Approval, reason: str) -> tuple[ApprovalPart, ...]:
    """Return the answers that deny every waiting call."""
    return tuple(ApprovalPart(tool_call_id=call.id, approve=False, reason=reason) for call in approval.calls)
