"""A run's events as frames."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from eunoe.server.wire.messages import View
from eunoe.server.wire.stream import Narrator, frame, ping
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
from eunoe.state.messages import Message, ReasoningPart, TextPart, ToolCallPart
from eunoe.state.runs import RunError, Usage

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = "message-2fcb58e3-e490-44f1-b43f-6ccc03d1c95d"


def stored(*parts: Any, **fields: Any) -> Message:
    return Message(
        id=ID,
        agent_id="a",
        conversation_id="c",
        role=fields.pop("role", "assistant"),
        parts=parts,
        created_at=NOW,
        **fields,
    )


def told(narrator: Narrator, *events: Event) -> list[dict[str, Any]]:
    return [body for event in events for body in narrator.tell(event, NOW)]


def text(part: int, piece: str) -> TextDelta:
    return TextDelta(message_id=ID, step_id="s", part=part, text=piece)


def call(piece: str | None = None, name: str | None = None, key: str = "c1", part: int = 0) -> ToolCallDelta:
    return ToolCallDelta(message_id=ID, step_id="s", part=part, tool_call_id=key, name=name, arguments=piece)


def test_S04_text_arrives_in_pieces_with_the_id_and_otid_of_the_message_that_is_stored():
    narrator = Narrator("run-1", View(), tokens=True)
    bodies = told(
        narrator,
        text(0, "one "),
        text(0, "two"),
        MessageStored(message=stored(TextPart(text="one two")), streamed=True),
    )
    assert [body["content"] for body in bodies] == ["one ", "two"]
    assert {body["id"] for body in bodies} == {ID}
    assert {body["otid"] for body in bodies} == {"2fcb58e3-e490-44f1-b43f-6ccc03d1c900"}
    assert {body["message_type"] for body in bodies} == {"assistant_message"}


def test_a_calls_pieces_are_single_objects_without_null_keys():
    bodies = told(Narrator("run-1", View(), tokens=True), call(name="look_up"), call('{"a"'), call(":1}"))
    assert [body["tool_calls"] for body in bodies] == [
        {"name": "look_up", "tool_call_id": "c1"},
        {"arguments": '{"a"', "tool_call_id": "c1"},
        {"arguments": ":1}", "tool_call_id": "c1"},
    ]
    assert all(body["tool_call"] == body["tool_calls"] for body in bodies)


def test_without_tokens_only_whole_messages_are_told():
    message = stored(TextPart(text="hello"))
    bodies = told(Narrator("r", View(), tokens=False), text(0, "hello"), MessageStored(message=message, streamed=True))
    assert [body["content"] for body in bodies] == ["hello"]


def test_what_was_not_shown_in_pieces_is_told_whole():
    message = stored(ReasoningPart(redacted="x"), TextPart(text="hello"))
    bodies = told(Narrator("r", View(), tokens=True), text(1, "hello"), MessageStored(message=message, streamed=True))
    assert [body["message_type"] for body in bodies] == ["assistant_message", "hidden_reasoning_message"]


def gated(piece: str | None = None, name: str | None = None) -> ToolCallDelta:
    return ToolCallDelta(message_id=ID, step_id="s", part=1, tool_call_id="c1", name=name, arguments=piece, gated=True)


def test_S06_a_call_that_waits_for_an_answer_streams_as_a_request_and_is_told_once():
    waiting = ToolCallPart(id="c1", name="guarded", arguments='{"a":1}')
    message = stored(TextPart(text="I ask."), waiting, needs_approval=("c1",))
    pieces = (text(0, "I ask."), gated(name="guarded"), gated('{"a"'), gated(":1}"))
    bodies = told(Narrator("r", View(), tokens=True), *pieces, MessageStored(message=message, streamed=True))
    assert [body["message_type"] for body in bodies] == ["assistant_message", *["approval_request_message"] * 3]
    assert [body["tool_call"] for body in bodies[1:]] == [
        {"name": "guarded", "tool_call_id": "c1"},
        {"arguments": '{"a"', "tool_call_id": "c1"},
        {"arguments": ":1}", "tool_call_id": "c1"},
    ]
    whole = told(Narrator("r", View(), tokens=False), MessageStored(message=message))
    assert {(body["id"], body["otid"]) for body in bodies[1:]} == {(whole[1]["id"], whole[1]["otid"])}


def test_a_call_that_was_taken_for_one_that_waits_and_is_refused_is_told_again_as_what_it_is():
    refused = ToolCallPart(id="c1", name="guarded", arguments="{}")
    message = stored(TextPart(text="I ask."), refused)
    pieces = (text(0, "I ask."), gated(name="guarded"), gated("{}"))
    bodies = told(Narrator("r", View(), tokens=True), *pieces, MessageStored(message=message, streamed=True))
    assert (bodies[-1]["message_type"], bodies[-1]["tool_call"]["name"]) == ("tool_call_message", "guarded")


def test_speech_by_tool_is_told_whole():
    speech = ToolCallPart(id="c1", name="send_message", arguments='{"message":"Hi"}')
    events = (call(name="send_message"), call('{"message":"Hi"}'), MessageStored(message=stored(speech), streamed=True))
    bodies = told(Narrator("r", View(speech_tool="send_message"), tokens=True), *events)
    assert [(body["message_type"], body["content"]) for body in bodies] == [("assistant_message", "Hi")]


def test_the_callers_own_messages_and_steps_are_not_told():
    events = (
        RunStarted(run_id="r", agent_id="a", conversation_id="c"),
        MessageStored(message=stored(TextPart(text="hi"), role="user")),
        StepEnded(step_id="s", usage=Usage()),
    )
    assert told(Narrator("r", View(), tokens=True), *events) == []


def test_compaction_is_told_as_event_and_summary_to_those_who_ask_and_packed_to_others():
    stats = {"trigger": "manual", "context_tokens_before": 900, "context_window": 1000}
    event = MessageStored(
        message=stored(TextPart(text="Earlier: maps."), role="summary", meta={"compaction_stats": stats})
    )
    happened, summary = told(Narrator("r", View(compaction="events"), tokens=False), event)
    assert (happened["message_type"], happened["event_type"]) == ("event_message", "compaction")
    assert happened["event_data"] == {"trigger": "manual", "context_token_estimate": 900, "context_window": 1000}
    assert (summary["message_type"], summary["summary"]) == ("summary_message", "Earlier: maps.")
    assert summary["compaction_stats"] == stats
    assert happened["otid"] != summary["otid"]
    (packed,) = told(Narrator("r", View(compaction="packed"), tokens=False), event)
    assert packed["message_type"] == "user_message"
    inside = json.loads(packed["content"])
    assert (inside["type"], inside["message"], inside["compaction_stats"]) == ("system_alert", "Earlier: maps.", stats)


def test_S03_what_is_told_again_from_a_number_on_is_what_was_told_after_it():
    message = stored(TextPart(text="one two"), ToolCallPart(id="c1", name="look_up", arguments="{}"))
    events = (
        text(0, "one "),
        text(0, "two"),
        call(name="look_up", part=1),
        call("{}", part=1),
        MessageStored(message=message, streamed=True),
        ended(),
    )
    everything = told(Narrator("r", View(), tokens=True, numbered=True), *events)
    assert [body["seq_id"] for body in everything] == [1, 2, 3, 4, 5, 6]
    for after in range(8):
        again = told(Narrator("r", View(), tokens=True, numbered=True, after=after), *events)
        assert [body["seq_id"] for body in again] == list(range(after + 1, 7))
        assert [body | {"date": ""} for body in again] == [body | {"date": ""} for body in everything[after:]]


def ended(error: RunError | None = None) -> RunEnded:
    return RunEnded(
        run_id="run-1",
        stop_reason="error" if error else "end_turn",
        usage=Usage(prompt_tokens=7),
        step_count=1,
        error=error,
    )


def test_a_stream_ends_with_stop_reason_and_usage_whatever_types_are_wanted():
    wanted = View(types=frozenset({"assistant_message"}))
    reason, usage = told(Narrator("r", wanted, tokens=False), ended())
    assert reason == {"message_type": "stop_reason", "stop_reason": "end_turn"}
    assert (usage["message_type"], usage["total_tokens"]) == ("usage_statistics", 7)


def test_a_failure_is_an_error_event_after_the_usage():
    failed = ended(RunError(type="llm_timeout", message="Too slow.", detail="after 60 s"))
    failure = frame(told(Narrator("r", View(), tokens=False), failed)[2])
    assert failure.startswith(b"event: error\ndata: ")
    assert json.loads(failure.partition(b"data: ")[2]) == {
        "message_type": "error_message",
        "run_id": "run-1",
        "error_type": "llm_timeout",
        "message": "Too slow.",
        "detail": "after 60 s",
        "seq_id": None,
    }


def test_a_frame_is_one_line_whatever_the_text():
    body = frame({"content": "a\n\ndata: [DONE]\r\n\u2028"})
    assert body.count(b"\n") == 2
    assert body.endswith(b"\n\n")
    assert b"\r" not in body


def test_a_ping_carries_the_run():
    assert ping("run-1", NOW)["run_id"] == "run-1"


@settings(max_examples=50)
@given(
    parts=st.lists(
        st.tuples(st.sampled_from(["text", "reasoning", "call"]), st.text(min_size=1, max_size=8)),
        min_size=1,
        max_size=6,
    ),
    chunk=st.integers(1, 3),
)
def test_pieces_joined_by_otid_are_what_is_stored(parts: list[tuple[str, str]], chunk: int):
    stored_parts: list[Any] = []
    events: list[Event] = []
    for index, (kind, value) in enumerate(parts):
        pieces = [value[i : i + chunk] for i in range(0, len(value), chunk)]
        if kind == "text":
            stored_parts.append(TextPart(text=value))
            events += [text(index, piece) for piece in pieces]
        elif kind == "reasoning":
            stored_parts.append(ReasoningPart(text=value))
            events += [ReasoningDelta(message_id=ID, step_id="s", part=index, text=piece) for piece in pieces]
        else:
            stored_parts.append(ToolCallPart(id=f"c{index}", name="t", arguments=value))
            events.append(call(name="t", key=f"c{index}", part=index))
            events += [call(piece, key=f"c{index}", part=index) for piece in pieces]
    message = stored(*stored_parts)
    streamed = told(Narrator("r", View(), tokens=True), *events, MessageStored(message=message, streamed=True))
    whole = told(Narrator("r", View(), tokens=False), MessageStored(message=message, streamed=True))

    def joined(bodies: list[dict[str, Any]]) -> dict[str, str]:
        out: dict[str, str] = {}
        for body in bodies:
            calls = body.get("tool_calls") or []
            listed = calls if isinstance(calls, list) else [calls]
            said = body.get("content") or body.get("reasoning") or "".join(c.get("arguments", "") for c in listed)
            out[body["otid"]] = out.get(body["otid"], "") + said
        return out

    assert joined(streamed) == joined(whole)
