"""Front matter as YAML: one mapping of JSON values, with the place of each entry in the text.

The text is split into events by ruamel.yaml (extra ``git``); scalars are read by the core schema of YAML 1.2 (section
10.3.2), so that ``yes`` and ``2024-01-01`` are text and a file means the same everywhere. Anchors, aliases, tags, merge
keys and directives are refused: no memory file needs them, and each is a way to say one thing and mean another.
"""

import importlib
import math
import re
from collections.abc import Iterator
from typing import Any, Final, Literal

from msgspec import Struct

from eunoe.state.errors import InvalidInput

MAX_CHARACTERS: Final = 65_536
"""Characters of the longest front matter."""

_MAX_DEPTH: Final = 16
_MAX_EVENTS: Final = 4_000
_MAX_DIGITS: Final = 40

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SIMPLE: Final = re.compile(r"([A-Za-z_]{1,64}): ([A-Za-z](?:[A-Za-z0-9 ,.()/_-]*[A-Za-z0-9.)])?)")
"""A key and plain text in which no character means anything to YAML."""
_MOST_SIMPLE: Final = 4_096

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class MalformedYaml(InvalidInput):
    """Text that is no such mapping. ``line`` counts from 0 in the text."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line: Final = line


class Entry(Struct, frozen=True, kw_only=True):
    """One key of the mapping with its value.

    ``text`` is a plain scalar as it is written (``None`` for other values). Offsets count characters: where the key
    starts and ends, and where the value ends. ``line`` and ``column`` of the key count from 0.
    """

    key: str
    value: Any
    text: str | None
    start: int
    key_end: int
    value_end: int
    line: int
    column: int


_Kind = Literal["scalar", "sequence", "mapping", "end", "document", "refused"]


class _Event(Struct, frozen=True, kw_only=True):
    kind: _Kind
    start: int
    end: int
    line: int
    column: int
    text: str = ""
    plain: bool = False
    why: str = ""
    flow: bool = False


def read_mapping(text: str) -> tuple[Entry, ...]:
    """Return the entries of the mapping in this text, in order; none when it is blank.

    Raises ``MalformedYaml``, and ``InvalidInput`` when ruamel.yaml is not installed.
    """
    if len(text) > MAX_CHARACTERS:
        raise MalformedYaml(f"has {len(text)} characters; at most {MAX_CHARACTERS} are allowed", 0)
    simple = _simple_lines(text)
    if simple is not None:
        return simple
    reader = _Reader(text)
    first = reader.next()
    if first is None:
        return ()
    if first.kind != "mapping":
        raise MalformedYaml("is no mapping; write lines such as 'description: Facts about the user'", first.line)
    entries = tuple(reader.entries())
    reader.require_end()
    return entries


def _simple_lines(text: str) -> tuple[Entry, ...] | None:
    """Return the entries of lines such as ``description: Facts about the user``; ``None`` for anything else.

    Nearly all front matter is such, and a reader of the whole of YAML takes a millisecond for it.
    """
    if len(text) > _MOST_SIMPLE:
        return None
    entries: list[Entry] = []
    start = 0
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        match = _SIMPLE.fullmatch(line)
        if match is None or any(entry.key == match[1] for entry in entries):
            return None
        entries.append(
            Entry(
                key=match[1],
                value=_CONSTANTS.get(match[2], match[2]),
                text=match[2],
                start=start,
                key_end=start + match.end(1),
                value_end=start + match.end(2),
                line=number,
                column=0,
            )
        )
        start += len(line) + 1
    return tuple(entries)


class _Reader:
    """Builds values from events. ``_end`` is where the last scalar or bracket ended, comments not counted."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._events = _events(text)
        self._count = 0
        self._end = 0

    def next(self) -> _Event | None:
        event = next(self._events, None)
        if event is None:
            return None
        self._count += 1
        if self._count > _MAX_EVENTS:
            raise MalformedYaml(f"has more than {_MAX_EVENTS} parts; keep less in it", event.line)
        if event.why:
            raise MalformedYaml(event.why, event.line)
        if event.kind == "scalar" or event.flow:
            self._end = event.end
        return event

    def require_end(self) -> None:
        extra = self.next()
        if extra is not None:
            raise MalformedYaml("has more than one mapping; write one", extra.line)

    def entries(self) -> Iterator[Entry]:
        seen: set[str] = set()
        while (key := self._inside()).kind != "end":
            name = _key(key, seen)
            first = self._inside()
            value = self._value(first, 1)
            plain = first.kind == "scalar" and first.plain
            yield Entry(
                key=name,
                value=value,
                text=first.text if plain else None,
                start=key.start,
                key_end=key.end,
                value_end=self._after_colon(key.end) if plain and not first.text else self._end,
                line=key.line,
                column=key.column,
            )

    def _after_colon(self, key_end: int) -> int:
        # An empty value is found only at the next key, behind comments that are not its own.
        return self._text.find(":", key_end) + 1 or key_end

    def _inside(self) -> _Event:
        event = self.next()
        if event is None:
            raise MalformedYaml("ends in the middle of a mapping or list", 0)
        return event

    def _value(self, event: _Event, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise MalformedYaml(f"nests more than {_MAX_DEPTH} levels deep; keep it flatter", event.line)
        if event.kind == "scalar":
            return _scalar(event) if event.plain else event.text
        if event.kind == "sequence":
            items: list[Any] = []
            while (item := self._inside()).kind != "end":
                items.append(self._value(item, depth + 1))
            return items
        result: dict[str, Any] = {}
        seen: set[str] = set()
        while (key := self._inside()).kind != "end":
            result[_key(key, seen)] = self._value(self._inside(), depth + 1)
        return result


def _key(event: _Event, seen: set[str]) -> str:
    if event.kind != "scalar":
        raise MalformedYaml("has a key that is a list or mapping; keys are text", event.line)
    if event.plain and event.text == "<<":
        raise MalformedYaml("has a merge key '<<', which is not allowed; write the keys out", event.line)
    if event.text in seen:
        raise MalformedYaml(f"has the key {event.text!r} twice; keep one", event.line)
    seen.add(event.text)
    return event.text


def _scalar(event: _Event) -> Any:
    text = event.text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise MalformedYaml(f"has a number of {len(text)} digits; quote it to keep it as text", event.line)
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if not _FLOAT.fullmatch(text):
        return text
    number = float(text)
    if math.isinf(number):
        raise MalformedYaml("has a number that is too large; quote it to keep it as text", event.line)
    return number


def _events(text: str) -> Iterator[_Event]:
    try:
        library: Any = importlib.import_module("ruamel.yaml")
    except ImportError as error:
        raise InvalidInput(
            "Memory files need a YAML reader, which is not installed. Install it with: pip install 'eunoe[git]'"
        ) from error
    try:
        for event in library.YAML(typ="safe", pure=True).parse(text):
            told = _told(event)
            if told is not None:
                yield told
    except library.YAMLError as error:
        raise MalformedYaml(f"is no valid YAML: {_reason(error)}", _line(error, text)) from error
    except (ValueError, OverflowError) as error:  # escapes in quoted text that name no character
        raise MalformedYaml(f"is no valid YAML: {error}", 0) from error


def _told(event: Any) -> _Event | None:
    # The event classes live in the library, which is imported only on use; their names are its public form.
    name = type(event).__name__
    kinds: dict[str, _Kind] = {
        "ScalarEvent": "scalar",
        "AliasEvent": "refused",
        "SequenceStartEvent": "sequence",
        "MappingStartEvent": "mapping",
        "SequenceEndEvent": "end",
        "MappingEndEvent": "end",
        "DocumentStartEvent": "document",
        "DocumentEndEvent": "document",
    }
    kind = kinds.get(name)
    why = _refusal(event, name)
    if kind is None or (kind == "document" and not why):
        return None
    start, end = event.start_mark, event.end_mark
    closes = kind == "end" and end.index > start.index
    return _Event(
        kind=kind,
        start=start.index,
        end=end.index,
        line=start.line,
        column=start.column,
        text=event.value if kind == "scalar" else "",
        plain=kind == "scalar" and event.style is None,
        why=why,
        flow=closes,
    )


def _refusal(event: Any, name: str) -> str:
    if name.startswith("Document"):
        return "has a directive, '---' or '...' in it; write one mapping alone" if event.explicit else ""
    if name == "AliasEvent" or getattr(event, "anchor", None) is not None:
        return "has an anchor or alias ('&' or '*' before a name), which is not allowed; quote the text or repeat it"
    if getattr(event, "ctag", None) is not None:
        return "has a tag ('!' before a value), which is not allowed; quote the text"
    if name == "ScalarEvent" and _SURROGATE.search(event.value):
        return "has half a surrogate pair, which is no character"
    return ""


def _reason(error: Any) -> str:
    parts = [getattr(error, name, None) for name in ("context", "problem", "reason")]
    return ", ".join(str(part).partition("\n")[0] for part in parts if part) or type(error).__name__


def _line(error: Any, text: str) -> int:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return int(mark.line)
    return text.count("\n", 0, int(getattr(error, "position", 0) or 0))
