"""What a run looks like in the terminal."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.cli.render import LINE_WIDTH, Renderer, call_line, exit_code_of, failure_sentence, return_lines
from eunoe.cli.terminal import Style, one_line, printable
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
from eunoe.state.messages import Message, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolReturnPart
from eunoe.state.runs import RunError, StopReason, Usage

GOLDEN = Path(__file__).parent / "golden"


def message(role: Role, *parts: Part, needs_approval: tuple[str, ...] = ()) -> Message:
    return Message(
        id="message-1",
        agent_id="agent-1",
        conversation_id="conv-1",
        role=role,
        parts=parts,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        needs_approval=needs_approval,
    )


def text(words: str, part: int = 0) -> TextDelta:
    return TextDelta(message_id="message-1", step_id="step-1", part=part, text=words)


def thought(words: str) -> ReasoningDelta:
    return ReasoningDelta(message_id="message-1", step_id="step-1", part=0, text=words)


def ended(reason: StopReason = "end_turn", error: RunError | None = None, steps: int = 1) -> RunEnded:
    return RunEnded(run_id="run-1", stop_reason=reason, usage=Usage(), step_count=steps, error=error)


def shown(*events: Event, colour: bool = False) -> str:
    out = io.StringIO()
    renderer = Renderer(out, Style(colour=colour))
    for event in events:
        renderer.show(event)
    return out.getvalue()


CALL = ToolCallPart(id="c1", name="memory_insert", arguments='{"label":"human","new_string":"Likes tea\\nand rain"}')
WHOLE_TURN: list[Event] = [
    RunStarted(run_id="run-1", agent_id="agent-1", conversation_id="conv-1"),
    MessageStored(message=message("user", TextPart(text="Remember: tea."))),
    thought("The user likes "),
    thought("tea."),
    text("I write ", 1),
    text("it down.", 1),
    ToolCallDelta(message_id="message-1", step_id="step-1", part=2, tool_call_id="c1", name="memory_insert"),
    ToolCallDelta(message_id="message-1", step_id="step-1", part=2, tool_call_id="c1", arguments=CALL.arguments),
    MessageStored(
        message=message("assistant", ReasoningPart(text="The user likes tea."), TextPart(text="I write it."), CALL),
        streamed=True,
    ),
    MessageStored(
        message=message(
            "tool",
            ToolReturnPart(tool_call_id="c1", name="memory_insert", content="one\ntwo\n\nthree\nfour\nfive"),
            ToolReturnPart(tool_call_id="c2", name="memory_replace", content="No such text.", status="error"),
        )
    ),
    StepEnded(step_id="step-1", usage=Usage()),
    text("Done."),
    MessageStored(message=message("assistant", TextPart(text="Done.")), streamed=True),
    StepEnded(step_id="step-2", usage=Usage()),
    ended(steps=2),
]


@pytest.mark.parametrize(("name", "colour"), [("turn.txt", False), ("turn-colour.txt", True)])
def test_a_whole_turn_looks_so(name: str, colour: bool) -> None:
    assert shown(*WHOLE_TURN, colour=colour) == (GOLDEN / name).read_text(encoding="utf-8")


def test_an_answer_that_was_not_streamed_is_shown_once_it_is_stored() -> None:
    stored = MessageStored(message=message("assistant", ReasoningPart(text="Hm."), TextPart(text="Yes.")))
    assert shown(stored, ended()) == "Hm.\nYes.\n"


def test_what_an_agent_says_by_its_speaking_tool_is_shown_as_its_answer() -> None:
    call = ToolCallPart(id="c1", name="send_message", arguments='{"message":"Good morning."}')
    sent = ToolReturnPart(tool_call_id="c1", name="send_message", content="Sent message successfully.")
    events = (MessageStored(message=message("assistant", call)), MessageStored(message=message("tool", sent)))
    assert shown(*events, ended("tool_rule")) == "Good morning.\n"


def test_a_cancelled_run_and_one_out_of_steps_say_so() -> None:
    assert shown(text("Once upon"), ended("cancelled")) == "Once upon\n(cancelled)\n"
    assert shown(ended("max_steps", steps=50)) == "(stopped after 50 steps; send a message to go on)\n"


def test_a_call_that_waits_for_a_person_says_so() -> None:
    asked = MessageStored(message=message("assistant", CALL, needs_approval=("c1",)))
    assert shown(asked).splitlines()[1] == "Waits for approval of 1 of these calls."


@given(st.text())
def test_no_text_can_command_the_terminal(words: str) -> None:
    told = shown(text(words), MessageStored(message=message("assistant", TextPart(text=words))), ended())
    assert not [character for character in told if ord(character) < 32 and character not in "\t\n"]
    assert not {"\x7f", "\x9b", "\u202e"} & set(told)


def test_an_escape_sequence_is_shown_and_not_obeyed() -> None:
    assert printable("\x1b[2Jgone\a\r\n") == "\ufffd[2Jgone\ufffd\n"


@given(st.text(), st.integers(2, 200))
def test_one_line_fits(words: str, width: int) -> None:
    line = one_line(words, width)
    assert len(line) <= width
    assert "\n" not in line


@given(name=st.text(min_size=1), arguments=st.text())
def test_a_call_is_one_line_whatever_a_model_writes(name: str, arguments: str) -> None:
    line = call_line(ToolCallPart(id="c", name=name, arguments=arguments))
    assert len(line) <= LINE_WIDTH
    assert "\n" not in line


def test_a_return_of_many_lines_is_cut() -> None:
    returned = ToolReturnPart(tool_call_id="c", name="x", content="\n".join(map(str, range(10))))
    assert return_lines(returned) == ["← ok: 0", "  1", "  2", "  … 7 more lines"]


def test_an_empty_return_says_that_it_is_empty() -> None:
    assert return_lines(ToolReturnPart(tool_call_id="c", name="x", content="")) == ["← ok: (nothing)"]


@pytest.mark.parametrize(
    ("reason", "error", "code", "sentence"),
    [
        ("end_turn", None, 0, None),
        ("requires_approval", None, 0, None),
        ("cancelled", None, 130, None),
        (
            "llm_api_error",
            RunError(type="llm_rate_limit", message="Rate limit exceeded.", detail="openai answered 429: slow down"),
            4,
            "Rate limit exceeded. openai answered 429: slow down Wait a little and send the message again.",
        ),
        (
            "error",
            RunError(type="internal_error", message="The disk is full.", detail="STORE_FULL"),
            3,
            "The disk is full.",
        ),
        ("error", RunError(type="internal_error", message="An unknown error occurred"), 1, "An unknown error occurred"),
        (
            "no_tool_call",
            None,
            4,
            "The model called no tool where its rules ask for one. Send the message again.",
        ),
    ],
)
def test_how_a_run_ends_is_a_sentence_and_an_exit_code(
    reason: StopReason, error: RunError | None, code: int, sentence: str | None
) -> None:
    assert exit_code_of(ended(reason, error)) == code
    assert failure_sentence(ended(reason, error)) == sentence
