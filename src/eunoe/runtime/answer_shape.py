"""Whether an answer has the form that ``response_format`` asks for, and what follows when it has not (pure).

A model that is shown a schema in words may give the schema back instead of data, which is a JSON object too.
"""

from typing import Any, Final

import msgspec

from eunoe.models.json_fields import JsonObject, as_object, object_in
from eunoe.models.protocol import ModelRequest
from eunoe.models.response_format import answer_schema
from eunoe.models.settings import read_settings
from eunoe.runtime.argument_checks import structure_fault
from eunoe.runtime.rules import Nudge
from eunoe.state.runs import RunError

_ECHO: Final = "it is the JSON Schema itself, and no data that fits it"


def answer_fault(request: ModelRequest, text: str) -> str | None:
    """Return what is wrong with the form of an answer to this request, or ``None`` when it is as asked.

    Raises ``InvalidInput`` when a model setting has a value that it cannot have.
    """
    shape = read_settings(request.settings).response_format
    if shape is None or shape.type == "text":
        return None
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"it is not JSON ({error})"
    schema = answer_schema(shape)
    if schema is None:
        if as_object(value) is None:
            return structure_fault({"type": "object"}, value, "the answer")
        return _ECHO if _repeats_a_schema(value, request) else None
    if _is_schema(value, schema):
        return _ECHO
    return structure_fault(schema, value, "the answer")


def _is_schema(value: Any, schema: JsonObject) -> bool:
    """Say whether a value is this schema, alone or with its name, as far as the fields that it describes."""
    given = as_object(value)
    if given is None:
        return False
    fields = object_in(schema, "properties")
    if "properties" in fields or "schema" in fields:
        return False  # a schema of schemas: such data is what was asked for
    inner = object_in(given, "schema") or given
    return inner == schema or (bool(fields) and object_in(inner, "properties").keys() == fields.keys())


def _repeats_a_schema(value: JsonObject, request: ModelRequest) -> bool:
    """Say whether an object is a schema whose fields stand in the request: there it was told, not asked for."""
    fields = object_in(value, "properties")
    if not fields or value.get("type") != "object":
        return False
    asked = "\n".join((request.system, *(message.text for message in request.messages)))
    return all(f'"{name}"' in asked for name in ("properties", *fields))


def ask_again(fault: str) -> Nudge:
    """Return what tells the model why its answer cannot be used."""
    text = (
        f"[This is an automated system message hidden from the user] Your answer cannot be used: {fault}. "
        "Answer again in the form that was asked for: JSON data and nothing else, no code fence and no schema."
    )
    return Nudge(text=text, missing=())


def describe_fault(fault: str) -> RunError:
    """Return how a run ends whose model does not give its answer the form that was asked for."""
    return RunError(
        type="llm_invalid_format",
        message=f"The model's answer does not have the form that response_format asks for: {fault}.",
        detail="The answer is kept in the conversation. Ask again, simplify the schema, or choose another model.",
        status=502,
    )
