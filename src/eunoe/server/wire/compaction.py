"""Compaction as Letta v1 shows it: in lists and answers, and as the answer to a call of it."""

from typing import Any, Literal

import msgspec

from eunoe.runtime.compaction_call import CompactionOutcome
from eunoe.server.wire.dates import second
from eunoe.server.wire.envelope import envelope
from eunoe.state.messages import Message

CompactionView = Literal["message", "events", "packed"]
"""A summary as a message of its own, with the event before it, or packed as a user's message."""


def compaction(message: Message, view: CompactionView) -> list[dict[str, Any]]:
    """Return what the wire shows of a stored summary."""
    stats: dict[str, Any] | None = message.meta.get("compaction_stats")
    if view == "packed":
        return [_packed(message, stats)]
    summary = {**envelope(message, "summary_message"), "summary": message.text, "compaction_stats": stats}
    return [_event(message, stats or {}), summary] if view == "events" else [summary]


def _event(message: Message, stats: dict[str, Any]) -> dict[str, Any]:
    return {
        **envelope(message, "event_message", 1),
        "event_type": "compaction",
        "event_data": {
            "trigger": stats.get("trigger"),
            "context_token_estimate": stats.get("context_tokens_before"),
            "context_window": stats.get("context_window"),
        },
    }


def _packed(message: Message, stats: dict[str, Any] | None) -> dict[str, Any]:
    alert = {
        "type": "system_alert",
        "message": message.text,
        "time": second(message.created_at),
        "compaction_stats": stats,
    }
    return {**envelope(message, "user_message"), "content": msgspec.json.encode(alert).decode()}


def outcome(done: CompactionOutcome) -> dict[str, Any]:
    """Return the answer to a call of compaction; ``compaction_stats`` and ``notes`` are Eunoe's own."""
    return {
        "summary": done.summary,
        "num_messages_before": done.num_messages_before,
        "num_messages_after": done.num_messages_after,
        "compaction_stats": msgspec.to_builtins(done.stats),
        "notes": msgspec.to_builtins(done.notes),
    }
