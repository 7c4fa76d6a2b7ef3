"""Answers in the dialect of OpenAI's Responses API: typed events, or one whole response.

Source: https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from collections.abc import Callable
from typing import Any, Final

from eunoe.models.answer import answer_to, ended, failed, interrupted, new_call_id, unreadable
from eunoe.models.failures import failure
from eunoe.models.json_fields import JsonObject, as_object, int_in, object_in, objects_in, parse_object, text_in
from eunoe.models.protocol import FinishReason, ModelEvent, ModelRequest, Piece
from eunoe.models.providers import Provider
from eunoe.state.errors import ModelError
from eunoe.state.runs import Usage

_FINISH: Final[dict[str, FinishReason]] = {
    "": "stop",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
"""By the reason that an incomplete response gives; a complete one gives none."""


class ResponsesDecoder:
    """See ``Decoder``."""

    def __init__(self, request: ModelRequest, provider: Provider, new_id: Callable[[], str] = new_call_id) -> None:
        self.done = False
        self._provider = provider
        self._answer = answer_to(request, new_id)
        self._usage = Usage()
        self._finish: FinishReason | None = None
        self._error: ModelError | None = None
        self._garbage: str | None = None
        self._summaries: dict[int, int] = {}

    def feed(self, event: str, data: str) -> list[Piece]:
        """Take one event; see ``Decoder``."""
        if data.strip() == "[DONE]":
            self.done = True
            return []
        told = parse_object(data)
        if told is None:
            self._garbage = f"an event that is no JSON object, {data[:80]!r}"
            self.done = True
            return []
        return self._take(text_in(told, "type") or event, told)

    def feed_whole(self, body: Any) -> list[Piece]:
        """Take a response that came whole; see ``Decoder``."""
        response = as_object(body) or {}
        if response.get("error"):
            return self._take("error", response)
        if not isinstance(response.get("output"), list):
            self._garbage = "a JSON value without output"
            self.done = True
            return []
        pieces: list[Piece] = []
        for index, item in enumerate(objects_in(response, "output")):
            pieces += self._item_done(index, item)
        self._complete(response)
        return pieces

    def end(self) -> list[ModelEvent]:
        """End the answer; see ``Decoder``."""
        if self._error is not None:
            return failed(self._answer, self._error)
        if self._garbage is not None:
            return unreadable(self._provider, self._answer, self._garbage)
        if self._finish is None:
            return interrupted(self._provider, self._answer)
        return ended(self._answer, self._usage, self._finish)

    def _take(self, kind: str, told: JsonObject) -> list[Piece]:
        index = int_in(told, "output_index") or 0
        delta = text_in(told, "delta")
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                return self._answer.text(index, delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._answer.reasoning(index, self._paragraph(index, told) + delta)
            case "response.output_item.added":
                return self._open(index, object_in(told, "item"))
            case "response.function_call_arguments.delta":
                return self._answer.arguments(index, delta) if self._answer.has(index) else []
            case "response.output_item.done":
                return self._item_done(index, object_in(told, "item"))
            case "response.completed" | "response.incomplete":
                self._complete(object_in(told, "response"))
            case "response.failed":
                self._fail(object_in(told, "response"))
            case "error":
                self._fail(told)
            case _:
                pass  # the events that only announce or repeat
        return []

    def _paragraph(self, index: int, told: JsonObject) -> str:
        """Return the blank line that separates one summary from the one before it."""
        number = int_in(told, "summary_index") or int_in(told, "content_index") or 0
        before = self._summaries.get(index, number)
        self._summaries[index] = number
        return "\n\n" if number != before else ""

    def _open(self, index: int, item: JsonObject) -> list[Piece]:
        if text_in(item, "type") != "function_call":
            return []
        return self._answer.open_call(index, text_in(item, "call_id"), text_in(item, "name"))

    def _item_done(self, index: int, item: JsonObject) -> list[Piece]:
        """Take an item that is complete; what came in deltas before is not told again."""
        match text_in(item, "type"):
            case "message" if not self._answer.has_content(index):
                contents = objects_in(item, "content")
                return self._answer.text(index, "".join(text_in(c, "text") or text_in(c, "refusal") for c in contents))
            case "function_call":
                pieces = self._open(index, item)
                if not self._answer.has_content(index):
                    pieces += self._answer.arguments(index, text_in(item, "arguments"))
                return pieces
            case "reasoning":
                summary = objects_in(item, "summary")
                pieces: list[Piece] = []
                if not self._answer.has_content(index):
                    pieces = self._answer.reasoning(index, "\n\n".join(text_in(part, "text") for part in summary))
                if pieces or self._answer.has(index) or item.get("encrypted_content"):
                    self._answer.sign(
                        index, id=item.get("id"), summary=summary, encrypted_content=item.get("encrypted_content")
                    )
                return pieces
            case _:
                return []

    def _complete(self, response: JsonObject) -> None:
        self.done = True
        self._usage = _usage(object_in(response, "usage"))
        reason = text_in(object_in(response, "incomplete_details"), "reason")
        self._finish = _FINISH.get(reason, "other")

    def _fail(self, told: JsonObject) -> None:
        self.done = True
        self._error = failure(self._provider, told, started=bool(self._answer.parts))


def _usage(usage: JsonObject) -> Usage:
    return Usage(
        prompt_tokens=int_in(usage, "input_tokens") or 0,
        completion_tokens=int_in(usage, "output_tokens") or 0,
        cached_tokens=int_in(object_in(usage, "input_tokens_details"), "cached_tokens"),
        reasoning_tokens=int_in(object_in(usage, "output_tokens_details"), "reasoning_tokens"),
    )
