"""What of a long message goes into a request: it is stored whole, and shown as far as the window can take it (pure).

The cut depends on the request alone, so the same history gives the same bytes, and a past request can be built again.
"""

from typing import Final

from msgspec import structs

from eunoe.models.protocol import ModelRequest
from eunoe.runtime.token_account import fixed_tokens
from eunoe.state.messages import Message, Part, TextPart, ToolReturnPart
from eunoe.tools.reading import READING_TOOL

LEAST_SHOWN: Final = 5_000
"""Bytes of a tool's return that are always shown, unless the window has no room for them."""
SHARE: Final = 5
"""A longer return may take one part in this many of the window."""
_BYTES_PER_TOKEN: Final = 4
_BYTES_PER_CHARACTER: Final = 4
"""The most that UTF-8 takes for a character."""
_FLOOR: Final = 600
"""Bytes that are shown even where there is no room at all; the provider then judges the request."""


def fitted(request: ModelRequest) -> ModelRequest:
    """Return the request with each oversized tool return or text cut, and a marker that says how to read the rest.

    Applied to its own result it changes nothing.
    No return takes more than a fifth of the window (or 5,000 bytes), and no message of a user or of tools more than
    half of what system text and tools leave. What the model itself said is never touched.
    """
    window = request.model.context_window
    if not window:
        return request
    room = max(0, window - fixed_tokens(request.system, request.tools)) * _BYTES_PER_TOKEN
    message_limit = max(_FLOOR, room // 2)
    return_limit = min(message_limit, max(LEAST_SHOWN, window * _BYTES_PER_TOKEN // SHARE))
    readable = any(tool.name == READING_TOOL for tool in request.tools)
    messages = tuple(_shown(message, return_limit, message_limit, readable=readable) for message in request.messages)
    return structs.replace(request, messages=messages)


def _shown(message: Message, return_limit: int, message_limit: int, *, readable: bool) -> Message:
    if message.role in ("assistant", "approval"):
        return message
    long = [part for part in message.parts if isinstance(part, TextPart | ToolReturnPart)]
    if not long:
        return message
    share = max(_FLOOR, message_limit // len(long))
    limit = min(share, return_limit) if message.role == "tool" else share
    if all(len(_text_of(part)) * _BYTES_PER_CHARACTER <= limit for part in long):
        return message  # nearly always, and without encoding it
    parts = tuple(_cut(part, message.id, limit, readable=readable) for part in message.parts)
    return message if parts == message.parts else structs.replace(message, parts=parts)


def _text_of(part: TextPart | ToolReturnPart) -> str:
    return part.text if isinstance(part, TextPart) else part.content


def _cut(part: Part, message_id: str, limit: int, *, readable: bool) -> Part:
    if isinstance(part, TextPart):
        text = _shortened(part.text, message_id, limit, readable=readable)
        return part if text == part.text else structs.replace(part, text=text)
    if isinstance(part, ToolReturnPart):
        content = _shortened(part.content, message_id, limit, call_id=part.tool_call_id, readable=readable)
        return part if content == part.content else structs.replace(part, content=content)
    return part


def _shortened(text: str, message_id: str, limit: int, *, readable: bool, call_id: str | None = None) -> str:
    data = text.encode()
    if len(data) <= limit:
        return text

    def marker(shown: int) -> str:
        call = f', "tool_call_id": "{call_id}"' if call_id else ""
        rest = f'{READING_TOOL}({{"message_id": "{message_id}"{call}, "offset": {shown}}})'
        advice = f"Read on with {rest}." if readable else f"It is kept whole as {message_id}."
        return f"\n[Shown: the first {shown} of {len(text)} characters. {advice}]"

    # With its marker the text keeps to the limit, so that a view of a view is the same view.
    shown = data[: max(0, limit - len(marker(len(text)).encode()))].decode(errors="ignore")
    return shown + marker(len(shown))
