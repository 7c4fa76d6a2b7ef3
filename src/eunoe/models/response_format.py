"""How a vendor is asked for an answer in JSON: by a schema where it knows schemas, else in words (pure).

Sources: https://platform.openai.com/docs/guides/structured-outputs, https://api-docs.deepseek.com/guides/json_mode and
https://lmstudio.ai/docs/app/api/structured-output. Vendors refuse ``json_object`` when no message says "JSON".
"""

import re
from typing import Any, Final

import msgspec

from eunoe.models.json_fields import JsonObject, as_object, text_in
from eunoe.models.providers import Provider
from eunoe.models.settings import ResponseFormat

_ANY_OBJECT: Final[JsonObject] = {"name": "answer", "schema": {"type": "object"}}
"""``json_object`` for servers that know schemas only."""

_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME: Final = 64


def answer_schema(shape: ResponseFormat) -> JsonObject | None:
    """Return the schema that an answer must fit; ``None`` where there is none.

    Clients give it alone, or with its name as OpenAI's interface has it (``{"name": …, "schema": {…}}``).
    """
    if shape.type != "json_schema" or shape.json_schema is None:
        return None
    inner = as_object(shape.json_schema.get("schema"))
    return shape.json_schema if inner is None else inner


def named_schema(shape: ResponseFormat) -> JsonObject:
    """Return the schema with a name, as OpenAI's interface has it."""
    given = shape.json_schema or {}
    if as_object(given.get("schema")) is None:
        given = {"schema": given}
    if text_in(given, "name"):
        return given
    title = _NOT_IN_A_NAME.sub("_", text_in(given["schema"], "title"))[:_LONGEST_NAME]
    return {"name": title or "answer", **given}


def chat_format(shape: ResponseFormat | None, provider: Provider) -> JsonObject | None:
    """Return ``response_format`` of a chat completion, by a schema where that can be; ``None`` for plain text."""
    if shape is None or shape.type == "text":
        return None
    if shape.type == "json_schema" and provider.json_schemas:
        return {"type": "json_schema", "json_schema": named_schema(shape)}
    if provider.json_objects:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": _ANY_OBJECT} if provider.json_schemas else None


def with_format(system: str, shape: ResponseFormat | None, *, by_schema: bool) -> str:
    """Return a system text that says in words what the vendor is not held to by a schema."""
    if shape is None or shape.type == "text" or by_schema:
        return system
    told = "Answer with one JSON object and nothing else."
    schema: Any = answer_schema(shape)
    if schema is not None:
        told = (
            "Answer with JSON and nothing else: with data that fits this JSON Schema, and never with the schema "
            f"itself.\n{msgspec.json.encode(schema).decode()}"
        )
    return f"{system}\n\n{told}" if system else told
