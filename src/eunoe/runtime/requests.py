"""The request of a step: built from a turn, recorded in content-addressed parts, and built again from them."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from eunoe.models.protocol import ModelRequest, Payload
from eunoe.runtime.calls import history
from eunoe.runtime.rules import Offer, offer, parallel_allowed
from eunoe.runtime.turn import Turn
from eunoe.state.messages import Message
from eunoe.state.runs import StepRequest
from eunoe.state.tools import Tool, ToolSchema
from eunoe.store.texts import hash_of

_COMMIT_DIGITS: Final = 40
"""A memory revision begins with its commit; what may follow tells of diagnostics or of a conversation's own blocks."""

_EMPTY_PARAMETERS: Final[dict[str, Any]] = {"type": "object", "properties": {}}


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """A step's request as it is stored: references, and the texts that they address, by hash."""

    request: StepRequest
    texts: dict[str, str]


def schema_of(tool: Tool) -> ToolSchema:
    """Return what a model is told of a stored tool."""
    schema = tool.json_schema
    return ToolSchema(
        name=tool.name,
        description=schema.get("description") or tool.description or "",
        parameters=schema.get("parameters") or _EMPTY_PARAMETERS,
    )


def offered_tools(tools: Sequence[Tool], client_tools: tuple[ToolSchema, ...]) -> tuple[ToolSchema, ...]:
    """Return the tools that a model can be offered: the agent's, then the client's, which win over the same name."""
    client = {tool.name for tool in client_tools}
    return (*(schema_of(tool) for tool in tools if tool.name not in client), *client_tools)


def current_offer(turn: Turn) -> Offer:
    """Return what the rules let the model call now."""
    names = [tool.name for tool in turn.offered]
    rules = turn.state.agent.tool_rules
    return offer(rules, names, history(turn.messages) if rules else ())


def turn_request(turn: Turn) -> ModelRequest:
    """Return the next request of a turn."""
    allowed = current_offer(turn)
    settings = {**turn.state.agent.model_settings, **(turn.conversation.model_settings or {})}
    if turn.state.agent.response_format and "response_format" not in settings:
        settings["response_format"] = turn.state.agent.response_format
    return ModelRequest(
        model=turn.model,
        system=turn.system,
        messages=tuple(turn.messages),
        tools=tuple(tool for tool in turn.offered if tool.name in allowed.names),
        tool_choice=allowed.choice,
        settings=settings,
        parallel_tool_calls=settings.get("parallel_tool_calls") is not False
        and parallel_allowed(turn.state.agent.tool_rules),
    )


def record_request(turn: Turn, request: ModelRequest, payload: Payload) -> RecordedRequest:
    """Return what must be stored so that exactly these bytes can be built again."""
    tools = msgspec.json.encode(request.tools).decode()
    options = msgspec.json.encode(structs.replace(request, system="", messages=(), tools=())).decode()
    system_hash, tools_hash, options_hash = map(hash_of, (request.system, tools, options))
    summary = request.messages[0] if request.messages and request.messages[0].role == "summary" else None
    tail = request.messages[1:] if summary else request.messages
    return RecordedRequest(
        request=StepRequest(
            dialect=turn.model.dialect,
            url=payload.url,
            system_hash=system_hash,
            tools_hash=tools_hash,
            options_hash=options_hash,
            summary_message_id=summary.id if summary else None,
            from_position=tail[0].position if tail else 0,
            to_position=tail[-1].position if tail else 0,
            to_seq=max((message.seq for message in request.messages), default=0),
            payload_hash=hashlib.sha256(payload.body).hexdigest(),
            memory_commit=_memory_commit(turn),
        ),
        texts={system_hash: request.system, tools_hash: tools, options_hash: options},
    )


def _memory_commit(turn: Turn) -> str | None:
    compiled = turn.conversation.compiled
    if turn.state.memory is None or compiled is None:
        return None
    told = compiled.told_revision or compiled.memory_revision
    return told[:_COMMIT_DIGITS] if told else None


def rebuild_request(system: str, tools: str, options: str, messages: Sequence[Message]) -> ModelRequest:
    """Build a recorded request again from its stored texts and its messages."""
    return structs.replace(
        msgspec.json.decode(options, type=ModelRequest),
        system=system,
        tools=msgspec.json.decode(tools, type=tuple[ToolSchema, ...]),
        messages=tuple(messages),
    )
