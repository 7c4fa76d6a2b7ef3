"""The window: pure decisions about calls and their returns (I3)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from eunoe.state.ids import new_id
from eunoe.state.messages import Message, ToolCallPart, ToolReturnPart

INTERRUPTED: Final = (
    "Interrupted: the process stopped before the result of this call was recorded. Its outcome is unknown; check "
    "before you call it again."
)
MISSING: Final = "The history holds no return for this call. Its outcome is unknown."
LOST: Final = "The message that asked for this call is lost; its arguments are unknown."
CANCELLED: Final = "Cancelled by the user before the result of this call was recorded. Its outcome is unknown."


class Unanswered(Struct, frozen=True, kw_only=True):
    """An assistant message some of whose calls have no return in the tool message that follows it."""

    message: Message
    calls: tuple[ToolCallPart, ...]
    after: Message
    """The message after which the missing returns belong."""


def unanswered(window: Sequence[Message]) -> list[Unanswered]:
    """Find every call without a return directly after the message that asked, oldest first.

    Messages of role ``approval`` are no part of what a model sees and do not stand between a call and its return.
    """
    found: list[Unanswered] = []
    seen = [message for message in window if message.role != "approval"]
    for index, message in enumerate(seen):
        if message.role != "assistant" or not message.tool_calls:
            continue
        answered: set[str] = set()
        after = message
        for follower in seen[index + 1 :]:
            if follower.role != "tool":
                break
            answered.update(part.tool_call_id for part in follower.tool_returns)
            after = follower
        calls = tuple(call for call in message.tool_calls if call.id not in answered)
        if calls:
            found.append(Unanswered(message=message, calls=calls, after=after))
    return found


def strays(window: Sequence[Message]) -> list[Message]:
    """Find the tool messages none of whose returns the assistant message before them asked for, oldest first."""
    found: list[Message] = []
    asking: Message | None = None
    for message in window:
        if message.role == "tool":
            due = {call.id for call in asking.tool_calls} if asking else set[str]()
            if message.tool_returns and not any(part.tool_call_id in due for part in message.tool_returns):
                found.append(message)
        elif message.role != "approval":
            asking = message
    return found


def asking_message(stray: Message, conversation_id: str, now: datetime) -> Message:
    """Return the assistant message that stands in for the one that asked for these returns, and is lost."""
    return Message(
        id=new_id("message"),
        agent_id=stray.agent_id,
        conversation_id=conversation_id,
        role="assistant",
        parts=tuple(ToolCallPart(id=part.tool_call_id, name=part.name, arguments="{}") for part in stray.tool_returns),
        run_id=stray.run_id,
        created_at=now,
        meta={"healed": LOST},
    )


def closing_message(
    asked: Message, calls: Sequence[ToolCallPart], reason: str, *, run_id: str | None, now: datetime
) -> Message:
    """Return the tool message that closes these calls as errors, with the reason for the model to read."""
    return Message(
        id=new_id("message"),
        agent_id=asked.agent_id,
        conversation_id=asked.conversation_id,
        role="tool",
        parts=tuple(
            ToolReturnPart(tool_call_id=call.id, name=call.name, content=reason, status="error", refused=True)
            for call in calls
        ),
        name=calls[0].name if len(calls) == 1 else None,
        run_id=run_id,
        step_id=asked.step_id,
        created_at=now,
        meta={"healed": reason},
    )


def unique_call_ids(calls: Sequence[ToolCallPart], taken: set[str]) -> dict[int, str]:
    """Return, by index, the new ids for calls whose id is empty or already used in the window or in this answer."""
    renamed: dict[int, str] = {}
    used = set(taken)
    for index, call in enumerate(calls):
        if not call.id or call.id in used:
            renamed[index] = f"call_{new_id('call')[5:].replace('-', '')}"
        used.add(renamed.get(index, call.id))
    return renamed
