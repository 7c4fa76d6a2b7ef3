"""Tells text that a model copied from its prompt from text that is stored.

Some models see block values with line numbers and a warning. A model that copies these into an edit would store
them, or fail to match without knowing why.
"""

import re
from typing import Final

from eunoe.state.errors import InvalidInput

SHOWN_WARNING: Final = "# NOTE: The number and arrow before each line"
"""How the warning starts in a line-numbered prompt (``eunoe.prompt.blocks``; rooms side by side share no code)."""

_LINE_NUMBER: Final = re.compile(r"^[ \t]*\d+→", re.MULTILINE)


def refuse_shown_marks(text: str, name: str) -> None:
    """Raise ``InvalidInput`` when an argument of this name carries line numbers or the warning of the prompt."""
    if _LINE_NUMBER.search(text):
        raise InvalidInput(
            f"{name} contains a line number prefix, which is not allowed. Do not include line numbers when calling "
            f"memory tools (line numbers are for display purposes only).",
            field=name,
        )
    if SHOWN_WARNING in text:
        raise InvalidInput(
            f"{name} contains a line number warning, which is not allowed. Do not include the warning about line "
            f"numbers when calling memory tools (it is for display purposes only).",
            field=name,
        )
