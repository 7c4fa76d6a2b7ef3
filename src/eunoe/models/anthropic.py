"""Requests in the dialect of Anthropic's Messages API.

Source: https://docs.anthropic.com/en/api/messages, and its pages on extended thinking, prompt caching and effort.
"""

import hashlib
import re
from typing import Any, Final

from eunoe.models.catalogue import facts_for
from eunoe.models.json_fields import parse_object
from eunoe.models.openai_chat import is_own
from eunoe.models.protocol import ModelRequest
from eunoe.models.providers import Provider
from eunoe.models.response_format import answer_schema, with_format
from eunoe.models.settings import Settings, read_settings
from eunoe.state.messages import ImagePart, Message, Part, ReasoningPart, TextPart, ToolCallPart

PATH: Final = "/messages"
VERSION: Final = "2023-06-01"
"""The API version that is named in a header of every request."""

DEFAULT_MAX_TOKENS: Final = 8_192
"""Length of an answer in tokens when neither the user nor the catalogue names one; this API demands a figure."""
MOST_DEFAULT_TOKENS: Final = 32_000
"""The most that is asked for unless the user names more: the vendor may count it against the window."""
DEFAULT_THINKING_BUDGET: Final = 1_024
"""Tokens for thinking that is enabled without a budget (the API's least)."""

_TOOL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CACHE: Final = {"type": "ephemeral"}
_UNSEEN: Final = "(The messages before this are no longer in view.)"
"""Stands first when the window begins with the assistant: this API wants the user to speak first."""


def build_body(request: ModelRequest, provider: Provider) -> dict[str, Any]:
    """Build the request body; same request, same order of keys.

    Raises ``InvalidInput`` when a model setting has a value that it cannot have.
    """
    settings = read_settings(request.settings)
    thinking = _thinking(request, settings, provider)
    body: dict[str, Any] = {"model": request.model.name, "max_tokens": _max_tokens(request, settings, thinking)}
    output = _output_config(settings)
    system = with_format(request.system, settings.response_format, by_schema="format" in output)
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": _CACHE}]
    body["messages"] = _messages(request.messages, provider)
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        body["tool_choice"] = _tool_choice(request, settings)
    if thinking is not None:
        body["thinking"] = thinking
    elif settings.temperature is not None:
        body["temperature"] = settings.temperature  # with thinking the API takes no other than its own
    if output:
        body["output_config"] = output
    body["stream"] = request.stream
    return body


def _thinking(request: ModelRequest, settings: Settings, provider: Provider) -> dict[str, Any] | None:
    """Return the thinking option, or ``None`` for an answer without.

    The API refuses thinking together with a forced tool, and in the middle of a chain of tool calls that began
    without (or with another vendor's) thinking.
    """
    chosen = settings.thinking
    if chosen is None or chosen.type == "disabled" or request.tool_choice.mode in ("required", "tool"):
        return None
    if request.messages and request.messages[-1].role == "tool":
        asked = next((message for message in reversed(request.messages) if message.role == "assistant"), None)
        if asked is not None and not any(_is_replayed(part, provider) for part in asked.parts):
            return None
    if chosen.type == "adaptive":
        return {"type": "adaptive"}
    return {"type": "enabled", "budget_tokens": chosen.budget_tokens or DEFAULT_THINKING_BUDGET}


def _max_tokens(request: ModelRequest, settings: Settings, thinking: dict[str, Any] | None) -> int:
    known = facts_for(request.model.name).max_output_tokens or DEFAULT_MAX_TOKENS
    most = settings.max_output_tokens or min(known, MOST_DEFAULT_TOKENS)
    budget: int = (thinking or {}).get("budget_tokens", 0)
    # The figure includes the thinking and must be greater than its budget; the answer keeps its room.
    return most if most > budget else most + budget


def _output_config(settings: Settings) -> dict[str, Any]:
    output: dict[str, Any] = {}
    if settings.effort is not None:
        output["effort"] = settings.effort
    shape = settings.response_format
    schema = answer_schema(shape) if shape is not None else None
    if schema is not None:
        output["format"] = {"type": "json_schema", "schema": schema}
    return output


def _tool_choice(request: ModelRequest, settings: Settings) -> dict[str, Any]:
    kind = {"auto": "auto", "required": "any", "none": "none", "tool": "tool"}[request.tool_choice.mode]
    choice: dict[str, Any] = {"type": kind}
    if kind == "tool":
        choice["name"] = request.tool_choice.name
    if kind != "none" and not (request.parallel_tool_calls and settings.parallel_tool_calls is not False):
        choice["disable_parallel_tool_use"] = True
    return choice


def _messages(messages: tuple[Message, ...], provider: Provider) -> list[dict[str, Any]]:
    """Translate the window; neighbours of one role become one message, as the API's turns want it."""
    sent: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message, provider)
        if not blocks:
            continue
        if sent and sent[-1]["role"] == role:
            sent[-1]["content"].extend(blocks)
        else:
            sent.append({"role": role, "content": blocks})
    if not sent or sent[0]["role"] == "assistant":
        sent.insert(0, {"role": "user", "content": [{"type": "text", "text": _UNSEEN}]})
    _mark_for_cache(sent[-1]["content"])
    return sent


def _mark_for_cache(blocks: list[dict[str, Any]]) -> None:
    for index in range(len(blocks) - 1, -1, -1):
        if blocks[index]["type"] not in ("thinking", "redacted_thinking"):  # these take no mark
            blocks[index] = {**blocks[index], "cache_control": _CACHE}
            return


def _blocks(message: Message, provider: Provider) -> list[dict[str, Any]]:
    if message.role == "approval":
        return []
    if message.role == "tool":
        return [
            {
                "type": "tool_result",
                "tool_use_id": _tool_id(part.tool_call_id),
                "content": part.content,
                **({"is_error": True} if part.status == "error" else {}),
            }
            for part in message.tool_returns
        ]
    if message.role == "assistant" and not message.text.strip() and not message.tool_calls:
        return []  # reasoning alone is no turn
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text.strip():  # blank text blocks are refused
            blocks.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            blocks.append({"type": "image", "source": _image(part)})
        elif isinstance(part, ToolCallPart):
            blocks.append({"type": "tool_use", "id": _tool_id(part.id), "name": part.name, "input": _input(part)})
        elif isinstance(part, ReasoningPart) and _is_replayed(part, provider):
            blocks.append(_reasoning(part))
    return blocks


def _is_replayed(part: Part, provider: Provider) -> bool:
    if not isinstance(part, ReasoningPart) or not is_own(part.provider, provider):
        return False
    return part.signature is not None or part.redacted is not None


def _reasoning(part: ReasoningPart) -> dict[str, Any]:
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _image(part: ImagePart) -> dict[str, Any]:
    if part.url is not None:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type or "image/png", "data": part.data or ""}


def _tool_id(call_id: str) -> str:
    """Return an id in the letters that the API takes; ids of other vendors may have others."""
    if _TOOL_ID.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"


def _input(part: ToolCallPart) -> dict[str, Any]:
    """Return the arguments as the object that the API wants.

    Text that is no object (the model erred, and the tool's return says so) is shown to the model as it was.
    """
    value = parse_object(part.arguments or "{}")
    return {"invalid_arguments": part.arguments} if value is None else value
