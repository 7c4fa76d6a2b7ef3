"""Requests in the dialect of OpenAI's chat completions, which most servers speak.

Source: https://platform.openai.com/docs/api-reference/chat, and what DeepSeek, vLLM, OpenRouter and Google add to it
(reasoning fields, ``reasoning_details``, ``extra_content``).
"""

from typing import Any

from eunoe.models.catalogue import facts_for
from eunoe.models.protocol import ModelRequest, ToolChoice
from eunoe.models.providers import Provider
from eunoe.models.response_format import chat_format, with_format
from eunoe.models.schemas import strict_schema
from eunoe.models.settings import Settings, read_settings
from eunoe.state.messages import ImagePart, Message, ReasoningPart, TextPart, ToolCallPart
from eunoe.state.tools import ToolSchema

PATH = "/chat/completions"


def build_body(request: ModelRequest, provider: Provider) -> dict[str, Any]:
    """Build the request body; same request, same order of keys.

    Raises ``InvalidInput`` when a model setting has a value that it cannot have.
    """
    settings = read_settings(request.settings)
    facts = facts_for(request.model.name)
    body: dict[str, Any] = {"model": request.model.name, "messages": _messages(request, provider, settings)}
    if request.tools:
        strict = bool(settings.strict) and provider.strict_schemas
        body["tools"] = [_tool(tool, strict=strict) for tool in request.tools]
        body["tool_choice"] = _tool_choice(request.tool_choice)
        if provider.parallel_tool_calls and not (
            request.parallel_tool_calls and settings.parallel_tool_calls is not False
        ):
            body["parallel_tool_calls"] = False
    body.update(_sampling(settings, provider, fixed_temperature=facts.fixed_temperature))
    body["stream"] = request.stream
    if request.stream and provider.include_usage:
        body["stream_options"] = {"include_usage": True}
    return body


def _sampling(settings: Settings, provider: Provider, *, fixed_temperature: bool) -> dict[str, Any]:
    body: dict[str, Any] = {}
    # Clients written for Letta name a temperature with every model; these vendors' reasoning models refuse any.
    if settings.temperature is not None and not fixed_temperature:
        body["temperature"] = settings.temperature
    if settings.max_output_tokens is not None:
        body[provider.max_tokens_field] = settings.max_output_tokens
    if settings.reasoning_effort is not None:
        body["reasoning_effort"] = settings.reasoning_effort
    if settings.verbosity is not None:
        body["verbosity"] = settings.verbosity
    shape = chat_format(settings.response_format, provider)
    if shape is not None:
        body["response_format"] = shape
    return body


def _messages(request: ModelRequest, provider: Provider, settings: Settings) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    shape = chat_format(settings.response_format, provider) or {}
    system = with_format(request.system, settings.response_format, by_schema="json_schema" in shape)
    if system:
        messages.append({"role": provider.system_role, "content": system})
    turn_from = max((i for i, message in enumerate(request.messages) if message.role in ("user", "summary")), default=0)
    for index, message in enumerate(request.messages):
        in_turn = index >= turn_from
        match message.role:
            case "system":
                if message.text:
                    messages.append({"role": provider.system_role, "content": message.text})
            case "user" | "summary":
                messages.extend(_user(message))
            case "assistant":
                messages.extend(_assistant(message, provider, in_turn=in_turn))
            case "tool":
                messages.extend(
                    {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.content}
                    for part in message.tool_returns
                )
            case "approval":
                continue
    return messages


def _user(message: Message) -> list[dict[str, Any]]:
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return [{"role": "user", "content": message.text}] if message.text else []
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            image = {"url": image_address(part)}
            if part.detail:
                image["detail"] = part.detail
            content.append({"type": "image_url", "image_url": image})
    return [{"role": "user", "content": content}]


def image_address(part: ImagePart) -> str:
    """Return the image's URL; data becomes a ``data:`` URL (RFC 2397)."""
    return part.url if part.url is not None else f"data:{part.media_type or 'image/png'};base64,{part.data or ''}"


def _assistant(message: Message, provider: Provider, *, in_turn: bool) -> list[dict[str, Any]]:
    calls = message.tool_calls
    if not message.text and not calls:
        return []  # endpoints refuse an assistant message that says and does nothing
    said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    said.update(_reasoning(message, provider, in_turn=in_turn))
    if calls:
        said["tool_calls"] = [_call(call, provider) for call in calls]
    return [said]


def _reasoning(message: Message, provider: Provider, *, in_turn: bool) -> dict[str, Any]:
    """Give back what this provider wants back; reasoning of any other provider stays out."""
    own = [part for part in message.parts if isinstance(part, ReasoningPart) and is_own(part.provider, provider)]
    details = [detail for part in own for detail in (part.provider or {}).get("reasoning_details", ())]
    if details:
        return {"reasoning_details": details}
    text = "".join(part.text for part in own)
    if text and in_turn and provider.replay_reasoning:
        return {"reasoning_content": text}
    return {}


def is_own(opaque: dict[str, Any] | None, provider: Provider) -> bool:
    """Say whether opaque data of a part was made by this provider."""
    return opaque is not None and opaque.get("provider") == provider.name


def _call(call: ToolCallPart, provider: Provider) -> dict[str, Any]:
    sent: dict[str, Any] = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments or "{}"},
    }
    if call.provider is not None and is_own(call.provider, provider) and "extra_content" in call.provider:
        sent["extra_content"] = call.provider["extra_content"]
    return sent


def _tool(tool: ToolSchema, *, strict: bool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    strict_parameters = strict_schema(tool.parameters) if strict else None
    if strict_parameters is not None:
        function["parameters"] = strict_parameters
        function["strict"] = True
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.mode == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    return choice.mode
