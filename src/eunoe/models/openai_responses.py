"""Requests in the dialect of OpenAI's Responses API, without any state at the vendor (``store: false``).

Source: https://platform.openai.com/docs/api-reference/responses. Reasoning comes back encrypted and is replayed.
"""

from typing import Any

from eunoe.models.catalogue import facts_for
from eunoe.models.openai_chat import image_address, is_own
from eunoe.models.protocol import ModelRequest, ToolChoice
from eunoe.models.providers import Provider
from eunoe.models.response_format import named_schema, with_format
from eunoe.models.schemas import strict_schema
from eunoe.models.settings import Settings, read_settings
from eunoe.state.messages import ImagePart, Message, ReasoningPart, TextPart, ToolCallPart
from eunoe.state.tools import ToolSchema

PATH = "/responses"


def build_body(request: ModelRequest, provider: Provider) -> dict[str, Any]:
    """Build the request body; same request, same order of keys.

    Raises ``InvalidInput`` when a model setting has a value that it cannot have.
    """
    settings = read_settings(request.settings)
    facts = facts_for(request.model.name)
    body: dict[str, Any] = {"model": request.model.name}
    shape = settings.response_format
    system = with_format(request.system, shape, by_schema=shape is not None and shape.type == "json_schema")
    if system:
        body["instructions"] = system
    body["input"] = [item for message in request.messages for item in _items(message, provider)]
    if request.tools:
        strict = bool(settings.strict) and provider.strict_schemas
        body["tools"] = [_tool(tool, strict=strict) for tool in request.tools]
        body["tool_choice"] = _tool_choice(request.tool_choice)
        if not (request.parallel_tool_calls and settings.parallel_tool_calls is not False):
            body["parallel_tool_calls"] = False
    if facts.reasoning or settings.reasoning_effort is not None:
        effort = {} if settings.reasoning_effort is None else {"effort": settings.reasoning_effort}
        body["reasoning"] = {**effort, "summary": "auto"}
        body["include"] = ["reasoning.encrypted_content"]
    # Clients written for Letta name a temperature with every model; reasoning models refuse any.
    if settings.temperature is not None and not facts.fixed_temperature:
        body["temperature"] = settings.temperature
    if settings.max_output_tokens is not None:
        body["max_output_tokens"] = settings.max_output_tokens
    text = _text_options(settings)
    if text:
        body["text"] = text
    body["store"] = False
    body["stream"] = request.stream
    return body


def _text_options(settings: Settings) -> dict[str, Any]:
    options: dict[str, Any] = {}
    shape = settings.response_format
    if shape is not None and shape.type == "json_object":
        options["format"] = {"type": "json_object"}
    elif shape is not None and shape.type == "json_schema":
        options["format"] = {"type": "json_schema", **named_schema(shape)}
    if settings.verbosity is not None:
        options["verbosity"] = settings.verbosity
    return options


def _items(message: Message, provider: Provider) -> list[dict[str, Any]]:
    match message.role:
        case "system":
            return [_said("developer", "input_text", message.text)] if message.text else []
        case "user" | "summary":
            return _user(message)
        case "assistant":
            return _assistant(message, provider)
        case "tool":
            return [
                {"type": "function_call_output", "call_id": part.tool_call_id, "output": part.content}
                for part in message.tool_returns
            ]
        case "approval":
            return []


def _said(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _user(message: Message) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, ImagePart):
            image = {"type": "input_image", "image_url": image_address(part)}
            content.append({**image, "detail": part.detail} if part.detail else image)
    return [{"type": "message", "role": "user", "content": content}] if content else []


def _assistant(message: Message, provider: Provider) -> list[dict[str, Any]]:
    if not message.text and not message.tool_calls:
        return []  # a reasoning item without what followed from it is refused
    items: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            items.append(_said("assistant", "output_text", part.text))
        elif isinstance(part, ToolCallPart):
            items.append(
                {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": part.arguments or "{}"}
            )
        elif isinstance(part, ReasoningPart):
            opaque = part.provider
            # Without the encrypted content the vendor would look for the item in its store, where it is not.
            if opaque is not None and is_own(opaque, provider) and opaque.get("encrypted_content"):
                items.append(
                    {
                        "type": "reasoning",
                        "id": opaque.get("id"),
                        "summary": opaque.get("summary", []),
                        "encrypted_content": opaque["encrypted_content"],
                    }
                )
    return items


def _tool(tool: ToolSchema, *, strict: bool) -> dict[str, Any]:
    strict_parameters = strict_schema(tool.parameters) if strict else None
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": strict_parameters or tool.parameters,
        # This API holds models to a schema unless told not to, and refuses schemas that are not in strict form.
        "strict": strict_parameters is not None,
    }


def _tool_choice(choice: ToolChoice) -> str | dict[str, Any]:
    return {"type": "function", "name": choice.name} if choice.mode == "tool" else choice.mode
