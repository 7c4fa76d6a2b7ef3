"""Where a window may be cut, and where it is cut (pure): pairs stay whole, and open questions stay in view (I3)."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from eunoe.runtime.token_account import message_tokens, window_tokens
from eunoe.state.messages import ApprovalPart, Message, ToolReturnPart


class Cut(Struct, frozen=True, kw_only=True):
    """A window in two: what goes out of view, and what stays. Together they are the window, in its order."""

    evicted: tuple[Message, ...]
    kept: tuple[Message, ...]


def first_open(window: Sequence[Message]) -> int:
    """Return the index from which on everything must stay in view; the window's length when nothing is open.

    Open are a call that waits for an approval, the calls of a step that still goes on, and messages to the model at
    the end that it has not seen yet.
    """
    opened = len(window)
    while opened and window[opened - 1].role in ("user", "system"):
        opened -= 1
    returned = {part.tool_call_id for message in window for part in message.tool_returns}
    last_said = max((i for i, message in enumerate(window) if message.role in ("user", "assistant")), default=-1)
    for index, message in enumerate(window):
        waiting = set(message.needs_approval)
        if index == last_said:
            waiting |= {call.id for call in message.tool_calls}
        if waiting - returned:
            return min(index, opened)
    return opened


def boundaries(window: Sequence[Message]) -> list[int]:
    """Return the sizes of prefixes that may go out of view, ascending; each takes at least one message out.

    No call is parted from its return or from the answer about it. An earlier summary goes only with something new.
    """
    least = 2 if window and window[0].role == "summary" else 1
    answers = [_answered(message) for message in window]
    allowed: list[int] = []
    reach = 0
    for size in range(1, first_open(window) + 1):
        message = window[size - 1]
        for call in message.tool_calls:
            later = (i for i in range(size, len(window)) if call.id in answers[i])
            reach = max(reach, next(later, 0))
        if size >= least and reach < size:
            allowed.append(size)
    return allowed


def _answered(message: Message) -> frozenset[str]:
    return frozenset(part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart | ApprovalPart))


def cut_all(window: Sequence[Message]) -> Cut | None:
    """Take everything out of view that may go; ``None`` when nothing may."""
    allowed = boundaries(window)
    return _at(window, allowed[-1]) if allowed else None


def cut_sliding(
    window: Sequence[Message], *, share: float, goal: int, tokens: Callable[[Message], int] = message_tokens
) -> Cut | None:
    """Take the oldest messages out of view: at least ``share`` of them (0 to 1), and as many as it needs for the rest
    to take at most ``goal`` tokens; everything that may go when even that is not enough. ``None`` when nothing may.
    """
    allowed = boundaries(window)
    if not allowed:
        return None
    sizes = [tokens(message) for message in window]
    for size in allowed:
        if size >= share * len(window) and sum(sizes[size:]) <= goal:
            return _at(window, size)
    return _at(window, allowed[-1])


def _at(window: Sequence[Message], size: int) -> Cut:
    return Cut(evicted=tuple(window[:size]), kept=tuple(window[size:]))


def request_in_hand(cut: Cut) -> Message | None:
    """Return the user message that a turn still works on, when the cut takes it out of view."""
    window = (*cut.evicted, *cut.kept)
    asked = max((i for i, message in enumerate(window) if message.role == "user"), default=len(window))
    if asked >= len(cut.evicted):
        return None
    answered = any(m.role == "assistant" and not m.tool_calls for m in window[asked + 1 :])
    return None if answered else window[asked]


def worthwhile(cut: Cut, limit: int) -> bool:
    """Say whether a cut frees a twentieth of the limit (tokens): less would be due again after the next step."""
    return window_tokens(cut.evicted) * 20 >= limit
