"""Where a window may be cut, and where it is cut (pure): pairs stay whole, and open questions stay in view (I3)."""

from collections.abc import Sequence

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
    settled = [_settled(message) for message in window]
    allowed: list[int] = []
    reach = 0
    for size in range(1, first_open(window) + 1):
        for call in window[size - 1].tool_calls:
            reach = max(reach, _settled_at(settled, call.id, size))
        if size >= least and reach < size:
            allowed.append(size)
    return allowed


def _settled(message: Message) -> tuple[frozenset[str], bool]:
    # The calls that a message is about, and whether it returns them.
    about = (part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart | ApprovalPart))
    return frozenset(about), message.role == "tool"


def _settled_at(settled: Sequence[tuple[frozenset[str], bool]], call_id: str, start: int) -> int:
    """Return the index of the message with the call's return, or else of the last word about it; 0 for none."""
    last = 0
    for index in range(start, len(settled)):
        about, returned = settled[index]
        if call_id in about:
            last = index
            if returned:
                break
    return last


def cut_all(window: Sequence[Message]) -> Cut | None:
    """Take everything out of view that may go; ``None`` when nothing may."""
    allowed = boundaries(window)
    return _at(window, allowed[-1]) if allowed else None


def cut_sliding(window: Sequence[Message], *, share: float, goal: int) -> Cut | None:
    """Take the oldest messages out of view until the rest takes at most ``goal`` tokens.

    At least ``share`` of the messages go (0 to 1), and all that may go when the goal cannot be reached. ``None`` when
    nothing may go.
    """
    allowed = boundaries(window)
    if not allowed:
        return None
    sizes = [message_tokens(message) for message in window]
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
