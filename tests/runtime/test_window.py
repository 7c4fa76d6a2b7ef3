"""Calls and their returns in a window, as pure decisions: what is broken is found, and closing it mends it (I3)."""

from datetime import UTC, datetime
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from runtime_rig import assert_paired

from eunoe.runtime.window import closing_message, unanswered, unique_call_ids
from eunoe.state.messages import Message, Part, Role, TextPart, ToolCallPart, ToolReturnPart

_NOW: Final = datetime(2026, 5, 1, tzinfo=UTC)


def _message(number: int, role: Role, *parts: Part) -> Message:
    return Message(
        id=f"message-{number}", agent_id="agent-1", conversation_id="conv-1", role=role, parts=parts, created_at=_NOW
    )


def _call(call_id: str) -> ToolCallPart:
    return ToolCallPart(id=call_id, name="memory_insert", arguments="{}")


@st.composite
def _windows(draw: st.DrawFn) -> list[Message]:
    """Draw a window with text and calls, any of whose returns may be missing, in one tool message or in several."""
    window: list[Message] = []
    for turn in range(draw(st.integers(0, 6))):
        calls = [_call(f"call_{turn}_{number}") for number in range(draw(st.integers(0, 3)))]
        role: Role = "assistant" if calls else draw(st.sampled_from(["user", "assistant"]))
        window.append(_message(len(window), role, TextPart(text="Text."), *calls))
        if calls and draw(st.booleans()):
            window.append(_message(len(window), "approval", TextPart(text="Yes.")))
        kept = [call for call in calls if draw(st.booleans())]
        cut = draw(st.integers(0, len(kept)))
        for group in filter(None, (kept[:cut], kept[cut:])):
            returns = [ToolReturnPart(tool_call_id=call.id, name=call.name, content="Done.") for call in group]
            window.append(_message(len(window), "tool", *returns))
    return window


@given(_windows())
def test_closing_what_is_unanswered_makes_every_window_paired(window: list[Message]) -> None:
    healed = list(window)
    for broken in unanswered(window):
        closing = closing_message(broken.message, broken.calls, "Unknown.", run_id=None, now=_NOW)
        assert all(part.status == "error" for part in closing.tool_returns)
        healed.insert(healed.index(broken.after) + 1, closing)
    _assert_every_call_is_returned([message for message in healed if message.role != "approval"])
    assert unanswered(healed) == []
    assert [message for message in healed if message in window] == window


def _assert_every_call_is_returned(window: list[Message]) -> None:
    assert_paired(window)
    called = [call.id for message in window for call in message.tool_calls]
    returned = [part.tool_call_id for message in window for part in message.tool_returns]
    assert sorted(returned) == sorted(called)


@given(
    st.lists(st.sampled_from(["", "call_1", "call_2", "call_3"]), max_size=6),
    st.sets(st.sampled_from(["call_1", "call_2", "call_9"])),
)
def test_call_ids_are_made_unique_and_good_ones_are_kept(ids: list[str], taken: set[str]) -> None:
    renamed = unique_call_ids([_call(call_id) for call_id in ids], taken)
    final = [renamed.get(index, call_id) for index, call_id in enumerate(ids)]
    assert all(final)
    assert len(set(final)) == len(final)
    assert not set(final) & taken
    for index, call_id in enumerate(ids):
        good = call_id != "" and call_id not in taken and call_id not in ids[:index]
        assert (final[index] == call_id) is good
