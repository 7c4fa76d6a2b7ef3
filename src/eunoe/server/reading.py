"""How a request becomes typed values: path ids, query parameters and the body, each with its bounds.

What cannot be read raises ``Unprocessable`` with a sentence that names the field, or ``TooLarge``.
"""

import json
import re
import typing
from collections.abc import Mapping, Sized
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request

from eunoe.server.wire.errors import EXAMPLE_UUID, TooLarge, Unprocessable
from eunoe.state.ids import is_id

T = TypeVar("T", bound=Struct)

DEFAULT_BODY_LIMIT: Final = 32 * 1024 * 1024
"""Bytes of a request body that the server takes by default."""

ID_PREFIXES: Final = {
    "agent_id": "agent",
    "block_id": "block",
    "tool_id": "tool",
    "run_id": "run",
    "step_id": "step",
    "message_id": "message",
    "identity_id": "identity",
    "reflection_id": "reflection",
    "mcp_server_id": "mcp_server",
}
"""Path parameters that are ids, with the prefix that each must have."""

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
"""NUL, which PostgreSQL cannot store, and halves of surrogate pairs, which are no text."""

_AT: Final = re.compile(r" - at `\$\.?(?P<field>.*)`$")
_BOUND: Final = re.compile(r"Expected `\w+`(?P<length> of length)? [<>]=? [-+.e\d]+$")
_STEP: Final = re.compile(r"\[(?P<index>\d+)\]|\.?(?P<name>[^.\[\]]+)")
_MOST_DIGITS: Final = 40
"""Longer numbers are not repeated."""


def path_values(params: Mapping[str, str]) -> dict[str, str]:
    """Return the path parameters, checked: ids have the form that Eunoe gives them, and no text has a NUL."""
    for name, value in params.items():
        prefix = ID_PREFIXES.get(name)
        if prefix is not None and not is_id(prefix, value):
            example = f"{prefix}-{EXAMPLE_UUID}"
            raise Unprocessable(f"{name}: {value!r} is no id of the form {example}", examples=(example,))
        if "\x00" in value:
            raise Unprocessable(f"{name}: must not contain the character U+0000")
    return dict(params)


def query_values(request: Request, form: type[T]) -> T:
    """Return the query parameters as ``form``; unknown ones are ignored.

    A list is written by repeating its name, with or without ``[]``. A single value that is given twice is refused,
    because it is not said which one is meant.
    """
    if not request.scope["query_string"]:
        return _convert({}, form, "query", strict=False)
    lists = list_fields(form)
    found: dict[str, Any] = {}
    for raw_name, value in request.query_params.multi_items():
        name = raw_name.removesuffix("[]")
        if "\x00" in value:
            raise Unprocessable(f"{name}: must not contain the character U+0000")
        if name in lists:
            found.setdefault(name, []).append(value)
        elif name in form.__struct_fields__ and value != "":
            if found.get(name, value) != value:
                raise Unprocessable(f"{name}: given more than once with different values; give it once")
            found[name] = value
    return _convert(found, form, "query", strict=False)


@cache
def list_fields(form: type[Struct]) -> frozenset[str]:
    """Return the names of the fields of a query that take several values."""
    hints = typing.get_type_hints(form)
    return frozenset(name for name, hint in hints.items() if list in {typing.get_origin(a) for a in _options(hint)})


def _options(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) or (hint,)


async def body_bytes(request: Request, limit: int) -> bytes:
    """Return the request's body. Raises ``TooLarge`` as soon as it is known to have more than ``limit`` bytes."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(int(declared), limit, exactly=True)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise _too_large(size, limit, exactly=False)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(size: int, limit: int, *, exactly: bool) -> TooLarge:
    amount = f"{size} bytes" if exactly else f"more than {limit} bytes"
    return TooLarge(
        f"The request body has {amount}, and this server takes at most {limit}. "
        "Send less, or raise the server's limit.",
        limit=limit,
        size=size,
    )


def body_value(raw: bytes, form: type[T]) -> T:
    """Return the JSON body as ``form``. An empty body counts as an object without fields."""
    try:
        value: object = msgspec.json.decode(raw) if raw.strip() else {}
    except msgspec.DecodeError as error:
        raise Unprocessable(_json_complaint(raw, error)) from error
    except RecursionError as error:
        raise Unprocessable("body: nested too deeply") from error
    if b"\\u0000" in raw:
        found = _unstorable(value)
        if found is not None:
            raise Unprocessable(found)
    return _convert(value, form, "body", strict=True)


def _json_complaint(raw: bytes, error: msgspec.DecodeError) -> str:
    """Say what is wrong with a body; half a surrogate pair, which Python's parser lets through, by its field."""
    complaint = f"body: not valid JSON: {error}"
    try:
        lenient: object = json.loads(raw)
    except (ValueError, RecursionError):
        return complaint
    return _unstorable(lenient) or complaint


def _unstorable(value: object) -> str | None:
    """Return a sentence about a text that cannot be stored, naming its field; ``None`` if there is none."""
    stack: list[tuple[str, object]] = [("body", value)]
    while stack:
        where, item = stack.pop()
        if isinstance(item, str):
            bad = _UNSTORABLE.search(item)
            if bad is not None:
                readable = where.encode("utf-8", "backslashreplace").decode()
                return f"{readable}: must not contain the character U+{ord(bad[0]):04X}"
        elif isinstance(item, list):
            entries = typing.cast("list[object]", item)
            stack.extend((f"{where}[{index}]", entry) for index, entry in enumerate(entries))
        elif isinstance(item, dict):
            fields = typing.cast("dict[str, object]", item)
            stack.extend((f"{where}.{name}", entry) for name, entry in fields.items())
            stack.extend((f"{where} (a name)", name) for name in fields)
    return None


def _convert(value: object, form: type[T], place: str, *, strict: bool) -> T:
    try:
        return msgspec.convert(value, form, strict=strict)
    except msgspec.ValidationError as error:
        raise Unprocessable(_sentence(str(error), place, value)) from error
    except RecursionError as error:
        raise Unprocessable(f"{place}: nested too deeply") from error


def _sentence(complaint: str, place: str, value: object) -> str:
    """Put the field first, and last how far from its bound it is: ``body.limit: Expected `int` >= 1, not 0``."""
    at = _AT.search(complaint)
    field, said = (at["field"], complaint[: at.start()]) if at else ("", complaint)
    return f"{place}{'.' if field else ''}{field}: {said}{_measured(said, _at(value, field))}"


def _at(value: object, field: str) -> object:
    """Return what stands at a field, or ``None`` if that is not to be found (the names of an object are not told)."""
    for step in _STEP.finditer(field):
        try:
            item = typing.cast("Any", value)
            value = item[int(step["index"])] if step["index"] else item[step["name"]]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _measured(complaint: str, value: object) -> str:
    """Return the size of a value that is past a bound, as the end of the sentence that names the bound."""
    bound = _BOUND.match(complaint)
    if bound is None:
        return ""
    if bound["length"]:
        return f", not {len(value)}" if isinstance(value, Sized) else ""
    return f", not {value}" if isinstance(value, int | float | str) and len(str(value)) <= _MOST_DIGITS else ""
