"""Answers in the dialect of OpenAI's chat completions: stream chunks, or one whole completion.

Servers differ: call fragments by index or whole calls in one chunk, ids missing or repeated, reasoning under three
names, a last ``[DONE]`` or none, usage in its own chunk or in the last one. All of these are read.
"""

from collections.abc import Callable, Hashable
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
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
}


class ChatDecoder:
    """See ``Decoder``."""

    def __init__(self, request: ModelRequest, provider: Provider, new_id: Callable[[], str] = new_call_id) -> None:
        self.done = False
        self._provider = provider
        self._answer = answer_to(request, new_id)
        self._usage = Usage()
        self._finish: FinishReason | None = None
        self._error: ModelError | None = None
        self._garbage: str | None = None
        self._at_index: dict[int | None, Hashable] = {}
        self._call_ids: dict[Hashable, str] = {}
        self._calls = 0
        self._early: dict[Hashable, str] = {}
        self._details: list[JsonObject] = []

    def feed(self, event: str, data: str) -> list[Piece]:
        """Take one chunk; see ``Decoder``."""
        if data.strip() == "[DONE]":
            self.done = True
            return []
        chunk = parse_object(data)
        if chunk is None:
            self._garbage = f"a chunk that is no JSON object, {data[:80]!r}"
            self.done = True
            return []
        if event == "error" or chunk.get("error"):
            self._fail(chunk)
            return []
        return self._take(chunk, "delta")

    def feed_whole(self, body: Any) -> list[Piece]:
        """Take a completion that came whole; see ``Decoder``."""
        self.done = True
        completion = as_object(body) or {}
        if completion.get("error"):
            self._fail(completion)
            return []
        if not objects_in(completion, "choices"):
            self._garbage = "a JSON value without choices"
            return []
        pieces = self._take(completion, "message")
        self._finish = self._finish or "other"
        return pieces

    def end(self) -> list[ModelEvent]:
        """End the answer; see ``Decoder``. ``[DONE]`` may be missing, a finish reason may not, unless it came."""
        if self._error is not None:
            return failed(self._answer, self._error)
        if self._garbage is not None:
            return unreadable(self._provider, self._answer, self._garbage)
        if self._early:
            return unreadable(self._provider, self._answer, "a tool call without a name")
        if self._details:
            self._answer.sign("reasoning", reasoning_details=_joined(self._details))
        if self._finish is None and not (self.done and self._answer.parts):
            return interrupted(self._provider, self._answer)
        return ended(self._answer, self._usage, self._finish or "other")

    def _fail(self, chunk: JsonObject) -> None:
        self._error = failure(self._provider, chunk, started=bool(self._answer.parts))
        self.done = True

    def _take(self, chunk: JsonObject, field: str) -> list[Piece]:
        if object_in(chunk, "usage"):
            self._usage = _usage(object_in(chunk, "usage"))
        choice = next(iter(objects_in(chunk, "choices")), None)
        if choice is None:
            return []
        reason = text_in(choice, "finish_reason")
        if reason == "error":
            self._fail({"error": choice.get("error") or "the model failed"})
            return []
        if reason:
            self._finish = _FINISH.get(reason, "other")
        delta = object_in(choice, field)
        self._details.extend(objects_in(delta, "reasoning_details"))
        thought = text_in(delta, "reasoning_content") or text_in(delta, "reasoning")
        pieces = self._answer.reasoning("reasoning", thought)
        pieces += self._answer.text("text", _content(delta) + text_in(delta, "refusal"))
        for position, call in enumerate(objects_in(delta, "tool_calls")):
            pieces += self._call(call, position if field == "message" else None)
        return pieces

    def _call(self, fragment: JsonObject, position: int | None) -> list[Piece]:
        function = object_in(fragment, "function")
        name, call_id = text_in(function, "name"), text_in(fragment, "id")
        key = self._key(int_in(fragment, "index") if position is None else position, call_id, name)
        pieces: list[Piece] = []
        arguments = text_in(function, "arguments")
        if object_in(function, "arguments"):  # some servers send the object, not its text
            arguments = msgspec.json.encode(function["arguments"]).decode()
        if not self._answer.has(key):
            arguments = self._early.pop(key, "") + arguments
            if not name:
                self._early[key] = arguments
                return []
            pieces += self._answer.open_call(key, self._call_ids.get(key, ""), name)
        pieces += self._answer.arguments(key, arguments)
        if fragment.get("extra_content"):
            self._answer.keep(key, extra_content=fragment["extra_content"])
        return pieces

    def _key(self, index: int | None, call_id: str, name: str) -> Hashable:
        """Find which call a fragment belongs to.

        Some servers give every call index 0, or none: there a name with another id, or with none, begins a new call.
        """
        key = self._at_index.get(index)
        known = self._call_ids.get(key, "")
        another = bool(name and call_id and known and call_id != known)
        if key is None or another or (index is None and name and not call_id):
            key = ("call", self._calls)
            self._calls += 1
            self._at_index[index] = key
        if call_id:
            self._call_ids.setdefault(key, call_id)
        return key


def _content(delta: JsonObject) -> str:
    """Read the content: text, or a list of text parts (Mistral)."""
    return text_in(delta, "content") or "".join(text_in(part, "text") for part in objects_in(delta, "content"))


def _usage(usage: JsonObject) -> Usage:
    prompt = object_in(usage, "prompt_tokens_details")
    cached = int_in(prompt, "cached_tokens")
    return Usage(
        prompt_tokens=int_in(usage, "prompt_tokens") or 0,
        completion_tokens=int_in(usage, "completion_tokens") or 0,
        cached_tokens=int_in(usage, "prompt_cache_hit_tokens") if cached is None else cached,
        cache_write_tokens=int_in(prompt, "cache_write_tokens"),
        reasoning_tokens=int_in(object_in(usage, "completion_tokens_details"), "reasoning_tokens"),
    )


def _joined(details: list[JsonObject]) -> list[JsonObject]:
    """Put the fragments of OpenRouter's ``reasoning_details`` together, by index and type, as it wants them back."""
    joined: list[JsonObject] = []
    for detail in details:
        last = joined[-1] if joined else None
        if last is None or any(last.get(key) != detail.get(key, last.get(key)) for key in ("index", "type", "id")):
            joined.append(dict(detail))
            continue
        for key, value in detail.items():
            growing = key in ("text", "summary", "data") and isinstance(last.get(key), str) and isinstance(value, str)
            if growing:
                last[key] += value
            elif value is not None:
                last[key] = value
    return joined
