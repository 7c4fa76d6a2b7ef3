"""A long text shown piece by piece: how much of it there is, and where the next piece begins."""

from typing import Final

from eunoe.state.errors import InvalidInput

PAGE: Final = 20_000
"""Characters of one piece: well below what a tool's return may have."""


def page_of(text: str, offset: int, what: str) -> str:
    """Return the piece of a text that begins at a character, with a last line in brackets unless it is the whole.

    Raises ``InvalidInput`` when the text ends before the offset; ``what`` names the text then.
    """
    if offset < 0 or (offset and offset >= len(text)):
        raise InvalidInput(f"{what} has {len(text)} characters; choose an offset from 0 to below that.", field="offset")
    piece = text[offset : offset + PAGE]
    end = offset + len(piece)
    if offset == 0 and end == len(text):
        return text
    more = f"read on with offset {end}" if end < len(text) else "this is the end"
    return f"{piece}\n[Characters {offset} to {end} of {len(text)}; {more}.]"
