"""Tool schemas for vendors that can hold a model to them strictly."""

from typing import Any


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema in OpenAI's strict form, or ``None`` when that would change what it means.

    Strict form wants each object to require all of its properties and to forbid others; a schema with optional
    properties has no strict form that means the same.
    """
    if schema.get("type") == "array":
        items = strict_schema(schema.get("items", {}))
        return None if items is None else {**schema, "items": items}
    if schema.get("type") != "object":
        return None if {"anyOf", "oneOf", "allOf", "$ref"} & schema.keys() else schema
    properties: dict[str, Any] = schema.get("properties", {})
    if set(schema.get("required", ())) != set(properties) or schema.get("additionalProperties"):
        return None
    strict: dict[str, Any] = {}
    for name, inner in properties.items():
        converted = strict_schema(inner)
        if converted is None:
            return None
        strict[name] = converted
    return {**schema, "properties": strict, "required": list(properties), "additionalProperties": False}
