"""What the wire shows of a stored message."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.server.wire.envelope import otid_for
from eunoe.server.wire.messages import View, listed, roles_of, shown
from eunoe.state.messages import (
    ApprovalPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)

SHAPES: dict[str, list[str]] = json.loads((Path(__file__).parent / "golden" / "shapes.json").read_text())
ID = "message-0001acb3-617a-4f2e-b5ab-5087d45c3edb"
OTID = "0001acb3-617a-4f2e-b5ab-5087d45c3e80"


def message(role: Any, *parts: Part, **fields: Any) -> Message:
    base: dict[str, Any] = {
        "id": ID,
        "agent_id": "agent-1",
        "conversation_id": "conv-1",
        "created_at": datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC),
        "step_id": "step-1",
        "run_id": "run-1",
    }
    return Message(role=role, parts=parts, **(base | fields))


def bodies(value: Message, view: View | None = None) -> list[dict[str, Any]]:
    return [item.body for item in shown(value, view or View())]


CALL = ToolCallPart(id="call_1", name="memory_replace", arguments='{"label":"human"}')
OTHER = ToolCallPart(id="call_2", name="look_up", arguments="{}")
RETURN = ToolReturnPart(tool_call_id="call_1", name="memory_replace", content="Done.")

EXAMPLES = {
    "reasoning_message": message("assistant", ReasoningPart(text="hm", signature="s")),
    "assistant_message": message("assistant", TextPart(text="hello")),
    "tool_call_message": message("assistant", CALL),
    "tool_return_message": message("tool", RETURN),
    "approval_request_message": message("assistant", CALL, needs_approval=("call_1",)),
    "user_message": message("user", TextPart(text="hi")),
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_message_has_the_keys_of_the_wire_in_its_order(kind: str):
    (body,) = bodies(EXAMPLES[kind])
    assert body["message_type"] == kind
    assert list(body) == SHAPES[kind]


def test_parts_become_messages_in_their_order_with_one_id_and_own_otids():
    stored = message("assistant", ReasoningPart(text="let me see"), TextPart(text="done"), CALL, OTHER)
    thought, said, called = bodies(stored)
    assert [m["message_type"] for m in (thought, said, called)] == [
        "reasoning_message",
        "assistant_message",
        "tool_call_message",
    ]
    assert {m["id"] for m in (thought, said, called)} == {ID}
    assert [m["otid"] for m in (thought, said, called)] == [OTID, OTID[:-2] + "81", OTID[:-2] + "82"]
    assert (thought["reasoning"], said["content"]) == ("let me see", "done")
    assert called["tool_call"] == {
        "name": "memory_replace",
        "arguments": '{"label":"human"}',
        "tool_call_id": "call_1",
    }
    assert [call["tool_call_id"] for call in called["tool_calls"]] == ["call_1", "call_2"]


def test_otids_are_those_that_were_observed():
    assert otid_for("message-42f57c48-e199-4506-afa4-4be8a69ddf3a", 0) == "42f57c48-e199-4506-afa4-4be8a69ddf00"
    assert otid_for("message-42f57c48-e199-4506-afa4-4be8a69ddf3a", 1) == "42f57c48-e199-4506-afa4-4be8a69ddf01"
    assert otid_for("message-71968001-5d7d-45a0-bf2e-9af9f30349c0", 0) == "71968001-5d7d-45a0-bf2e-9af9f3034980"


def test_a_user_message_keeps_the_otid_that_its_client_gave():
    assert bodies(message("user", TextPart(text="hi"), otid="mine"))[0]["otid"] == "mine"


def test_texts_that_follow_each_other_are_one_message_and_empty_ones_none():
    stored = message("assistant", TextPart(text="a"), TextPart(text="b"), CALL, TextPart(text=""))
    assert [(m["message_type"], m.get("content")) for m in bodies(stored)] == [
        ("assistant_message", "ab"),
        ("tool_call_message", None),
    ]


@pytest.mark.parametrize(
    ("part", "state", "text"),
    [(ReasoningPart(redacted="xyz"), "redacted", "xyz"), (ReasoningPart(signature="s"), "omitted", None)],
)
def test_hidden_reasoning_says_that_it_is_hidden(part: ReasoningPart, state: str, text: str | None):
    (body,) = bodies(message("assistant", part))
    assert (body["message_type"], body["state"], body["hidden_reasoning"]) == ("hidden_reasoning_message", state, text)


def test_several_returns_are_one_message_whose_deprecated_fields_are_the_first():
    failed = ToolReturnPart(
        tool_call_id="call_2", name="look_up", content="No.", status="error", stdout=("a",), stderr=("b",)
    )
    (body,) = bodies(message("tool", RETURN, failed))
    assert list(body["tool_returns"][0]) == SHAPES["tool_return"]
    assert (body["name"], body["tool_return"], body["status"]) == ("memory_replace", "Done.", "success")
    assert body["tool_returns"][1] == {
        "type": "tool",
        "tool_return": "No.",
        "status": "error",
        "tool_call_id": "call_2",
        "stdout": ["a"],
        "stderr": ["b"],
    }


def test_S06_a_turn_that_ends_by_approval_shows_the_call_that_waits():
    plain, waiting = bodies(message("assistant", OTHER, CALL, needs_approval=("call_1",)))
    assert plain["message_type"] == "tool_call_message"
    assert [call["tool_call_id"] for call in plain["tool_calls"]] == ["call_2"]
    assert waiting["message_type"] == "approval_request_message"
    assert waiting["otid"] == waiting["id"] == ID
    assert waiting["tool_call"]["name"] == "memory_replace"
    assert waiting["tool_calls"] == [waiting["tool_call"]]


def test_an_answer_to_an_approval_request_is_listed():
    parts = (ApprovalPart(tool_call_id="call_1", approve=False, reason="not now"), RETURN)
    (body,) = bodies(message("approval", *parts))
    assert body["approvals"][0] == {
        "type": "approval",
        "tool_call_id": "call_1",
        "approve": False,
        "reason": "not now",
    }
    assert body["approvals"][1]["tool_return"] == "Done."
    assert (body["approve"], body["reason"]) == (False, "not now")


def test_images_are_shown_as_they_came():
    (body,) = bodies(message("user", TextPart(text="see"), ImagePart(data="QUJD", media_type="image/png")))
    assert body["content"] == [
        {"type": "text", "text": "see", "signature": None},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD", "detail": None}},
    ]


SPEAKS = View(speech_tool="send_message")


def test_a_speaking_agents_call_is_its_message_and_its_text_a_thought():
    speech = ToolCallPart(id="c", name="send_message", arguments='{"message":"Hello!"}')
    thought, said = bodies(message("assistant", TextPart(text="I greet."), speech), SPEAKS)
    assert (thought["message_type"], thought["source"]) == ("reasoning_message", "non_reasoner_model")
    assert thought["reasoning"] == "I greet."
    assert (said["message_type"], said["content"]) == ("assistant_message", "Hello!")
    spoken = ToolReturnPart(tool_call_id="c", name="send_message", content="Sent message successfully.")
    assert bodies(message("tool", spoken), SPEAKS) == []


def test_speech_that_cannot_be_read_is_shown_as_the_call_that_it_is():
    broken = ToolCallPart(id="c", name="send_message", arguments='{"message":')
    assert bodies(message("assistant", broken), SPEAKS)[0]["message_type"] == "tool_call_message"
    assert bodies(message("assistant", broken))[0]["message_type"] == "tool_call_message"


def test_newest_first_reverses_what_one_message_is_shown_as_too():
    stored = message("assistant", ReasoningPart(text="r"), TextPart(text="t"))
    kinds = [body["message_type"] for body in listed([stored], View(), newest_first=True)]
    assert kinds == ["assistant_message", "reasoning_message"]


def test_only_the_types_that_were_asked_for_are_listed():
    stored = message("assistant", ReasoningPart(text="r"), TextPart(text="t"))
    kept = listed([stored], View(types=frozenset({"assistant_message"})))
    assert [body["content"] for body in kept] == ["t"]
    assert roles_of(["reasoning_message", "assistant_message", "tool_return_message"]) == ("assistant", "tool")


@given(offset=st.integers(-14 * 60, 14 * 60))
def test_A03_a_messages_date_is_the_same_instant_with_an_offset(offset: int):
    zone = timezone(timedelta(minutes=offset))
    here = datetime(2026, 3, 4, 12, 0, 0, 5, tzinfo=UTC).astimezone(zone)
    (body,) = bodies(message("user", TextPart(text="x"), created_at=here))
    assert body["date"] == "2026-03-04T12:00:00+00:00"


def test_what_the_runtime_told_the_model_is_not_listed_as_a_users_message():
    nudge = message("user", TextPart(text="Call the tool first."), meta={"nudge": ["look_up"]})
    assert bodies(nudge) == []
    assert [body["content"] for body in bodies(message("user", TextPart(text="Hello.")))] == ["Hello."]
