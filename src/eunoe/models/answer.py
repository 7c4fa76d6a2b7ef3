"""An answer as it grows: what the decoders of all dialects put pieces into.

Parts open in the order in which the model first says something in them, and keep their index.
"""

import uuid
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal, Protocol

from eunoe.models.protocol import (
    Completed,
    Failed,
    FinishReason,
    ModelEvent,
    ModelRequest,
    Piece,
    ReasoningPiece,
    TextPiece,
    ToolCallPiece,
)
from eunoe.models.providers import Provider
from eunoe.state.errors import ModelError
from eunoe.state.messages import Part, ReasoningPart, TextPart, ToolCallPart
from eunoe.state.runs import Usage


class Decoder(Protocol):
    """Turns what an endpoint sends into events. Pure: no clock, no I/O."""

    done: bool
    """The endpoint said that it has finished or failed; what follows need not be read."""

    def feed(self, event: str, data: str) -> list[Piece]:
        """Take one server-sent event."""
        ...

    def feed_whole(self, body: Any) -> list[Piece]:
        """Take a whole answer that came as one JSON object, not as a stream."""
        ...

    def end(self) -> list[ModelEvent]:
        """Say what is left to say, when nothing more will come; the last event is the terminal one."""
        ...


def new_call_id() -> str:
    """Return a fresh id for a tool call."""
    return f"call_{uuid.uuid4().hex[:24]}"


class _Slot:
    """One part under construction."""

    def __init__(self, kind: Literal["text", "reasoning", "call"]) -> None:
        self.kind = kind
        self.text: list[str] = []
        self.provider: dict[str, Any] = {}
        self.signature: list[str] = []
        self.redacted: str | None = None
        self.id = ""
        self.name = ""

    def part(self) -> Part:
        text = "".join(self.text)
        provider = self.provider or None
        if self.kind == "text":
            return TextPart(text=text, provider=provider)
        if self.kind == "call":
            return ToolCallPart(id=self.id, name=self.name, arguments=text, provider=provider)
        signature = "".join(self.signature) or None
        return ReasoningPart(text=text, signature=signature, redacted=self.redacted, provider=provider)


class Answer:
    """The parts of one answer, found by a key that the dialect chooses (a block index, a name).

    ``taken`` are the call ids that the history already has: a call that comes without an id, or with one that is
    taken, gets a fresh one, so that each return finds its call (I3). ``origin`` marks opaque data with the provider
    that wants it back.
    """

    def __init__(self, origin: str, taken: Iterable[str], new_id: Callable[[], str]) -> None:
        self._origin = origin
        self._taken = set(taken)
        self._new_id = new_id
        self._slots: dict[Hashable, _Slot] = {}
        self._order: list[Hashable] = []

    def text(self, key: Hashable, text: str) -> list[Piece]:
        """Add text to the part of this key; nothing is opened for no text."""
        if not text:
            return []
        self._slot(key, "text").text.append(text)
        return [TextPiece(part=self._order.index(key), text=text)]

    def reasoning(self, key: Hashable, text: str) -> list[Piece]:
        """Add text to the reasoning of this key."""
        if not text:
            return []
        slot = self._slot(key, "reasoning")
        slot.provider.setdefault("provider", self._origin)
        slot.text.append(text)
        return [ReasoningPiece(part=self._order.index(key), text=text)]

    def sign(self, key: Hashable, *, signature: str = "", redacted: str | None = None, **opaque: Any) -> None:
        """Keep opaque data of the reasoning of this key; it opens the part even when the text is hidden."""
        slot = self._slot(key, "reasoning")
        slot.provider = {"provider": self._origin, **slot.provider, **opaque}
        slot.signature.append(signature)
        slot.redacted = redacted if redacted is not None else slot.redacted

    def open_call(self, key: Hashable, call_id: str, name: str) -> list[Piece]:
        """Open the call of this key, once."""
        if key in self._slots:
            return []
        slot = self._slot(key, "call")
        slot.id = call_id if call_id and call_id not in self._taken else self._new_id()
        slot.name = name
        self._taken.add(slot.id)
        return [ToolCallPiece(part=self._order.index(key), tool_call_id=slot.id, name=name)]

    def arguments(self, key: Hashable, text: str) -> list[Piece]:
        """Add to the arguments of an open call."""
        if not text:
            return []
        slot = self._slots[key]
        slot.text.append(text)
        return [ToolCallPiece(part=self._order.index(key), tool_call_id=slot.id, arguments=text)]

    def keep(self, key: Hashable, **opaque: Any) -> None:
        """Keep opaque data with the open part of this key."""
        slot = self._slots[key]
        slot.provider = {"provider": self._origin, **slot.provider, **opaque}

    def has(self, key: Hashable) -> bool:
        """Say whether the part of this key is open."""
        return key in self._slots

    def has_content(self, key: Hashable) -> bool:
        """Say whether the part of this key has any text or arguments."""
        return key in self._slots and bool(self._slots[key].text)

    def close_calls(self) -> list[Piece]:
        """Tell the arguments of the calls that came without any: they are the empty object."""
        return [
            piece
            for key in self._order
            if self._slots[key].kind == "call" and not "".join(self._slots[key].text).strip()
            for piece in self.arguments(key, "{}")
        ]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What has come so far."""
        return tuple(self._slots[key].part() for key in self._order)

    def _slot(self, key: Hashable, kind: Literal["text", "reasoning", "call"]) -> _Slot:
        if key not in self._slots:
            self._slots[key] = _Slot(kind)
            self._order.append(key)
        return self._slots[key]


def answer_to(request: ModelRequest, new_id: Callable[[], str]) -> Answer:
    """Begin the answer to this request."""
    taken = (call.id for message in request.messages for call in message.tool_calls)
    return Answer(request.model.provider, taken, new_id)


def ended(answer: Answer, usage: Usage, reason: FinishReason) -> list[ModelEvent]:
    """End an answer well. A model that called tools has finish reason ``tool_calls``, whatever the server calls it."""
    closing = answer.close_calls()
    parts = answer.parts
    called = any(isinstance(part, ToolCallPart) for part in parts)
    finish = "tool_calls" if called and reason in ("stop", "other") else reason
    return [*closing, Completed(parts=parts, usage=usage, finish_reason=finish)]


def failed(answer: Answer, error: ModelError) -> list[ModelEvent]:
    """End an answer badly."""
    return [Failed(error=error, parts=answer.parts)]


def interrupted(provider: Provider, answer: Answer) -> list[ModelEvent]:
    """End an answer whose stream stopped before the endpoint said that it was complete."""
    parts = answer.parts
    error = ModelError(
        "interrupted",
        f"The stream of {provider.name} ended before the answer was complete. Send the message again.",
        provider=provider.name,
        started=bool(parts),
    )
    return [Failed(error=error, parts=parts)]


def unreadable(provider: Provider, answer: Answer, reason: str) -> list[ModelEvent]:
    """End an answer that is not in the form that the dialect says."""
    error = ModelError(
        "invalid_response",
        f"{provider.name} sent something that is not an answer: {reason}. "
        f"Check that {provider.base_url_env or 'its base URL'} is the address of a model API.",
        provider=provider.name,
        started=bool(answer.parts),
    )
    return [Failed(error=error, parts=answer.parts)]
