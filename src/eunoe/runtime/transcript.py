"""Messages as text for a summariser: one entry a message, long ones shortened, packed into pieces (pure)."""

from collections.abc import Sequence
from typing import Final

from eunoe.state.messages import (
    ApprovalPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)

LONGEST_TEXT: Final = 20_000
"""Characters of one text that a transcript shows."""
LONGEST_RETURN: Final = 2_000
"""Characters of a tool's arguments or return that a transcript shows."""

_LABELS: Final = {"summary": "notes on what was said before"}


def entry(message: Message, longest: int = LONGEST_TEXT) -> str:
    """Return a message as an entry of a transcript, no text in it longer than ``longest`` characters.

    Empty for a message that says nothing (a model's reasoning is left out).
    """
    said = [line for part in message.parts if (line := _line(part, longest))]
    label = _LABELS.get(message.role, message.role)
    return f"[{label}, {message.created_at:%Y-%m-%d %H:%M}]\n" + "\n".join(said) if said else ""


def _line(part: Part, longest: int) -> str:
    short = min(longest, LONGEST_RETURN)
    match part:
        case TextPart():
            return shorten(part.text.strip(), longest)
        case ToolCallPart():
            return f"calls {part.name} with {shorten(part.arguments, short)}"
        case ToolReturnPart():
            return f"{part.name} returned ({part.status}): {shorten(part.content, short)}"
        case ImagePart():
            return "(an image)"
        case ApprovalPart():
            answer = "approved" if part.approve else "denied"
            return f"{answer} a call{': ' + shorten(part.reason, short) if part.reason else ''}"
        case ReasoningPart():
            return ""


def shorten(text: str, longest: int) -> str:
    """Return a text of at most about ``longest`` characters: its start and end, and how much is missing between."""
    if len(text) <= longest:
        return text
    head, tail = longest * 3 // 4, longest // 4
    return f"{text[:head]} […{len(text) - head - tail} characters left out…] {text[len(text) - tail :]}"


def pack(entries: Sequence[str], room: int) -> list[str]:
    """Join entries to pieces of at most ``room`` bytes each, in order; a longer entry is cut into several pieces."""
    pieces: list[str] = []
    held: list[str] = []
    size = 0
    for text in (part for whole in entries for part in _cut(whole, room)):
        length = len(text.encode()) + 2
        if held and size + length > room:
            pieces.append("\n\n".join(held))
            held, size = [], 0
        held.append(text)
        size += length
    if held:
        pieces.append("\n\n".join(held))
    return pieces


def _cut(text: str, room: int) -> list[str]:
    data = text.encode()
    step = max(1, room - 2)
    # A character that lies across a cut is lost; a summary does not hang on it.
    return [data[at : at + step].decode(errors="ignore") for at in range(0, len(data), step)] if data else []


def pieces_within(messages: Sequence[Message], room: int, most: int) -> list[str]:
    """Return the transcript of messages in at most ``most`` pieces of ``room`` bytes.

    Texts are shortened as far as that needs. When even that is not enough, the middle is left out, and said to be.
    """
    pieces: list[str] = []
    for longest in (LONGEST_TEXT, LONGEST_TEXT // 4, LONGEST_TEXT // 16, LONGEST_TEXT // 64):
        pieces = pack([text for message in messages if (text := entry(message, longest))], room)
        if len(pieces) <= most:
            return pieces
    missing = f"[{len(pieces) - most + 1} of {len(pieces)} parts of the conversation are left out here]"
    return [*pieces[: most // 2], missing, *pieces[len(pieces) - (most - most // 2 - 1) :]]


def extract(messages: Sequence[Message], longest: int) -> str:
    """Return notes made without a model, of at most about ``longest`` characters, clearly marked as such.

    They hold how many messages there were, the earlier notes, the first request, and the starts of the last messages.
    """
    roles = [message.role for message in messages]
    counts = ", ".join(f"{roles.count(role)} {role}" for role in dict.fromkeys(roles))
    lines = [f"(Mechanical extract: no model could summarise these messages. There were: {counts}.)"]
    earlier = next((message.text for message in messages if message.role == "summary"), "")
    if earlier:
        lines.append(f"Earlier notes: {shorten(earlier, longest // 3)}")
    first = next((message.text for message in messages if message.role == "user"), "")
    if first:
        lines.append(f"First request: {shorten(first, longest // 6)}")
    left = longest - sum(map(len, lines))
    last: list[str] = []
    for message in reversed([message for message in messages if message.role != "summary"]):
        text = shorten(entry(message, LONGEST_RETURN).replace("\n", " "), 300)
        left -= len(text) + 1
        if left < 0:
            break
        if text:
            last.append(text)
    return "\n".join([*lines, "Last messages:", *reversed(last)]) if last else "\n".join(lines)
