"""Fields of JSON that others wrote, read with their types checked: a field of another type counts as absent."""

from typing import Any, Final, cast

import msgspec

JsonObject = dict[str, Any]

_LARGEST: Final = 2**53 - 1
"""The largest whole number that every JSON reader takes exactly (RFC 8259, section 6)."""


def as_object(value: Any) -> JsonObject | None:
    """Return the value if it is a JSON object."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def parse_object(data: str | bytes) -> JsonObject | None:
    """Decode a JSON object; ``None`` when the text is none."""
    try:
        return as_object(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def object_in(fields: JsonObject, key: str) -> JsonObject:
    """Return the object in this field; empty when there is none."""
    return as_object(fields.get(key)) or {}


def objects_in(fields: JsonObject, key: str) -> list[JsonObject]:
    """Return the objects in the list in this field."""
    value = fields.get(key)
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [found for found in map(as_object, items) if found is not None]


def text_in(fields: JsonObject, key: str) -> str:
    """Return the text in this field; empty when there is none."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def int_in(fields: JsonObject, key: str) -> int | None:
    """Return the whole number in this field. All that is read are counts: one that cannot be stored as such is none."""
    value = fields.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None
