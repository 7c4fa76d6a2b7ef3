"""What a run tells while it goes on: one protocol for HTTP, terminal and Python.

Deltas are passing: they are shown and not stored. Every other event is sent only after what it tells of is durable
(I12). A run's events end with exactly one ``RunEnded``.
"""

from msgspec import Struct

from eunoe.state.messages import Message
from eunoe.state.runs import RunError, StopReason, Usage


class RunStarted(Struct, frozen=True, kw_only=True, tag="run_started"):
    """The run has its lease, and the request's messages are stored."""

    run_id: str
    agent_id: str
    conversation_id: str


class TextDelta(Struct, frozen=True, kw_only=True, tag="text_delta"):
    """A piece of the answer, of the message that will be stored as ``message_id``.

    ``part`` is the index that the part will have in that message.
    """

    message_id: str
    step_id: str
    part: int
    text: str


class ReasoningDelta(Struct, frozen=True, kw_only=True, tag="reasoning_delta"):
    """A piece of the model's reasoning."""

    message_id: str
    step_id: str
    part: int
    text: str


class ToolCallDelta(Struct, frozen=True, kw_only=True, tag="tool_call_delta"):
    """A piece of a tool call: first its name (with no arguments), then its arguments in pieces.

    ``gated`` says, with each piece, that the call will wait for a person or the client.
    """

    message_id: str
    step_id: str
    part: int
    tool_call_id: str
    name: str | None = None
    arguments: str | None = None
    gated: bool = False


class MessageStored(Struct, frozen=True, kw_only=True, tag="message_stored"):
    """A message became part of the agent. ``streamed`` says that deltas have already shown its content."""

    message: Message
    streamed: bool = False


class StepEnded(Struct, frozen=True, kw_only=True, tag="step_ended"):
    """A step was committed."""

    step_id: str
    usage: Usage


class RunEnded(Struct, frozen=True, kw_only=True, tag="run_ended"):
    """The run is over. ``context_tokens`` is what the last request and its answer took of the window."""

    run_id: str
    stop_reason: StopReason
    usage: Usage
    step_count: int
    context_tokens: int | None = None
    error: RunError | None = None


Delta = TextDelta | ReasoningDelta | ToolCallDelta
Event = RunStarted | Delta | MessageStored | StepEnded | RunEnded
