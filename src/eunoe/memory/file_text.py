"""How a memory file is written: only what changed is touched, every other byte of the file stays."""

import json
import re
from typing import Any, Final

from msgspec import UNSET, UnsetType

from eunoe.memory.file_problems import FileProblem
from eunoe.memory.front_matter import BOM, KEYS, MemoryFile, find_front, opens_front, parse
from eunoe.memory.verdict import check_text
from eunoe.memory.yaml_mapping import Entry, read_mapping
from eunoe.state.blocks import DEFAULT_LIMIT
from eunoe.state.errors import InvalidInput

_DEFAULTS: Final[dict[str, Any]] = {
    "name": None,
    "description": None,
    "read_only": False,
    "limit": DEFAULT_LIMIT,
    "metadata": {},
}

# Text that every YAML reader takes for the same text when it stands without quotes, in a line or between brackets.
_PLAIN: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_ .;/()'-]*[A-Za-z0-9_.;/()'-])?")
_READ_AS_OTHER: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
# JSON leaves these as they are, and YAML takes them for line breaks or refuses them.
_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def render(
    before: MemoryFile | None,
    *,
    path: str,
    body: str,
    name: str | None | UnsetType = UNSET,
    description: str | None | UnsetType = UNSET,
    read_only: bool | UnsetType = UNSET,
    limit: int | UnsetType = UNSET,
    metadata: dict[str, Any] | UnsetType = UNSET,
) -> bytes:
    """Return the bytes of a file at ``path`` with this body and these values; what is ``UNSET`` stays as it was.

    ``before`` is the file as it was, ``None`` for a new one. A new file has its description, and the others where they
    are not the default; a file that exists gets a key only when its value changes. Keys are never removed: a value
    that goes back to its default is written, since an absent key says nothing. An index of layout 2 is no case for
    this function: its body is the file. Raises ``InvalidInput`` when the file's YAML is of a form in which the change
    cannot be made, when metadata is no JSON, and for a body that no value may be.
    """
    if before is None or body != before.body:
        check_text(body, "value")
    given = {"name": name, "description": description, "read_only": read_only, "limit": limit, "metadata": metadata}
    wanted = {key: value for key, value in given.items() if value is not UNSET}
    if before is None:
        text = _new_front(wanted) + body
    else:
        changed = {key: value for key, value in wanted.items() if _differs(before, key, value)}
        if not changed and body == before.body:
            return before.raw
        text = _rewrite(before, changed, body)
    data = text.encode()
    _verify(data, path, body, wanted)
    return data


def _differs(before: MemoryFile, key: str, value: Any) -> bool:
    held = before.front.get(key, _DEFAULTS[key])
    # Neither shows a description; the file need not change between the two.
    return (held or None) != (value or None) if key == "description" else held != value


def _new_front(wanted: dict[str, Any]) -> str:
    shown = {"description": None, **wanted}
    lines = [
        f"{key}: {_scalar(shown[key])}\n"
        for key in KEYS
        if key in shown and (key == "description" or shown[key] != _DEFAULTS[key])
    ]
    return "".join(["---\n", *lines, "---\n"])


def _rewrite(before: MemoryFile, changed: dict[str, Any], body: str) -> str:
    text = before.raw.decode()
    mark = BOM if text.startswith(BOM) else ""
    content = text.removeprefix(BOM)
    newline = "\r\n" if "\r\n" in content and not re.search(r"(?<!\r)\n", content) else "\n"
    spans = find_front(content) if before.had_front else None
    if spans is None:
        front = _new_front(changed) if changed or opens_front(body) or body.startswith(BOM) else ""
        old_body = content
    else:
        front_text = _edit(content[spans.front_start : spans.front_end], changed, newline)
        front = content[: spans.front_start] + front_text + content[spans.front_end : spans.body_start]
        old_body = content[spans.body_start :]
    new_body = old_body if body == before.body else body.replace("\n", newline)
    if spans is not None and new_body and not front.endswith("\n"):
        front += newline
    return mark + front + new_body


def _edit(front: str, changed: dict[str, Any], newline: str) -> str:
    entries = read_mapping(front)
    places = {entry.key: entry for entry in entries}
    indent = " " * entries[0].column if entries else ""
    for key in sorted((key for key in changed if key in places), key=lambda key: -places[key].start):
        front = _replace(front, places[key], _scalar(changed[key]), newline)
    added = [f"{indent}{key}: {_scalar(changed[key])}{newline}" for key in KEYS if key in changed and key not in places]
    return front + "".join(added)


def _replace(front: str, entry: Entry, value: str, newline: str) -> str:
    ended = front[entry.key_end : entry.value_end].endswith("\n")
    return f"{front[: entry.key_end]}: {value}{newline if ended else ''}{front[entry.value_end :]}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _READ_AS_OTHER:
        return value
    if value == "":
        return "null"
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"The metadata cannot be written to a file: {error}. Use JSON values.", field="metadata"
        ) from error
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _verify(data: bytes, path: str, body: str, wanted: dict[str, Any]) -> None:
    """Raise unless the file reads as what was to be written: a rewrite in place must not say something else."""
    result = parse(data, path)
    if isinstance(result, FileProblem):
        if result.rule in {"conflict", "encoding"}:  # in the new body, and told as what it is
            raise result.as_error()
        raise InvalidInput(
            f"The front matter of {path!r} cannot be changed where it stands: {result.message} "
            f"Write each of its keys on a line of its own, as in 'description: Facts about the user'.",
            field="path",
            path=path,
        )
    if result.body != body or any(_differs(result, key, value) for key, value in wanted.items()):
        raise InvalidInput(
            f"The front matter of {path!r} would not read as it should after the change. "
            f"Write each of its keys on a line of its own, as in 'description: Facts about the user'.",
            field="path",
            path=path,
        )
