"""The directives by which a test, or a curious person, tells the scripted model what to answer.

One directive a line, in the user's message::

    THINK:text          reasoning
    SAY:text            text; several lines are several lines of text
    TOOL:name {json}    a tool call; several lines are several calls in one answer
    ERROR:status        the endpoint fails with this HTTP status
    EMPTY:              an answer without content
    THEN:               what follows is for the next model call of the turn
"""

import re
from typing import Final

from msgspec import Struct


class Call(Struct, frozen=True, kw_only=True):
    """A tool call; ``arguments`` is text, so that it may also be no JSON."""

    name: str
    arguments: str = "{}"


class Directions(Struct, frozen=True, kw_only=True):
    """What one model call answers. All empty: an answer without content. ``error`` is an HTTP status."""

    thoughts: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    error: int | None = None


_LINE: Final = re.compile(r"(SAY|THINK|TOOL|ERROR|EMPTY|THEN):\s?(.*)")

UNDERSTOOD: Final = Directions(text="Understood.")
"""What is answered after the last section."""


def has_directives(text: str) -> bool:
    """Say whether this user message holds a directive."""
    return any(_LINE.match(line) for line in text.splitlines())


def directions_for(text: str, call_number: int) -> Directions:
    """Return what the ``call_number``-th model call of the turn (from 0) answers to this user message.

    Lines that are no directives are talk to a real model, and are passed over.
    """
    sections: list[list[tuple[str, str]]] = [[]]
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        if found[1] == "THEN":
            sections.append([])
        else:
            sections[-1].append((found[1], found[2]))
    return _directions(sections[call_number]) if call_number < len(sections) else UNDERSTOOD


def _directions(lines: list[tuple[str, str]]) -> Directions:
    error = next((value.strip() for word, value in lines if word == "ERROR"), None)
    return Directions(
        thoughts="\n".join(value for word, value in lines if word == "THINK"),
        text="\n".join(value for word, value in lines if word == "SAY"),
        calls=tuple(_call(value) for word, value in lines if word == "TOOL"),
        error=int(error) if error and error.isdecimal() else 500 if error is not None else None,
    )


def _call(value: str) -> Call:
    name, _, arguments = value.strip().partition(" ")
    return Call(name=name, arguments=arguments.strip() or "{}")
