"""What may be written to a terminal: text that cannot command it, and colour only where it is wanted."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, TextIO

import click

_COMMANDS_TERMINAL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text with every character that could command a terminal shown as U+FFFD.

    Models, tools and other people's agents write text; an escape sequence in it must not move the cursor, change the
    title or hide what stands before it. Tab and line feed stay.
    """
    return _COMMANDS_TERMINAL.sub("\ufffd", text.replace("\r\n", "\n"))


def one_line(text: str, width: int) -> str:
    """Return printable text on one line of at most ``width`` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def moment(time: datetime | None) -> str:
    """Return a time to the minute, as the clock of this machine shows it."""
    return "never" if time is None else f"{time.astimezone():%Y-%m-%d %H:%M}"


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Say whether to write colour to this stream: a terminal that is not dumb, and no ``NO_COLOR``."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


class Style:
    """The few looks that Eunoe's lines have; each does nothing where colour is not wanted."""

    def __init__(self, *, colour: bool) -> None:
        self.colour: Final = colour

    def dim(self, text: str) -> str:
        """Return text that stands back: reasoning, tools, notices."""
        return self._styled(text, dim=True)

    def bold(self, text: str) -> str:
        """Return text that stands out."""
        return self._styled(text, bold=True)

    def red(self, text: str) -> str:
        """Return text that tells of a failure."""
        return self._styled(text, fg="red")

    def _styled(self, text: str, *, fg: str | None = None, bold: bool | None = None, dim: bool | None = None) -> str:
        return click.style(text, fg=fg, bold=bold, dim=dim) if self.colour and text else text
