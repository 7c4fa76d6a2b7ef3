"""A run's events as frames of a server-sent event stream, and as one JSON answer.

The frames of a stream end, whatever happens, with ``stop_reason``, ``usage_statistics`` and ``[DONE]``. When the run
failed, an ``error`` event stands between the usage and ``[DONE]``: the official clients raise on it, and have then
seen everything before it.

The frames of a background run are numbered from 1 by ``seq_id``. The same events told in the same way have the same
numbers, so a client goes on after the last number that it saw. Pings are told besides and have none.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from eunoe.server.wire.dates import second
from eunoe.server.wire.envelope import otid_for
from eunoe.server.wire.messages import Shown, View, shown
from eunoe.server.wire.runs import stop_reason, usage_of_turn
from eunoe.state.events import Event, MessageStored, ReasoningDelta, RunEnded, TextDelta, ToolCallDelta
from eunoe.state.ids import new_id
from eunoe.state.runs import RunError

DONE: Final = b"data: [DONE]\n\n"

_QUIET_ROLES: Final = frozenset({"user", "system", "approval"})
"""What the caller sent; an answer does not repeat it."""


def frame(body: dict[str, Any]) -> bytes:
    """Return one frame that carries a JSON object; an error's frame says so by its event."""
    event = b"event: error\n" if body.get("message_type") == "error_message" else b""
    return event + b"data: " + msgspec.json.encode(body) + b"\n\n"


def error_body(run_id: str, error: RunError) -> dict[str, Any]:
    """Return the message that tells of a failure after the stream has begun."""
    return {
        "message_type": "error_message",
        "run_id": run_id,
        "error_type": error.type,
        "message": error.message,
        "detail": error.detail,
        "seq_id": None,
    }


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


def tail(ended: RunEnded) -> list[dict[str, Any]]:
    """Return the last messages of a stream."""
    bodies = [stop_reason(ended), usage_of_turn(ended)]
    if ended.error is not None:
        bodies.append(error_body(ended.run_id, ended.error))
    return bodies


class _Streaming(Struct):
    """What was shown so far of a message that is still being written.

    ``starts`` maps the index of each part that was shown to the first part of the message that it was shown in.
    """

    kinds: dict[int, str] = {}
    starts: dict[int, int] = {}


class Narrator:
    """Tells a run as messages of the wire.

    ``tokens`` shows answers piece by piece. With ``numbered``, what is told gets its number as ``seq_id``, and what has
    a number up to ``after`` is left out: the client has it.
    """

    def __init__(self, run_id: str, view: View, *, tokens: bool, numbered: bool = False, after: int = 0) -> None:
        self._run_id = run_id
        self._view = view
        self._tokens = tokens
        self._numbered = numbered
        self._after = after
        self._number = 0
        self._streaming: dict[str, _Streaming] = {}
        self._quiet_calls: set[str] = set()

    def tell(self, event: Event, now: datetime) -> list[dict[str, Any]]:
        """Return the messages that this event adds; none for events that the wire does not show.

        The end of the run adds what every stream ends with, whatever types the caller wants.
        """
        match event:
            case TextDelta() | ReasoningDelta() | ToolCallDelta():
                bodies = self._piece(event, now) if self._tokens else []
            case MessageStored():
                bodies = self._stored(event)
            case RunEnded():
                return self._count(tail(event))
            case _:
                bodies = []
        return self._count([body for body in bodies if self._view.keeps(body)])

    def _count(self, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not self._numbered:
            return bodies
        first = self._number + 1
        self._number += len(bodies)
        return [{**body, "seq_id": n} for n, body in enumerate(bodies, first) if n > self._after]

    def _stored(self, event: MessageStored) -> list[dict[str, Any]]:
        message = event.message
        if message.role in _QUIET_ROLES:
            return []
        seen = self._streaming.pop(message.id, None)
        told = seen.kinds if seen is not None and event.streamed else {}
        return [item.body for item in shown(message, self._view) if not _was_told(item, told)]

    def _piece(self, delta: TextDelta | ReasoningDelta | ToolCallDelta, now: datetime) -> list[dict[str, Any]]:
        if isinstance(delta, ToolCallDelta):
            if delta.name is not None and not delta.gated and delta.name == self._view.speech_tool:
                self._quiet_calls.add(delta.tool_call_id)
            if delta.tool_call_id in self._quiet_calls:
                return []
            fields = {"name": delta.name, "arguments": delta.arguments, "tool_call_id": delta.tool_call_id}
            call = {key: value for key, value in fields.items() if value is not None}
            kind = "approval_request_message" if delta.gated else "tool_call_message"
            return [{**self._head(delta, kind, now), "tool_call": call, "tool_calls": call}]
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
            "otid": self._otid(delta.message_id, seen.starts[delta.part], kind),
            "sender_id": None,
            "step_id": delta.step_id,
            "is_err": None,
            "seq_id": None,
            "run_id": self._run_id,
        }

    @staticmethod
    def _otid(message_id: str, part: int, kind: str) -> str:
        return message_id if kind == "approval_request_message" else otid_for(message_id, part)


def answer(messages: list[dict[str, Any]], ended: RunEnded) -> dict[str, Any]:
    """Return the JSON answer of a request that does not stream."""
    return {
        "messages": messages,
        "stop_reason": stop_reason(ended),
        "usage": usage_of_turn(ended),
        "logprobs": None,
        "turns": None,
    }


def _was_told(item: Shown, told: Mapping[int, str]) -> bool:
    """Say whether pieces have shown this; a call that was taken for one that waits, and does not, is shown again."""
    return bool(item.parts) and told.get(item.parts[0]) == item.body["message_type"]
