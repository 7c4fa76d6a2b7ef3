"""How a run looks in the terminal: events in, lines out."""

from typing import Final, Literal, TextIO, assert_never

import msgspec

from eunoe.cli.errors import FAILED, INTERRUPTED, MODEL_FAILED, STORE_FAILED
from eunoe.cli.terminal import Style, one_line, printable
from eunoe.state.events import (
    Event,
    MessageStored,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    StepEnded,
    TextDelta,
    ToolCallDelta,
)
from eunoe.state.messages import Message, ReasoningPart, TextPart, ToolCallPart, ToolReturnPart
from eunoe.state.runs import COMPLETED_REASONS, StopReason
from eunoe.tools.builtin import SEND_MESSAGE

SHOWN_LINES: Final = 3
"""Lines of a tool's return that are shown."""

LINE_WIDTH: Final = 100
"""Characters of a line that tells of a tool."""


class _Said(msgspec.Struct):
    message: str


_Kind = Literal["nothing", "text", "reasoning"]


class Renderer:
    """Writes the events of runs as they come. ``out`` is a text stream; it is flushed after every event."""

    def __init__(self, out: TextIO, style: Style) -> None:
        self._out: Final = out
        self._style: Final = style
        self._open: _Kind = "nothing"

    def show(self, event: Event) -> None:
        """Write what this event adds to the screen."""
        match event:
            case TextDelta(text=text):
                self._flow("text", text)
            case ReasoningDelta(text=text):
                self._flow("reasoning", text)
            case MessageStored(message=message, streamed=streamed):
                self._stored(message, streamed=streamed)
            case RunEnded():
                self._ended(event)
            case RunStarted() | StepEnded() | ToolCallDelta():
                # A call is shown whole, once it is stored and before its tool starts.
                pass
            case _:
                assert_never(event)
        self._out.flush()

    def _flow(self, kind: Literal["text", "reasoning"], text: str) -> None:
        if not text:
            return
        if self._open != kind:
            self._close()
            self._open = kind
        shown = printable(text)
        self._out.write(self._style.dim(shown) if kind == "reasoning" else shown)

    def _close(self) -> None:
        if self._open != "nothing":
            self._out.write("\n")
            self._open = "nothing"

    def _line(self, text: str) -> None:
        self._close()
        self._out.write(text + "\n")

    def _stored(self, message: Message, *, streamed: bool) -> None:
        if message.role in ("user", "system", "approval"):
            return
        if message.role == "summary":
            self._line(self._style.dim("(earlier messages were replaced by a summary)"))
            return
        for part in message.parts:
            match part:
                case TextPart(text=text) if not streamed:
                    self._flow("text", text)
                case ReasoningPart(text=text) if not streamed:
                    self._flow("reasoning", text)
                case ToolCallPart():
                    self._called(part)
                case ToolReturnPart() if part.name != SEND_MESSAGE.name or part.status == "error":
                    self._returned(part)
                case _:
                    pass
        if message.needs_approval:
            self._line(f"Waits for approval of {len(message.needs_approval)} of these calls.")

    def _called(self, call: ToolCallPart) -> None:
        said = said_by(call)
        if said is None:
            self._line(self._style.dim(call_line(call)))
        else:
            self._flow("text", said)
            self._close()

    def _returned(self, part: ToolReturnPart) -> None:
        lines = return_lines(part)
        style = self._style.red if part.status == "error" else self._style.dim
        for line in lines:
            self._line(style(line))

    def _ended(self, event: RunEnded) -> None:
        self._close()
        if event.stop_reason == "cancelled":
            self._line(self._style.dim("(cancelled)"))
        elif event.stop_reason == "max_steps":
            self._line(self._style.dim(f"(stopped after {event.step_count} steps; send a message to go on)"))


def said_by(call: ToolCallPart) -> str | None:
    """Return what the agent says to the user by this call, where speaking is a tool; else ``None``."""
    if call.name != SEND_MESSAGE.name:
        return None
    try:
        return msgspec.json.decode(call.arguments, type=_Said).message
    except (msgspec.DecodeError, RecursionError):
        return None


def call_line(call: ToolCallPart) -> str:
    """Return a tool call on one line: its name, and its arguments as far as they fit."""
    try:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        shown = call.arguments
    else:
        shown = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in arguments.items())
    name = one_line(call.name, LINE_WIDTH // 2)
    return f"→ {name}({one_line(shown, LINE_WIDTH - len(name) - 4)})"


def return_lines(returned: ToolReturnPart) -> list[str]:
    """Return what a tool gave back: its status and the first lines, each cut to the width."""
    lines = [line for line in printable(returned.content).splitlines() if line.strip()] or ["(nothing)"]
    status = "error" if returned.status == "error" else "ok"
    shown = [f"← {status}: {one_line(lines[0], LINE_WIDTH - 8)}"]
    shown += [f"  {one_line(line, LINE_WIDTH - 2)}" for line in lines[1:SHOWN_LINES]]
    if len(lines) > SHOWN_LINES:
        shown.append(f"  … {len(lines) - SHOWN_LINES} more lines")
    return shown


_ADVICE: Final = {
    "llm_authentication": "Check the provider's key; `eunoe doctor` says which variable it is read from.",
    "llm_permission_denied": "The key does not allow this model: use another key or another model.",
    "llm_insufficient_credits": "Add credits with the provider, or choose another model with --model.",
    "llm_rate_limit": "Wait a little and send the message again.",
    "llm_overloaded": "Wait a little and send the message again.",
    "llm_timeout": "Send the message again; if it stays so, `eunoe doctor` checks the endpoint.",
    "llm_empty_response": "Send the message again, or choose another model with --model.",
    "llm_invalid_format": "Send the message again, simplify the schema, or choose another model with --model.",
    "llm_error": "`eunoe doctor` checks the endpoint and the model.",
}

_STOPPED: Final[dict[StopReason, str]] = {
    "max_tokens_exceeded": "The answer was longer than the model may give. Ask for less at once, or raise "
    "max_output_tokens in the agent's model settings.",
    "invalid_llm_response": "The model's answer could not be read. Send the message again, or choose another model.",
    "invalid_tool_call": "The model called a tool in a way that its rules forbid. Send the message again.",
    "no_tool_call": "The model called no tool where its rules ask for one. Send the message again.",
    "context_window_overflow_in_system_prompt": "The system text and memory alone do not fit in the model's context "
    "window. Shorten a block, or choose a model with a larger window.",
}


def failure_sentence(ended: RunEnded) -> str | None:
    """Return what went wrong and what to do, or ``None`` when the run did not fail."""
    if ended.stop_reason in COMPLETED_REASONS or ended.stop_reason == "cancelled":
        return None
    error = ended.error
    if error is None:
        return _STOPPED.get(ended.stop_reason, f"The run ended early: {ended.stop_reason}.")
    sentences = [error.message]
    if error.detail and error.detail not in error.message and " " in error.detail:
        sentences.append(error.detail)
    if error.type in _ADVICE:
        sentences.append(_ADVICE[error.type])
    return one_line(" ".join(sentences), 1000)


def exit_code_of(ended: RunEnded) -> int:
    """Return the exit code of a program that was to do this run and nothing else."""
    if ended.stop_reason in COMPLETED_REASONS:
        return 0
    if ended.stop_reason == "cancelled":
        return INTERRUPTED
    if ended.error is None or ended.error.type.startswith("llm_"):
        return MODEL_FAILED
    return STORE_FAILED if (ended.error.detail or "").startswith("STORE_") else FAILED
