r"""How a memory file is read: front matter between two lines ``---``, then the body.

The body is the block's value, character for character: a value ``abc`` is a body without a line end, and a line end
at the end of a body belongs to the value. So a block that is written and read again is the same block, and a file
that is read and written again the same file. Two things of other editors are tolerated: a byte order mark, and
``CRLF`` line ends, which a value has as ``\n``; both stay in the file when it is rewritten.

Source of the format: Letta v1's memory files (description, read_only, limit, metadata) and Letta Code's layout 2
(name, description).
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from eunoe.memory.file_problems import FileProblem, FileRule
from eunoe.memory.yaml_mapping import Entry, MalformedYaml, read_mapping
from eunoe.state.blocks import DEFAULT_LIMIT

KEYS: Final = ("name", "description", "read_only", "limit", "metadata")
"""The keys that mean something, in the order in which new files have them. Others are kept as they are."""

BOM: Final = "\ufeff"

_OPENING: Final = re.compile(r"---[ \t]*\r?\n")
_CLOSING: Final = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_CONFLICT_MARKS: Final = (
    re.compile(r"<{7}(?: .*)?"),
    re.compile(r"={7}"),
    re.compile(r">{7}(?: .*)?"),
)


class MemoryFile(Struct, frozen=True, kw_only=True):
    """A memory file as it was read.

    ``front`` has the keys of ``KEYS`` that the file sets, in its order; the fields after it are what they say or the
    default. ``other_keys`` names the rest of the front matter. ``body`` is the value; ``raw`` is every byte of the
    file. ``notes`` tell what was tolerated.
    """

    path: str
    raw: bytes
    body: str
    had_front: bool = False
    front: dict[str, Any] = {}
    other_keys: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """The name that layout 2 asks for."""
        return self.front.get("name")

    @property
    def description(self) -> str | None:
        """What the file is for."""
        return self.front.get("description")

    @property
    def read_only(self) -> bool:
        """Whether the file is protected from edits."""
        return self.front.get("read_only", False)

    @property
    def limit(self) -> int:
        """Characters that the body may have."""
        return self.front.get("limit", DEFAULT_LIMIT)

    @property
    def metadata(self) -> dict[str, Any]:
        """JSON values that the prompt does not show."""
        return self.front.get("metadata", {})


class Spans(NamedTuple):
    """Where the front matter of a text starts and ends, and where its body starts (offsets in characters)."""

    front_start: int
    front_end: int
    body_start: int


def parse(data: bytes, path: str, *, strict: bool = False, index: bool = False) -> MemoryFile | FileProblem:
    """Read a memory file, or say why it cannot be read.

    A file without front matter is all body. So is one whose first line ``---`` is never closed, unless ``strict``.
    An ``index`` has no front matter by its layout and is all body. Raises ``InvalidInput`` when the YAML reader is
    not installed.
    """
    text = decode(data, path)
    if isinstance(text, FileProblem):
        return text
    conflict = conflict_line(text)
    if conflict is not None:
        message = "Holds the marks of a merge conflict. Choose what to keep and remove the marks."
        return FileProblem(path=path, rule="conflict", line=conflict, message=message)
    content = text.removeprefix(BOM)
    spans = None if index else find_front(content)
    if spans is None:
        if strict and not index and opens_front(content):
            message = "Starts with '---', and no second line '---' ends its front matter. Add that line."
            return FileProblem(path=path, rule="front matter", line=1, message=message)
        return MemoryFile(path=path, raw=data, body=_lines(content), notes=_notes(text))
    try:
        entries = read_mapping(content[spans.front_start : spans.front_end])
    except MalformedYaml as error:
        message = f"The front matter {error.message}."
        return FileProblem(path=path, rule="front matter", line=error.line + 2, message=message)
    front = _known(entries, path)
    if isinstance(front, FileProblem):
        return front
    return MemoryFile(
        path=path,
        raw=data,
        body=_lines(content[spans.body_start :]),
        had_front=True,
        front=front,
        other_keys=tuple(entry.key for entry in entries if entry.key not in KEYS),
        notes=_notes(text),
    )


def decode(data: bytes, path: str) -> str | FileProblem:
    """Return the text of a file with its byte order mark, or the problem when it is no UTF-8 text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        kind = "Is UTF-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else f"Is no UTF-8 at byte {error.start}"
        return FileProblem(path=path, rule="encoding", line=line, message=f"{kind}. Save the file as UTF-8 text.")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        message = "Has a NUL character, so it is no text. Save the file as UTF-8 text."
        return FileProblem(path=path, rule="encoding", line=line, message=message)
    return text


def conflict_line(text: str) -> int | None:
    """Return the line (from 1) where the marks of a merge conflict start, ``None`` when there are none."""
    if "\n=======" not in text:
        return None
    stage, start = 0, 0
    for number, line in enumerate(text.split("\n"), start=1):
        bare = line.rstrip("\r")
        if _CONFLICT_MARKS[0].fullmatch(bare):
            stage, start = 1, number
        elif stage and _CONFLICT_MARKS[stage].fullmatch(bare):
            stage += 1
            if stage == len(_CONFLICT_MARKS):
                return start
    return None


def opens_front(text: str) -> bool:
    """Say whether this text (without byte order mark) starts like front matter."""
    return _OPENING.match(text) is not None


def find_front(text: str) -> Spans | None:
    """Return where front matter and body of this text (without byte order mark) are, ``None`` when all is body."""
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return None
    return Spans(opening.end(), closing.start(), closing.end())


def _known(entries: Sequence[Entry], path: str) -> dict[str, Any] | FileProblem:
    front: dict[str, Any] = {}
    for entry in entries:
        if entry.key not in KEYS:
            continue
        value = "" if entry.text == "" else entry.value
        wanted = _type_fault(entry.key, value)
        if wanted:
            rules: dict[str, FileRule] = {"name": "name", "description": "description", "limit": "limit"}
            return FileProblem(
                path=path,
                rule=rules.get(entry.key, "front matter"),
                line=entry.line + 2,
                message=f"The value of {entry.key} must be {wanted}.",
            )
        front[entry.key] = value
    return front


def _type_fault(key: str, value: Any) -> str:
    match key:
        case "name":
            return "" if isinstance(value, str) else "text; quote it"
        case "description":
            return "" if value is None or isinstance(value, str) else "text; quote it"
        case "read_only":
            return "" if isinstance(value, bool) else "true or false"
        case "limit":
            return "" if isinstance(value, int) and not isinstance(value, bool) else "a whole number of characters"
        case _:
            return "" if isinstance(value, dict) else "a mapping, such as {source: manual}"


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _notes(text: str) -> tuple[str, ...]:
    notes: list[str] = []
    if text.startswith(BOM):
        notes.append("The file starts with a byte order mark, which is no part of its text.")
    if "\r\n" in text:
        notes.append("The file has CRLF line ends; its value has line feeds alone.")
    return tuple(notes)
