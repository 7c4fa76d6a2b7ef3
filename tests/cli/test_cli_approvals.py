"""Questions about tool calls: asked of a person, and denied where there is none."""

import json
import sqlite3
from contextlib import closing

import pytest
from cli_rig import LAMP, Cli
from hypothesis import given
from hypothesis import strategies as st

from eunoe.cli.asking import read_answer, whole_call
from eunoe.cli.questions import Policy
from eunoe.state.messages import ToolCallPart

INSERT = 'TOOL:memory_insert {"label": "human", "new_string": "Likes tea"}\\\nTHEN:\\\nSAY:Well then.\n'
PROMPT = "Allow it? y, n, or n and a reason: "


def answers(cli: Cli) -> list[tuple[bool, str | None]]:
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection:
        rows = connection.execute("SELECT answers FROM approvals ORDER BY asked_at").fetchall()
    return [(one["approve"], one.get("reason")) for (row,) in rows if row for one in json.loads(row)]


def test_without_a_terminal_calls_are_denied_and_the_talk_goes_on(cli: Cli) -> None:
    cli.asker("memory_insert")
    told = cli.done("chat", "Ada", text=INSERT + "SAY:Next.\n")
    assert told.splitlines()[-2:] == ["Well then.", "Next."]
    assert answers(cli) == [(False, "unattended: nobody can approve")]


@pytest.mark.slow
def test_a_person_sees_the_whole_call_and_says_yes_or_no(cli: Cli) -> None:
    cli.asker("memory_insert")
    with cli.terminal("chat", "Ada", env={"NO_COLOR": "1"}) as terminal:
        terminal.expect("> ")
        terminal.type(INSERT)
        terminal.expect("The agent asks to call memory_insert:\r\n  label: human\r\n  new_string: Likes tea\r\n")
        terminal.expect(PROMPT)
        terminal.type("maybe\n")
        terminal.expect(PROMPT)
        terminal.type("y\n")
        terminal.expect("← ok: Likes tea")
        terminal.expect("Well then.")
        terminal.expect("> ")
        terminal.type(INSERT)
        terminal.expect(PROMPT)
        terminal.type("n I prefer coffee\n")
        terminal.expect("denied. User reason: I prefer coffee")
        terminal.expect("Well then.")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0
    assert answers(cli) == [(True, None), (False, "I prefer coffee")]


@pytest.mark.slow
def test_a_question_that_was_left_open_is_asked_at_the_next_start(cli: Cli) -> None:
    cli.asker("memory_insert")
    with cli.terminal("chat", "Ada") as terminal:
        terminal.expect("> ")
        terminal.type(INSERT)
        terminal.expect(PROMPT)
        terminal.type("\x04")
        terminal.expect("The question stays open.")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0
    assert answers(cli) == []
    assert "waits for an answer" in cli.done("conversations", "list", "Ada")
    with cli.terminal("chat", "Ada") as terminal:
        terminal.expect("The agent asks to call memory_insert:")
        terminal.expect(PROMPT)
        terminal.type("y\n")
        terminal.expect("Well then.")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0
    assert answers(cli) == [(True, None)]
    assert cli.done("blocks", "show", "Ada", "human") == "Likes tea\n"


@pytest.mark.slow
def test_a_message_typed_at_an_open_question_goes_after_its_answer(cli: Cli) -> None:
    cli.asker("memory_insert")
    with cli.terminal("chat", "Ada") as terminal:
        terminal.expect("> ")
        terminal.type(INSERT)
        terminal.expect(PROMPT)
        terminal.press_until("\x03", "The question stays open.")
        terminal.expect("> ")
        terminal.type("SAY:And now.\n")
        terminal.expect(PROMPT)
        terminal.type("n\n")
        terminal.expect("\nAnd now.")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0


@pytest.mark.slow
def test_a_call_of_another_program_can_only_be_closed(cli: Cli) -> None:
    agent_id = cli.asker()
    cli.ask_beside(agent_id, "TOOL:lamp {}\nTHEN:\nSAY:Dark, then.", LAMP)
    with cli.terminal("chat", "Ada") as terminal:
        terminal.expect("The agent asks to call lamp:")
        terminal.expect("Only the program that brought this tool can run it.")
        terminal.type("n\n")
        terminal.expect("The question stays open.")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0
    with cli.terminal("chat", "Ada") as terminal:
        terminal.expect("Close the call as failed? y or n: ")
        terminal.type("y\n")
        terminal.expect("lamp is a tool of a client, and that client is not here.")
        terminal.expect("Dark, then.")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0


@pytest.mark.slow
def test_one_message_at_a_terminal_waits_for_its_question(cli: Cli) -> None:
    cli.asker("memory_insert")
    with cli.terminal("chat", "Ada", "-m", INSERT.replace("\\\n", "\n")) as terminal:
        terminal.expect(PROMPT)
        terminal.type("\x04")
        terminal.expect("The question stays open.")
        assert terminal.leave() == 0
    with cli.terminal("chat", "Ada", "-m", "SAY:Hello.") as terminal:
        terminal.expect(PROMPT)
        terminal.type("\x04")
        terminal.expect("Error: The message was not sent: a question waits for an answer.")
        assert terminal.leave() == 2


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", (True, None)),
        (" YES ", (True, None)),
        ("n", (False, None)),
        ("no, thank you", (False, "thank you")),
        ("n: not today", (False, "not today")),
        ("", None),
        ("yes but not there", None),
        ("never", None),
    ],
)
def test_only_a_plain_yes_is_a_yes(line: str, answer: tuple[bool, str | None] | None) -> None:
    assert read_answer(line) == answer


@given(st.text())
def test_no_line_but_yes_approves(line: str) -> None:
    answer = read_answer(line)
    if answer is not None and answer[0]:
        assert line.strip().casefold().rstrip(",.:") in {"y", "yes"}


def test_a_call_is_shown_whole_and_cannot_command_the_terminal() -> None:
    call = ToolCallPart(id="c", name="x", arguments=json.dumps({"code": "one\ntwo\x1b[2J" + "z" * 500, "n": [1, 2]}))
    assert whole_call(call) == ["code: one", "  two\ufffd[2J" + "z" * 500, "n: [1,2]"]
    assert whole_call(ToolCallPart(id="c", name="x", arguments="not json")) == ["not json"]
    assert whole_call(ToolCallPart(id="c", name="x", arguments="")) == ["(no arguments)"]


@given(st.frozensets(st.sampled_from("abc")), st.frozensets(st.sampled_from("abc")), st.booleans())
def test_deny_wins_over_every_approval(approve: frozenset[str], deny: frozenset[str], everything: bool) -> None:
    policy = Policy(approve=approve, deny=deny, everything=everything)
    assert {name for name in "abc" if policy.allows(name)} == (set("abc") if everything else set(approve)) - deny
