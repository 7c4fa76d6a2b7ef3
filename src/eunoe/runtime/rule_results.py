"""Which key of a conditional rule a tool's result matches (pure)."""

import json
import math
from collections.abc import Iterable
from typing import Any, Final, cast

_WORDS: Final[dict[str, tuple[str, object]]] = {
    "true": ("bool", True),
    "false": ("bool", False),
    "null": ("none", None),
    "none": ("none", None),
}


def matching_key(keys: Iterable[str], result: str) -> str | None:
    """Return the key that this result matches, or ``None``.

    What is compared is, in this order, the whole result; the value that it is as JSON; and, when that is an object,
    its ``message`` and its ``result``. Each is first compared letter by letter with every key, and then by value:
    ``True`` matches ``true``, ``2.0`` matches ``2``, and white space around a text does not count. Text matches in its
    own case only, and a truth value never matches a number.
    """
    listed = list(keys)
    for value in _values(result):
        if isinstance(value, str) and value in listed:
            return value
        reading = _reading(value)
        for key in listed:
            if reading == _reading(key):
                return key
    return None


def _values(result: str) -> list[Any]:
    """Return what of a result may be compared: scalars only."""
    try:
        parsed: Any = json.loads(result)
    except (ValueError, RecursionError):
        # Most tools return plain text; that is no failure.
        return [result]
    if isinstance(parsed, dict):
        fields = cast("dict[str, Any]", parsed)
        found = [fields[name] for name in ("message", "result") if name in fields]
    else:
        found = [parsed]
    return [result, *(value for value in found if not isinstance(value, dict | list))]


def _reading(value: str | float | bool | None) -> tuple[str, object]:
    """Return the kind of a value and the value, the same for every way to write it."""
    if value is None or isinstance(value, bool):
        return _WORDS[str(value).lower()]
    if not isinstance(value, str):
        return "number", value
    text = value.strip()
    number = _number(text)
    return _WORDS.get(text.lower()) or (("text", text) if number is None else ("number", number))


def _number(text: str) -> float | None:
    """Return the finite number that a text is, or ``None``; whole numbers keep all their digits."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if isinstance(number, int) or math.isfinite(number) else None
    return None
