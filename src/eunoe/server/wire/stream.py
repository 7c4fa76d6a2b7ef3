"""A run's events as frames of a server-sent event stream, and as one JSON answer.

The frames of a stream end, whatever happens, with ``stop_reason``, ``usage_statistics`` and ``[DONE]``. When the run
failed, an ``error`` event stands between the usage and ``[DONE]``: the official clients raise on it, and have then
seen everything before it.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from eunoe.server.wire.dates import second
from eunoe.server.wire.messages import Shown, View, otid_for, shown
from eunoe.server.wire.runs import stop_reason, usage_of_turn
from eunoe.state.events import Event, MessageStored, ReasoningDelta, RunEnded, TextDelta, ToolCallDelta
from eunoe.state.ids import new_id
from eunoe.state.messages import Message
from eunoe.state.runs import RunError

DONE: Final = b"data: [DONE]\n\n"

_QUIET_ROLES: Final = frozenset({"user", "system", "approval"})
"""What the caller sent; an answer does not repeat it."""


def frame(body: dict[str, Any]) -> bytes:
    """Return one frame that carries a JSON object."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def error_frame(run_id: str, error: RunError) -> bytes:
    """Return the frame that tells of a failure after the stream has begun."""
    body = {
        "message_type": "error_message",
        "run_id": run_id,
        "error_type": error.type,
        "message": error.message,
        "detail": error.detail,
        "seq_id": None,
    }
    return b"event: error\n" + frame(body)


def ping(run_id: str, now: datetime) -> dict[str, Any]:
    """Return the message that says that the run is alive."""
    return {
        "id": new_id("ping"),
        "date": second(now),
        "name": None,
        "message_type": "ping",
        "otid": None,
        "sender_id": None,
        "step_id": None,
        "is_err": None,
        "seq_id": None,
        "run_id": run_id,
    }


def tail(ended: RunEnded) -> list[bytes]:
    """Return the last frames of a stream."""
    frames = [frame(stop_reason(ended)), frame(usage_of_turn(ended))]
    if ended.error is not None:
        frames.append(error_frame(ended.run_id, ended.error))
    return [*frames, DONE]


class _Streaming(Struct):
    """What was shown so far of a message that is still being written.

    ``starts`` maps the index of each part that was shown to the first part of the message that it was shown in.
    """

    kinds: dict[int, str] = {}
    starts: dict[int, int] = {}


class Narrator:
    """Tells a run as messages of the wire.

    ``tokens`` shows answers piece by piece. Calls of the tools in ``held`` wait for an answer: they are not shown in
    pieces but as one approval request, once that is stored.
    """

    def __init__(self, run_id: str, view: View, *, tokens: bool, held: Collection[str] = ()) -> None:
        self._run_id = run_id
        self._view = view
        self._tokens = tokens
        self._held = frozenset(held)
        self._streaming: dict[str, _Streaming] = {}
        self._quiet_calls: set[str] = set()

    def tell(self, event: Event, now: datetime) -> list[dict[str, Any]]:
        """Return the messages that this event adds; none for events that the wire does not show."""
        match event:
            case TextDelta() | ReasoningDelta() | ToolCallDelta():
                bodies = self._piece(event, now) if self._tokens else []
            case MessageStored():
                bodies = self._stored(event)
            case _:
                bodies = []
        return [body for body in bodies if self._view.keeps(body)]

    def _stored(self, event: MessageStored) -> list[dict[str, Any]]:
        message = event.message
        if message.role in _QUIET_ROLES:
            return []
        if message.role == "summary":
            return _compaction(message, self._view) if self._view.compaction else []
        seen = self._streaming.pop(message.id, None)
        told: Collection[int] = seen.starts if seen is not None and event.streamed else ()
        return [item.body for item in shown(message, self._view) if not _was_told(item, told)]

    def _piece(self, delta: TextDelta | ReasoningDelta | ToolCallDelta, now: datetime) -> list[dict[str, Any]]:
        if isinstance(delta, ToolCallDelta):
            if delta.name is not None and (delta.name in self._held or delta.name == self._view.speech_tool):
                self._quiet_calls.add(delta.tool_call_id)
            if delta.tool_call_id in self._quiet_calls:
                return []
            fields = {"name": delta.name, "arguments": delta.arguments, "tool_call_id": delta.tool_call_id}
            call = {key: value for key, value in fields.items() if value is not None}
            return [{**self._head(delta, "tool_call_message", now), "tool_call": call, "tool_calls": call}]
        if not delta.text or (isinstance(delta, TextDelta) and self._view.speech_tool is not None):
            return []
        if isinstance(delta, ReasoningDelta):
            head = self._head(delta, "reasoning_message", now)
            return [{**head, "source": "reasoner_model", "reasoning": delta.text, "signature": None}]
        return [{**self._head(delta, "assistant_message", now), "content": delta.text}]

    def _head(self, delta: TextDelta | ReasoningDelta | ToolCallDelta, kind: str, now: datetime) -> dict[str, Any]:
        seen = self._streaming.setdefault(delta.message_id, _Streaming())
        if delta.part not in seen.starts:
            joins = kind != "reasoning_message" and seen.kinds.get(delta.part - 1) == kind
            seen.kinds[delta.part] = kind
            seen.starts[delta.part] = seen.starts[delta.part - 1] if joins else delta.part
        return {
            "id": delta.message_id,
            "date": second(now),
            "name": None,
            "message_type": kind,
            "otid": otid_for(delta.message_id, seen.starts[delta.part]),
            "sender_id": None,
            "step_id": delta.step_id,
            "is_err": None,
            "seq_id": None,
            "run_id": self._run_id,
        }


def answer(messages: list[dict[str, Any]], ended: RunEnded) -> dict[str, Any]:
    """Return the JSON answer of a request that does not stream."""
    return {
        "messages": messages,
        "stop_reason": stop_reason(ended),
        "usage": usage_of_turn(ended),
        "logprobs": None,
        "turns": None,
    }


def _was_told(item: Shown, told: Collection[int]) -> bool:
    return bool(item.parts) and item.parts[0] in told


def _compaction(message: Message, view: View) -> list[dict[str, Any]]:
    summary = shown(message, view)[0].body
    stats: dict[str, Any] = message.meta.get("compaction_stats") or {}
    event = {key: summary[key] for key in summary if key not in {"summary", "compaction_stats"}}
    event |= {
        "message_type": "event_message",
        "event_type": "compaction",
        "event_data": {
            "trigger": stats.get("trigger"),
            "context_token_estimate": stats.get("context_tokens_before"),
            "context_window": stats.get("context_window"),
        },
    }
    return [event, summary]
