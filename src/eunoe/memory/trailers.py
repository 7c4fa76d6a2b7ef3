"""What a commit message says and who it says it for: a subject, a reason, and trailers that a program can read."""

import re
from collections.abc import Mapping
from typing import Final

_TRAILER: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*): *(.*)")
"""One trailer as ``git interpret-trailers`` knows it: a token, a colon, a value."""

_LONGEST_SUBJECT: Final = 100


def commit_message(subject: str, why: str, trailers: Mapping[str, str]) -> str:
    """Put a message together: the subject on one line (cut at 100 characters), the reason, and the trailers last.

    Whatever the reason says, it is not read as trailers: those stand in a paragraph of their own, and without any, a
    last paragraph that looks like trailers is indented.
    """
    parts = [_one_line(subject)[:_LONGEST_SUBJECT] or "Change memory"]
    reason = why.strip()
    if reason:
        parts.append(reason)
    if trailers:
        parts.append("\n".join(f"{key}: {_one_line(value)}" for key, value in trailers.items()))
    message = "\n\n".join(parts) + "\n"
    if not trailers and parse_trailers(message):
        head, _, last = message.rstrip("\n").rpartition("\n\n")
        message = head + "\n\n" + "\n".join(f" {line}" for line in last.split("\n")) + "\n"
    return message


def parse_trailers(message: str) -> tuple[tuple[str, str], ...]:
    """Return the trailers of a message in their order: the lines of its last paragraph, if all of them are trailers.

    The subject is never one. A line that begins with a space continues the value before it.
    """
    paragraphs = re.split(r"\n[ \t]*\n", message.strip("\n"))
    if len(paragraphs) < 2:
        return ()
    found: list[tuple[str, str]] = []
    for line in paragraphs[-1].strip("\n").split("\n"):
        match = _TRAILER.fullmatch(line.rstrip())
        if match is not None:
            found.append((match[1], match[2]))
        elif line[:1] in (" ", "\t") and found:
            key, value = found[-1]
            found[-1] = (key, f"{value} {line.strip()}")
        else:
            return ()
    return tuple(found)


def _one_line(text: str) -> str:
    return " ".join(text.split())
