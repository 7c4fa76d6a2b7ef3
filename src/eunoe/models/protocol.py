"""What the runtime asks of a model, and what it is told back.

A model's stream ends with exactly one terminal event, ``Completed`` or ``Failed``; failures of a model are events,
never exceptions. Exceptions that leave a stream are bugs (or cancellation).
"""

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol

from msgspec import Struct

from eunoe.state.errors import ModelError
from eunoe.state.messages import Message, Part
from eunoe.state.runs import Usage
from eunoe.state.tools import ToolSchema

DialectName = Literal["openai_chat", "openai_responses", "anthropic", "scripted"]

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "other"]


class ModelInfo(Struct, frozen=True, kw_only=True):
    """A model that can be asked, with the facts about it that matter.

    ``handle`` is ``provider/name``. ``context_window`` and ``max_output_tokens`` are in tokens; a window of 0 is
    unknown. ``provider_type`` is the wire's word for the kind of provider (openai, anthropic, ollama …).
    """

    handle: str
    name: str
    provider: str
    provider_type: str
    dialect: DialectName
    base_url: str
    context_window: int
    max_output_tokens: int | None = None
    supports_tools: bool = True
    reasoning: bool = False
    line_numbers: bool = False
    """The prompt shows block values with line numbers (Anthropic's models edit by line)."""


class ToolChoice(Struct, frozen=True, kw_only=True):
    """``auto`` leaves it to the model, ``required`` makes it call some tool, ``none`` forbids, ``tool`` names one."""

    mode: Literal["auto", "required", "none", "tool"] = "auto"
    name: str | None = None


class ModelRequest(Struct, frozen=True, kw_only=True):
    """Everything that a payload is built from. Same request, same bytes.

    ``messages`` is the window without the system message, already closed (I3); ``system`` is the compiled prompt with
    what is added per request. ``settings`` are the user's, in the wire's form.
    """

    model: ModelInfo
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    settings: dict[str, Any] = {}
    parallel_tool_calls: bool = True
    stream: bool = True


class Payload(Struct, frozen=True, kw_only=True):
    """An HTTP request to a model endpoint: ``body`` is the exact bytes.

    No secret is in it; headers are added on sending.
    """

    url: str
    body: bytes


class TextPiece(Struct, frozen=True, kw_only=True):
    """Text of the answer. ``part`` is the index of the part in ``Completed.parts``."""

    part: int
    text: str


class ReasoningPiece(Struct, frozen=True, kw_only=True):
    """Text of the reasoning."""

    part: int
    text: str


class ToolCallPiece(Struct, frozen=True, kw_only=True):
    """A piece of a tool call: first ``name`` alone, then ``arguments`` piece by piece."""

    part: int
    tool_call_id: str
    name: str | None = None
    arguments: str | None = None


class Completed(Struct, frozen=True, kw_only=True):
    """The model ended its answer. ``parts`` are text, reasoning and tool-call parts in the model's order."""

    parts: tuple[Part, ...]
    usage: Usage
    finish_reason: FinishReason


class Failed(Struct, frozen=True, kw_only=True):
    """The model failed. ``parts`` is what had come until then."""

    error: ModelError
    parts: tuple[Part, ...] = ()


Piece = TextPiece | ReasoningPiece | ToolCallPiece
ModelEvent = Piece | Completed | Failed


class Models(Protocol):
    """The models that can be asked: the runtime's one door to ``models/``."""

    async def find(self, handle: str) -> ModelInfo:
        """Return the model of this handle.

        Raises ``InvalidInput`` when the handle is not ``provider/name``, and ``NotFound`` when the provider is not
        configured or says that it has no such model. An endpoint that cannot be reached is not an error here: the
        model may be started later.
        """
        ...

    def resolve(self, handle: str) -> ModelInfo:
        """Return what is known of this handle without asking anyone: what a turn uses.

        Raises ``InvalidInput`` and, when the provider is not configured, ``NotFound`` as ``find`` does.
        """
        ...

    async def list(self) -> list[ModelInfo]:
        """Return every model that the configured providers name; an unreachable one is left out and logged."""
        ...

    def payload(self, request: ModelRequest) -> Payload:
        """Build the exact request (pure)."""
        ...

    def stream(self, request: ModelRequest, payload: Payload) -> AsyncGenerator[ModelEvent, None]:
        """Send the payload and tell what comes; ends with one terminal event."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
