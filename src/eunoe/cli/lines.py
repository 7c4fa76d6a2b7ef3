"""What a person types: messages of one line, or of several that end in a backslash but for the last."""

import sys
from collections.abc import Generator
from importlib import import_module
from importlib.util import find_spec
from typing import Final, TextIO

from eunoe.state.errors import InvalidInput

PROMPT: Final = "> "
MORE: Final = "… "


def messages_in(stream: TextIO) -> Generator[str]:
    """Yield the messages in a file or pipe; blank ones are left out. Raises ``UnicodeDecodeError``."""
    held: list[str] = []
    for line in stream:
        text = line.removesuffix("\n")
        held.append(text.removesuffix("\\"))
        if not text.endswith("\\"):
            if message := _whole(held):
                yield message
            held = []
    if message := _whole(held):
        yield message


def read_stdin(field: str) -> str:
    """Return all that the input gives, without its last line end. Raises ``InvalidInput`` when it is not UTF-8."""
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InvalidInput("The input is not UTF-8 text. Convert it first.", field=field) from error


def ask() -> str:
    """Ask the person at the terminal for a message; it may be blank.

    Raises ``EOFError`` at the end of input (Ctrl-D) and ``KeyboardInterrupt`` at Ctrl-C.
    """
    held: list[str] = []
    while True:
        text = input(MORE if held else PROMPT)
        held.append(text.removesuffix("\\"))
        if not text.endswith("\\"):
            return _whole(held)


def use_line_editing() -> None:
    """Give ``ask`` arrow keys and a history of this sitting, where this Python was built with them."""
    if find_spec("readline") is not None:
        import_module("readline")


def is_terminal() -> bool:
    """Say whether a person types and not a program."""
    return sys.stdin.isatty()


def _whole(lines: list[str]) -> str:
    return "\n".join(lines).strip()
