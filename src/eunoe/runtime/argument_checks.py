"""Whether a value fits a JSON Schema: its structure only (pure). For arguments of tools and answers of models.

Checked are ``type``, ``enum``, ``const``, ``required``, ``properties``, ``additionalProperties: false``, ``items``,
``anyOf`` and ``oneOf``. What else a schema says (patterns, ranges, references) is for others to refuse: the tool
itself, or the vendor that holds its model to the schema. A part of a schema that is no schema says nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct, structs

from eunoe.state.tools import ToolSchema

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": Mapping,
    "array": (list, tuple),
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


class _Place(Struct, frozen=True):
    """Where a value is: what the whole is called, and the path in it (empty for the whole)."""

    whole: str
    path: str = ""

    def __str__(self) -> str:
        return self.path or self.whole

    def field(self, name: str) -> "_Place":
        return structs.replace(self, path=f"{self.path}.{name}" if self.path else name)

    def item(self, index: int) -> "_Place":
        return structs.replace(self, path=f"{self.path}[{index}]")


def check_arguments(schema: ToolSchema, arguments: Mapping[str, Any]) -> str | None:
    """Return what is wrong with these arguments, for the person who wrote them, or ``None`` when they fit.

    Values are not repeated, only their kinds: they may be secret.
    """
    return structure_fault(schema.parameters, arguments, "the arguments")


def structure_fault(schema: Any, value: Any, whole: str) -> str | None:
    """Return the first fault of a value under a schema, or ``None`` when it fits. ``whole`` is what it is called."""
    return _fault(schema, value, _Place(whole))


def _fault(schema: Any, value: Any, place: _Place) -> str | None:
    if not isinstance(schema, Mapping):
        return None
    known = cast("Mapping[str, Any]", schema)
    faults = (_type_fault, _choice_fault, _branch_fault, _fields_fault, _items_fault)
    return next((found for fault in faults if (found := fault(known, value, place))), None)


def _list(schema: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = schema.get(key)
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


def _type_fault(schema: Mapping[str, Any], value: Any, place: _Place) -> str | None:
    wanted = schema.get("type")
    kinds = [wanted] if isinstance(wanted, str) else [kind for kind in _list(schema, "type") if isinstance(kind, str)]
    if not kinds or any(_is(value, kind) for kind in kinds):
        return None
    actual = next((kind for kind in _TYPES if _is(value, kind)), type(value).__name__)
    return f"{place} must be {' or '.join(kinds)}, not {actual}"


def _choice_fault(schema: Mapping[str, Any], value: Any, place: _Place) -> str | None:
    choices = [schema["const"]] if "const" in schema else _list(schema, "enum")
    if not choices or any(isinstance(value, bool) == isinstance(one, bool) and value == one for one in choices):
        return None
    return f"{place} must be one of {', '.join(map(repr, choices))}"


def _branch_fault(schema: Mapping[str, Any], value: Any, place: _Place) -> str | None:
    branches = _list(schema, "anyOf") or _list(schema, "oneOf")
    faults = [_fault(branch, value, place) for branch in branches]
    return " or ".join(dict.fromkeys(filter(None, faults))) if faults and all(faults) else None


def _fields_fault(schema: Mapping[str, Any], value: Any, place: _Place) -> str | None:
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    required = [name for name in _list(schema, "required") if isinstance(name, str)]
    missing = [str(place.field(name)) for name in required if name not in fields]
    if missing:
        return f"{', '.join(missing)} missing"
    properties = schema.get("properties")
    known: Mapping[str, Any] = cast("Mapping[str, Any]", properties) if isinstance(properties, Mapping) else {}
    strangers = [str(place.field(name)) for name in fields if name not in known]
    if strangers and schema.get("additionalProperties") is False:
        return f"{', '.join(strangers)} unknown; known are {', '.join(known) or 'none'}"
    faults = (_fault(known[name], fields[name], place.field(name)) for name in fields if name in known)
    return next(filter(None, faults), None)


def _items_fault(schema: Mapping[str, Any], value: Any, place: _Place) -> str | None:
    if not isinstance(value, list | tuple):
        return None
    items = cast("Sequence[Any]", value)
    faults = (_fault(schema.get("items"), item, place.item(index)) for index, item in enumerate(items))
    return next(filter(None, faults), None)


def _is(value: Any, kind: str) -> bool:
    """Say whether a value is of a JSON type. A type that JSON Schema does not know fits nothing."""
    if kind not in _TYPES or (isinstance(value, bool) and kind != "boolean"):
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])
