"""Checks of providers and models: they ask real questions, and look at what comes back."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from eunoe.cli.checks import Check, bounded, failed, ok, warning
from eunoe.models.catalogue import facts_for
from eunoe.models.discovery import ask
from eunoe.models.protocol import Completed, Failed, ModelInfo, ModelRequest, TextPiece
from eunoe.models.providers import Provider
from eunoe.models.registry import ModelRegistry
from eunoe.prompt.tokens import tokens_of_bytes
from eunoe.state.errors import ModelError
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, TextPart, ToolCallPart
from eunoe.state.tools import ToolSchema

_WORD: Final = "lighthouse"
_SYSTEM: Final = "You help to check whether a program can talk with you. Do exactly what you are asked, briefly."
_QUESTION: Final = "Count from one to ten in words, on one line."
_TOOL: Final = ToolSchema(
    name="report_word",
    description="Report a word.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
_CALL: Final = f'Call the tool {_TOOL.name} with the word "{_WORD}".'
_SCRIPT: Final = f'TOOL:{_TOOL.name} {{"word": "{_WORD}"}}'
"""What the scripted model is told, which reads directives and no English."""

_FILL: Final = 0.75
"""How much of the window a probe fills."""
_FILLER: Final = "The tide comes in and the tide goes out. "
_FILLER_TOKENS: Final = 10
_CUT: Final = 0.5
"""Share of the expected tokens below which a prompt was cut; tokenizers differ by less than that."""

_NAMED: Final = 3
"""How many models a check names."""


class Listing(Struct, frozen=True, kw_only=True):
    """What came of asking a provider for its models: the check, and the handle of the first model."""

    check: Check
    first: str | None = None


async def provider_check(models: ModelRegistry, provider: Provider, seconds: float) -> Listing:
    """Check that a provider's endpoint is reachable, that it takes the key, and which models it has."""
    names: list[str] = []

    async def look() -> Check:
        names.extend(sorted(await ask(models, provider)))
        if not names:
            return warning(provider.name, "reachable, and names no model", "Load a model, or name one with --model.")
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return ok(provider.name, f"reachable; has {', '.join(names[:_NAMED])}{more}")

    check = await bounded(provider.name, seconds, look)
    return Listing(check=check, first=f"{provider.name}/{names[0]}" if names else None)


async def model_checks(models: ModelRegistry, handle: str, seconds: float, *, probe: bool) -> AsyncIterator[Check]:
    """Check one model: that it is there, its window, an answer, streaming, and a tool call."""
    found: list[ModelInfo] = []

    async def look() -> Check:
        found.append(await models.find(handle))
        return _window(found[0])

    window = await bounded(f"{handle}: window", seconds, look)
    yield window
    if not found:
        return
    model = found[0]
    answered = await bounded(f"{handle}: answer", seconds, partial(_answer, models, model))
    yield answered
    if answered.status == "failed":
        return
    yield await bounded(f"{handle}: tool call", seconds, partial(_tool_call, models, model))
    if probe:
        yield await bounded(f"{handle}: probe", seconds, partial(_probe, models, model))


def _window(model: ModelInfo) -> Check:
    name = f"{model.handle}: window"
    known = facts_for(model.name).context_window
    if known and model.context_window < known:
        return warning(
            name,
            f"{model.context_window} tokens as the endpoint runs it, of {known} that the model can have",
            "Raise the window in the server's settings if the machine has the memory for it.",
        )
    return ok(name, f"{model.context_window} tokens")


def _request(model: ModelInfo, text: str, *, tool: ToolSchema | None = None) -> ModelRequest:
    message = Message(
        id=new_id("message"),
        agent_id="",
        conversation_id="",
        role="user",
        parts=(TextPart(text=text),),
        created_at=datetime.now(UTC),
    )
    return ModelRequest(
        model=model,
        system=_SYSTEM,
        messages=(message,),
        tools=(tool,) if tool else (),
    )


async def _answer_to(models: ModelRegistry, request: ModelRequest) -> tuple[Completed, int]:
    """Return the answer and in how many pieces its text came. Raises ``ModelError``."""
    pieces = 0
    async with aclosing(models.stream(request, models.payload(request))) as events:
        async for event in events:
            match event:
                case TextPiece():
                    pieces += 1
                case Completed():
                    return event, pieces
                case Failed(error=error):
                    raise error
                case _:
                    pass
    raise ModelError("interrupted", "The stream ended without an end.", provider=request.model.provider)


def _text(answer: Completed) -> str:
    return "".join(part.text for part in answer.parts if isinstance(part, TextPart))


async def _answer(models: ModelRegistry, model: ModelInfo) -> Check:
    name = f"{model.handle}: answer"
    answer, pieces = await _answer_to(models, _request(model, _QUESTION))
    if not _text(answer).strip():
        return failed(name, f"no text (it ended with {answer.finish_reason})", "Use another model for agents.")
    if pieces < 2:
        return warning(name, "came in one piece", "Streaming does not work: look for a proxy that holds answers back.")
    return ok(name, f"streamed in {pieces} pieces")


async def _tool_call(models: ModelRegistry, model: ModelInfo) -> Check:
    name = f"{model.handle}: tool call"
    advice = "An agent keeps its memory by calling tools: choose another model for agents."
    if not model.supports_tools:
        return warning(name, "the endpoint says that this model calls no tools", advice)
    asked = _SCRIPT if model.dialect == "scripted" else _CALL
    answer, _ = await _answer_to(models, _request(model, asked, tool=_TOOL))
    call = next((part for part in answer.parts if isinstance(part, ToolCallPart)), None)
    if call is None:
        return warning(name, "it was asked to call a tool, and did not", advice)
    try:
        msgspec.json.decode(call.arguments, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return warning(name, "it called the tool with arguments that are no JSON object", advice)
    return ok(name, f"called {call.name} with {call.arguments}")


async def _probe(models: ModelRegistry, model: ModelInfo) -> Check:
    name = f"{model.handle}: probe"
    filler = _FILLER * int(model.context_window * _FILL / _FILLER_TOKENS)
    text = f"The secret word is {_WORD}.\n\n{filler}\n\nWhat is the secret word? Answer with that word alone."
    answer, _ = await _answer_to(models, _request(model, text))
    read = answer.usage.prompt_tokens
    expected = tokens_of_bytes(len(text.encode()))
    if _WORD in _text(answer).lower():
        return ok(name, f"a prompt of {read or expected} tokens was read from its beginning")
    if read and read < expected * _CUT:
        return failed(
            name,
            f"the endpoint read {read} tokens of about {expected}: it cuts long prompts without a word",
            "Run the model with a larger window (Ollama: OLLAMA_CONTEXT_LENGTH), or set the agent's context window to "
            "what it reads.",
        )
    return warning(
        name,
        f"the model did not find a word at the beginning of a prompt of about {expected} tokens",
        "Set a smaller context window for its agents, or use a model that reads long prompts.",
    )
