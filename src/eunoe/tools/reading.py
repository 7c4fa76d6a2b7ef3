"""Reading one stored message on from some character: the second use of ``conversation_search``.

A message that is too long for the window is shown in part; its marker names these arguments.
"""

from typing import Any, Final

from msgspec import Struct

from eunoe.state.errors import InvalidInput, NotFound
from eunoe.state.ids import is_id
from eunoe.state.messages import Message

READING_TOOL: Final = "conversation_search"
"""The tool that reads messages; agents of most types have it."""

PAGE: Final = 4_000
"""Characters that one reading returns: few enough that a page of plain text is never cut in its turn."""

READING_PROPERTIES: Final[dict[str, Any]] = {
    "message_id": {
        "type": "string",
        "description": "Read this one message instead of searching: the id that a cut message or result names.",
    },
    "offset": {"type": "integer", "description": "With message_id: the character to read on from; 0 if left out."},
    "tool_call_id": {"type": "string", "description": "With message_id: the call whose result is wanted, if several."},
}
"""What the tool's schema has besides the properties of a search."""


class Reading(Struct, frozen=True, kw_only=True):
    """What is to be read: a message (or the return of one call in it) from a character on."""

    message_id: str
    offset: int = 0
    tool_call_id: str | None = None


def parse_reading(arguments: dict[str, Any]) -> Reading | None:
    """Return what the model wants to read, or ``None`` when it searches.

    Raises ``InvalidInput`` with a sentence for the model.
    """
    message_id = arguments.get("message_id")
    if message_id is None or message_id == "":
        return None
    if not isinstance(message_id, str) or not is_id("message", message_id):
        raise InvalidInput(
            f"message_id must be the id of a message (message-…), not {message_id!r}.", field="message_id"
        )
    offset = arguments.get("offset")
    offset = 0 if offset is None else offset
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise InvalidInput(f"offset must be a whole number of 0 or more, not {offset!r}.", field="offset")
    call = arguments.get("tool_call_id")
    if call is not None and not isinstance(call, str):
        raise InvalidInput("tool_call_id must be a text.", field="tool_call_id")
    return Reading(message_id=message_id, offset=offset, tool_call_id=call or None)


def tell_page(message: Message, reading: Reading) -> str:
    """Return a page of a message as the model reads it, and where the next one begins.

    Raises ``NotFound`` when the message has no return of the named call, and ``InvalidInput`` when it ends before the
    offset.
    """
    returns = [p for p in message.tool_returns if reading.tool_call_id in (None, p.tool_call_id)]
    if reading.tool_call_id is not None and not returns:
        raise NotFound(
            "Tool return", reading.tool_call_id, f"{message.id} has no result of the call {reading.tool_call_id}"
        )
    text = "\n".join(part.content for part in returns) if returns else message.text
    if reading.offset and reading.offset >= len(text):
        raise InvalidInput(f"{message.id} has {len(text)} characters; choose an offset below that.", field="offset")
    page = text[reading.offset : reading.offset + PAGE]
    end = reading.offset + len(page)
    more = f"read on with offset {end}" if end < len(text) else "this is the end"
    return f"{page}\n[Characters {reading.offset} to {end} of {len(text)}; {more}.]"
