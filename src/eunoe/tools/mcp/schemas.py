"""Whether what a server tells of its tools can be used: judged tool by tool, so that a bad one spoils no other.

Imported with the library, whose schema checker it uses.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from eunoe.state.mcp import McpProblem
from eunoe.tools.mcp.offer import OfferedTool, ToolList

MOST_TOOLS: Final = 1_000
"""Tools of one server that are looked at."""

LONGEST_SCHEMA: Final = 100_000
"""Characters of a schema, which every request to a model would carry."""

_LONGEST_DETAIL: Final = 200


def judge_tools(listed: Sequence[Any]) -> ToolList:
    """Return which of the listed tools can be taken, in their order, and why the others cannot."""
    tools: dict[str, OfferedTool] = {}
    problems: list[McpProblem] = []
    for number, told in enumerate(listed[:MOST_TOOLS], start=1):
        name = _name(told)
        reasons = _faults(told, name, tools)
        if reasons:
            problems.append(McpProblem(tool=name or f"(tool number {number})", reasons=reasons))
        elif name:
            tools[name] = _taken(name, told)
    if len(listed) > MOST_TOOLS:
        reason = f"the server offers {len(listed)} tools, and at most {MOST_TOOLS} are taken"
        problems.append(McpProblem(tool="(the rest)", reasons=(reason,)))
    return ToolList(tools=tuple(tools.values()), problems=tuple(problems))


def _name(told: Any) -> str | None:
    name = cast("Mapping[str, Any]", told).get("name") if isinstance(told, Mapping) else None
    return name if isinstance(name, str) and name.strip() and "\x00" not in name else None


def _faults(told: Any, name: str | None, before: Mapping[str, OfferedTool]) -> tuple[str, ...]:
    if not isinstance(told, Mapping):
        return ("it is not a JSON object",)
    fields = cast("Mapping[str, Any]", told)
    faults: list[str] = []
    if name is None:
        faults.append("it has no name")
    elif name in before:
        faults.append("the server names it twice")
    if not isinstance(fields.get("description") or "", str):
        faults.append("its description is not a text")
    faults += _schema_faults(fields.get("inputSchema"))
    return tuple(faults)


def _schema_faults(schema: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield "it has no inputSchema" if schema is None else "its inputSchema is not a JSON object"
        return
    form = cast("dict[str, Any]", schema)
    if form.get("type") != "object":
        yield f"its inputSchema is not of type object but {form.get('type')!r}"
        return
    try:
        size = len(msgspec.json.encode(form))
        validator_for(form).check_schema(form)
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path)) or "inputSchema"
        yield f"its inputSchema is no JSON Schema: {place}: {error.message[:_LONGEST_DETAIL]}"
        return
    except RecursionError:
        yield "its inputSchema is nested too deeply"
        return
    if size > LONGEST_SCHEMA:
        yield f"its inputSchema has {size} characters, and at most {LONGEST_SCHEMA} are taken"


def _taken(name: str, told: Mapping[str, Any]) -> OfferedTool:
    schema: dict[str, Any] = told["inputSchema"]
    reasons = tuple(_loose(schema, "inputSchema"))
    hints = told.get("annotations")
    return OfferedTool(
        name=name,
        description=told.get("description") or "",
        parameters=schema if "properties" in schema else {**schema, "properties": {}},
        strictness="NON_STRICT_ONLY" if reasons else "STRICT_COMPLIANT",
        reasons=reasons,
        reads_only=isinstance(hints, Mapping) and cast("Mapping[str, Any]", hints).get("readOnlyHint") is True,
    )


def _loose(schema: Any, place: str) -> Iterator[str]:
    """Tell where a schema lets a model give what it does not name, or leave out what it names."""
    if not isinstance(schema, Mapping):
        return
    form = cast("Mapping[str, Any]", schema)
    fields = form.get("properties")
    if form.get("type") == "object" or isinstance(fields, Mapping):
        known: Mapping[str, Any] = cast("Mapping[str, Any]", fields if isinstance(fields, Mapping) else {})
        if form.get("additionalProperties") is not False:
            yield f"{place}: additionalProperties is not false"
        optional = [name for name in known if name not in (form.get("required") or ())]
        if optional:
            yield f"{place}: not required: {', '.join(optional)}"
        for name, below in known.items():
            yield from _loose(below, f"{place}.{name}")
    yield from _loose(form.get("items"), f"{place}[]")
    for word in ("anyOf", "oneOf", "allOf"):
        for number, below in enumerate(form.get(word) or ()):
            yield from _loose(below, f"{place}.{word}[{number}]")
