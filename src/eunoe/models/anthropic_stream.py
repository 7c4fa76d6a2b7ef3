"""Answers in the dialect of Anthropic's Messages API: block events, or one whole message.

Source: https://docs.anthropic.com/en/docs/build-with-claude/streaming.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from eunoe.models.answer import answer_to, ended, failed, interrupted, new_call_id, unreadable
from eunoe.models.failures import failure
from eunoe.models.json_fields import JsonObject, as_object, int_in, object_in, objects_in, parse_object, text_in
from eunoe.models.protocol import FinishReason, ModelEvent, ModelRequest, Piece
from eunoe.models.providers import Provider
from eunoe.state.errors import ModelError
from eunoe.state.runs import Usage

_FINISH: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class AnthropicDecoder:
    """See ``Decoder``."""

    def __init__(self, request: ModelRequest, provider: Provider, new_id: Callable[[], str] = new_call_id) -> None:
        self.done = False
        self._provider = provider
        self._answer = answer_to(request, new_id)
        self._usage: JsonObject = {}
        self._finish: FinishReason | None = None
        self._error: ModelError | None = None
        self._garbage: str | None = None

    def feed(self, event: str, data: str) -> list[Piece]:
        """Take one event; see ``Decoder``."""
        told = parse_object(data)
        if told is None:
            self._garbage = f"an event that is no JSON object, {data[:80]!r}"
            self.done = True
            return []
        return self._take(text_in(told, "type") or event, told)

    def feed_whole(self, body: Any) -> list[Piece]:
        """Take a message that came whole; see ``Decoder``."""
        message = as_object(body) or {}
        if message.get("type") == "error":
            return self._take("error", message)
        self.done = True
        if not isinstance(message.get("content"), list):
            self._garbage = "a JSON value without content"
            return []
        pieces: list[Piece] = []
        for index, block in enumerate(objects_in(message, "content")):
            pieces += self._start(index, block)
        self._usage = object_in(message, "usage")
        self._finish = _FINISH.get(text_in(message, "stop_reason") or "end_turn", "other")
        return pieces

    def end(self) -> list[ModelEvent]:
        """End the answer; see ``Decoder``."""
        if self._error is not None:
            return failed(self._answer, self._error)
        if self._garbage is not None:
            return unreadable(self._provider, self._answer, self._garbage)
        if self._finish is None:
            return interrupted(self._provider, self._answer)
        return ended(self._answer, _usage(self._usage), self._finish)

    def _take(self, kind: str, told: JsonObject) -> list[Piece]:
        match kind:
            case "message_start":
                self._count(object_in(object_in(told, "message"), "usage"))
            case "content_block_start":
                return self._start(int_in(told, "index") or 0, object_in(told, "content_block"))
            case "content_block_delta":
                return self._delta(int_in(told, "index") or 0, object_in(told, "delta"))
            case "message_delta":
                self._count(object_in(told, "usage"))
                reason = text_in(object_in(told, "delta"), "stop_reason")
                if reason:
                    self._finish = _FINISH.get(reason, "other")
            case "message_stop":
                self.done = True
            case "error":
                self.done = True
                self._error = failure(self._provider, told, started=bool(self._answer.parts))
            case _:
                pass  # pings, ends of blocks, and events that are new to us
        return []

    def _start(self, index: int, block: JsonObject) -> list[Piece]:
        match block.get("type"):
            case "text":
                return self._answer.text(index, text_in(block, "text"))
            case "thinking":
                pieces = self._answer.reasoning(index, text_in(block, "thinking"))
                if text_in(block, "signature"):
                    self._answer.sign(index, signature=text_in(block, "signature"))
                return pieces
            case "redacted_thinking":
                self._answer.sign(index, redacted=text_in(block, "data"))
                return []
            case "tool_use":
                pieces = self._answer.open_call(index, text_in(block, "id"), text_in(block, "name"))
                given = block.get("input")
                return pieces + (self._answer.arguments(index, msgspec.json.encode(given).decode()) if given else [])
            case _:
                return []

    def _delta(self, index: int, delta: JsonObject) -> list[Piece]:
        match delta.get("type"):
            case "text_delta":
                return self._answer.text(index, text_in(delta, "text"))
            case "thinking_delta":
                return self._answer.reasoning(index, text_in(delta, "thinking"))
            case "signature_delta":
                self._answer.sign(index, signature=text_in(delta, "signature"))
                return []
            case "input_json_delta" if self._answer.has(index):
                return self._answer.arguments(index, text_in(delta, "partial_json"))
            case _:
                return []

    def _count(self, usage: JsonObject) -> None:
        """Take the newest figures: those at the end are totals, and repeat only some of those at the start."""
        self._usage.update({key: value for key, value in usage.items() if value is not None})


def _usage(usage: JsonObject) -> Usage:
    read, written = int_in(usage, "cache_read_input_tokens"), int_in(usage, "cache_creation_input_tokens")
    return Usage(
        prompt_tokens=(int_in(usage, "input_tokens") or 0) + (read or 0) + (written or 0),
        completion_tokens=int_in(usage, "output_tokens") or 0,
        cached_tokens=read,
        cache_write_tokens=written,
    )
