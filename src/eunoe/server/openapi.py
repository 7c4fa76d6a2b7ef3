"""The OpenAPI document of a table of routes, from msgspec's JSON Schema of the types that the routes read."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from eunoe.server.reading import ID_PREFIXES
from eunoe.server.routing import Route
from eunoe.server.wire.errors import EXAMPLE_UUID
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import Nothing
from eunoe.version import __version__

_PARAMETER: Final = re.compile(r"{(?P<name>\w+)(?P<path>:path)?}")
_REF: Final = "#/components/schemas/{name}"


def document(table: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these routes."""
    forms = list(dict.fromkeys(form for line in table for form in (line.query, line.body)))
    schemas, components = msgspec.json.schema_components(forms, ref_template=_REF)
    by_form = dict(zip(forms, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for line in table:
        path = _PARAMETER.sub(lambda found: "{" + found["name"] + "}", line.path)
        paths.setdefault(path, {})[line.method.lower()] = _operation(line, by_form, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Eunoe",
            "version": __version__,
            "description": "A runtime for agents that stop and come back whole. The format is Letta v1's.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(line: Route, by_form: dict[type[Struct], dict[str, Any]], components: dict[str, Any]) -> dict[str, Any]:
    parameters = [_path_parameter(found["name"]) for found in _PARAMETER.finditer(line.path)]
    if line.query is not NoQuery:
        parameters.extend(_query_parameters(components[_name(by_form[line.query])]))
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{line.method.lower()}_{line.path.removeprefix('/v1/')}").strip("_"),
        "tags": [line.tag],
        "summary": line.summary,
        "description": (line.handler.__doc__ or line.summary).strip(),
        "parameters": parameters,
        "responses": {
            "200": {"description": line.answer, "content": {"application/json": {"schema": {}}}},
            "422": {"description": "The request cannot be read; detail names the field."},
        },
    }
    if ID_PREFIXES.keys() & {found["name"] for found in _PARAMETER.finditer(line.path)}:
        operation["responses"]["404"] = {"description": "There is no such object."}
    if line.body is not Nothing:
        content = {"application/json": {"schema": by_form[line.body]}}
        required = bool(components[_name(by_form[line.body])].get("required"))
        operation["requestBody"] = {"required": required, "content": content}
    return operation


def _path_parameter(name: str) -> dict[str, Any]:
    prefix = ID_PREFIXES.get(name)
    schema: dict[str, Any] = {"type": "string"}
    if prefix is not None:
        schema["examples"] = [f"{prefix}-{EXAMPLE_UUID}"]
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    required = schema.get("required", [])
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in properties.items()
    ]


def _name(reference: dict[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]
