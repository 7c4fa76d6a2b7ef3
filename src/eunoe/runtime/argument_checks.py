"""Whether arguments fit a tool's JSON Schema: its structure only (pure).

Checked are ``type``, ``enum``, ``const``, ``required``, ``properties``, ``additionalProperties: false``, ``items``,
``anyOf`` and ``oneOf``. What else a schema says (patterns, ranges, references) is the tool's own to refuse.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

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


def check_arguments(schema: ToolSchema, arguments: Mapping[str, Any]) -> str | None:
    """Return what is wrong with these arguments, for the person who wrote them, or ``None`` when they fit.

    Values are not repeated, only their kinds: they may be secret.
    """
    return _fault(schema.parameters, arguments, "")


def _fault(schema: Mapping[str, Any], value: Any, path: str) -> str | None:
    """Return the first fault of a value under a schema. ``path`` is where the value is; empty for the arguments."""
    faults = (_type_fault, _choice_fault, _branch_fault, _fields_fault, _items_fault)
    return next((found for fault in faults if (found := fault(schema, value, path))), None)


def _type_fault(schema: Mapping[str, Any], value: Any, path: str) -> str | None:
    wanted = schema.get("type")
    kinds: list[str] = [wanted] if isinstance(wanted, str) else list(wanted or ())
    if not kinds or any(_is(value, kind) for kind in kinds):
        return None
    actual = next((kind for kind in _TYPES if _is(value, kind)), type(value).__name__)
    return f"{path or 'the arguments'} must be {' or '.join(kinds)}, not {actual}"


def _choice_fault(schema: Mapping[str, Any], value: Any, path: str) -> str | None:
    choices: Sequence[Any] | None = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices is None or any(isinstance(value, bool) == isinstance(one, bool) and value == one for one in choices):
        return None
    return f"{path or 'the arguments'} must be one of {', '.join(map(repr, choices))}"


def _branch_fault(schema: Mapping[str, Any], value: Any, path: str) -> str | None:
    branches: Sequence[Mapping[str, Any]] = schema.get("anyOf") or schema.get("oneOf") or ()
    faults = [_fault(branch, value, path) for branch in branches]
    return " or ".join(dict.fromkeys(filter(None, faults))) if faults and all(faults) else None


def _fields_fault(schema: Mapping[str, Any], value: Any, path: str) -> str | None:
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    prefix = f"{path}." if path else ""
    missing = [f"{prefix}{name}" for name in schema.get("required", ()) if name not in fields]
    if missing:
        return f"{', '.join(missing)} missing"
    known: Mapping[str, Any] = schema.get("properties", {})
    strangers = [f"{prefix}{name}" for name in fields if name not in known]
    if strangers and schema.get("additionalProperties") is False:
        return f"{', '.join(strangers)} unknown; known are {', '.join(known) or 'none'}"
    faults = (_fault(known[name], fields[name], f"{prefix}{name}") for name in fields if name in known)
    return next(filter(None, faults), None)


def _items_fault(schema: Mapping[str, Any], value: Any, path: str) -> str | None:
    items = schema.get("items")
    if not isinstance(value, list | tuple) or not isinstance(items, Mapping):
        return None
    each = cast("Mapping[str, Any]", items)
    faults = (_fault(each, item, f"{path}[{index}]") for index, item in enumerate(cast("Sequence[Any]", value)))
    return next(filter(None, faults), None)


def _is(value: Any, kind: str) -> bool:
    """Say whether a value is of a JSON type. A type that JSON Schema does not know fits nothing."""
    if kind not in _TYPES or (isinstance(value, bool) and kind != "boolean"):
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])
