"""How the hunks of a unified diff are read and applied to a value.

Source of the format: the unified diff of POSIX ``diff -u``, written loosely by models. Line numbers in ``@@`` are
optional and need not be right; they only decide when the old lines of a hunk occur more than once.
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from eunoe.state.errors import InvalidInput

_HEADER: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_NO_HUNKS: Final = (
    "No applicable hunks found in patch. Begin lines to keep with a space, lines to remove with '-' and lines to add "
    "with '+'."
)


class Hunk(Struct, frozen=True, kw_only=True):
    """Old lines and what stands in their place.

    ``start`` is the number in the ``@@`` line, if it has one: that of the first old line, or of the line before the
    place when there are no old lines.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    added: tuple[str, ...]
    start: int | None = None


def parse_hunks(lines: Sequence[str]) -> tuple[Hunk, ...]:
    """Read hunks. An empty line is an empty line of context, but at a hunk's end it is nothing.

    Raises ``InvalidInput`` when there is no hunk that changes anything, or a line of no known kind.
    """
    hunks: list[Hunk] = []
    start: int | None = None
    body: list[str] = []
    opened = False
    for index, line in enumerate(lines):
        if line.startswith("@@"):
            hunks += _close(body, start)
            found = _HEADER.match(line)
            start, body, opened = (int(found[1]) if found else None), [], True
        elif line.startswith("\\") or (not opened and not body and _is_file_header(lines, index)):
            continue
        elif line[:1] in ("", " ", "-", "+"):
            body.append(line)
        else:
            raise InvalidInput(
                f"Failed to apply patch: line {index + 1} of the patch, {line!r}, begins with none of ' ', '-', '+' "
                f"and '@@'. Lines to keep begin with a space.",
                field="patch",
            )
    hunks += _close(body, start)
    if not hunks:
        raise InvalidInput(_NO_HUNKS, field="patch")
    return tuple(hunks)


def apply_hunks(value: str, hunks: Sequence[Hunk]) -> str:
    """Return the value with the hunks applied one after the other; an empty value has no lines.

    Raises ``InvalidInput`` when the old lines of a hunk do not occur, or occur more than once and the hunk's number
    does not say which is meant. A hunk without old lines and number adds at the end.
    """
    lines = value.split("\n") if value else []
    shift = 0
    for hunk in hunks:
        place = _place(lines, hunk, shift)
        lines[place : place + len(hunk.old)] = hunk.new
        shift += len(hunk.new) - len(hunk.old)
    return "\n".join(lines)


def _is_file_header(lines: Sequence[str], index: int) -> bool:
    line = lines[index]
    if line.startswith("--- "):
        return index + 1 < len(lines) and lines[index + 1].startswith("+++ ")
    if line.startswith("+++ "):
        return index > 0 and lines[index - 1].startswith("--- ")
    return line == "" or line.startswith(("diff ", "index "))


def _close(body: list[str], start: int | None) -> list[Hunk]:
    while body and not body[-1]:
        body.pop()
    old = tuple(line[1:] for line in body if line[:1] != "+")
    new = tuple(line[1:] for line in body if line[:1] != "-")
    added = tuple(line[1:] for line in body if line[:1] == "+")
    return [Hunk(old=old, new=new, added=added, start=start)] if any(line[:1] in ("-", "+") for line in body) else []


def _place(lines: list[str], hunk: Hunk, shift: int) -> int:
    if not hunk.old:
        place = len(lines) if hunk.start is None else hunk.start + shift
        if not 0 <= place <= len(lines):
            raise InvalidInput(
                f"Failed to apply patch: there is no line {hunk.start} in the memory block after which to add. "
                f"Put a line of context before the added lines.",
                field="patch",
            )
        return place
    size = len(hunk.old)
    places = [
        at
        for at in range(len(lines) - size + 1)
        if lines[at] == hunk.old[0] and tuple(lines[at : at + size]) == hunk.old
    ]
    if len(places) == 1:
        return places[0]
    if hunk.start is not None and hunk.start - 1 + shift in places:
        return hunk.start - 1 + shift
    shown = "\n".join(hunk.old[:5])
    if not places:
        raise InvalidInput(
            f"Failed to apply patch: expected hunk context not found in the memory block. Expected start:\n{shown}",
            field="patch",
        )
    raise InvalidInput(
        f"Failed to apply patch: hunk context matched multiple places in the memory block, at lines "
        f"{[place + 1 for place in places[:20]]}. Give more lines of context. Context start:\n{shown}",
        field="patch",
    )
