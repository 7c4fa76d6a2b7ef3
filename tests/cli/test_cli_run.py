"""One message with nobody there: policy, limits and exit codes."""

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from cli_rig import LAMP, Cli, until

from model_servers.control import ModelServer

INSERT = 'TOOL:memory_insert {"label": "human", "new_string": "Likes tea"}\nTHEN:\nSAY:Noted or not.'
DENIED = "Denied (unattended: nobody can approve): → memory_insert("


def told(cli: Cli, *arguments: str) -> dict[str, Any]:
    return json.loads(cli.done("run", "--json", *arguments))


def returns(outcome: dict[str, Any]) -> list[tuple[str, str]]:
    parts = [part for message in outcome["messages"] if message["role"] == "tool" for part in message["parts"]]
    return [(part.get("status", "success"), part["content"]) for part in parts]


def statuses(cli: Cli) -> list[str]:
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection:
        return [status for (status,) in connection.execute("SELECT status FROM runs ORDER BY created_at")]


def open_questions(cli: Cli) -> int:
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection:
        return connection.execute("SELECT COUNT(*) FROM approvals WHERE answered_at IS NULL").fetchone()[0]


def test_the_answer_and_nothing_else_is_written(cli: Cli) -> None:
    result = cli.run(
        "run", "-p", "SAY:Looking.\nTOOL:conversation_search {}\nTHEN:\nSAY:Found.", "--model", "scripted/demo"
    )
    assert (result.exit_code, result.stdout) == (0, "Found.\n")


def test_the_message_comes_from_the_input_too(cli: Cli) -> None:
    assert cli.done("run", "-p", "-", "--model", "scripted/demo", text="SAY:From\nSAY:afar.\n") == "From\nafar.\n"


def test_L10_a_call_that_nobody_can_approve_is_denied_with_a_reason_and_the_agent_goes_on(cli: Cli) -> None:
    cli.asker("memory_insert")
    result = cli.run("run", "Ada", "-p", INSERT)
    assert (result.exit_code, result.stdout) == (0, "Noted or not.\n")
    assert result.stderr.startswith(DENIED)
    assert open_questions(cli) == 0
    assert cli.done("blocks", "show", "Ada", "human") == "\n"


def test_a_tool_that_is_named_is_approved(cli: Cli) -> None:
    agent_id = cli.asker("memory_insert")
    outcome = told(cli, agent_id, "-p", INSERT, "--approve", "memory_insert")
    assert outcome["stop_reason"] == "end_turn"
    assert outcome["answer"] == "Noted or not."
    assert outcome["denied"] == []
    assert len(outcome["run_ids"]) == 2
    assert outcome["run_id"] == outcome["run_ids"][1]
    assert outcome["steps"] == 2
    assert outcome["usage"]["completion_tokens"] > 0
    assert [message["role"] for message in outcome["messages"]] == ["assistant", "tool", "assistant"]
    assert cli.done("blocks", "show", "Ada", "human") == "Likes tea\n"


def test_L22_deny_wins_and_a_denial_is_a_tool_result(cli: Cli) -> None:
    cli.asker("memory_insert")
    outcome = told(cli, "Ada", "-p", INSERT, "--approve-all", "--approve", "memory_insert", "--deny", "memory_insert")
    assert returns(outcome) == [
        ("error", "Error: request to call tool denied. User reason: unattended: nobody can approve")
    ]
    assert (outcome["answer"], outcome["denied"][0]["name"]) == ("Noted or not.", "memory_insert")


def test_approving_all_approves_what_is_not_denied(cli: Cli) -> None:
    cli.asker("memory_insert", "memory_replace")
    cli.done("run", "Ada", "-p", INSERT, "--approve-all", "--deny", "memory_replace")
    assert cli.done("blocks", "show", "Ada", "human") == "Likes tea\n"


def test_a_tool_that_the_agent_does_not_have_is_refused_before_anything_is_sent(cli: Cli) -> None:
    cli.asker("memory_insert")
    result = cli.run("run", "Ada", "-p", INSERT, "--approve-all", "--deny", "memory_inset")
    assert result.exit_code == 2
    assert "Error: The agent has no tool 'memory_inset'. Its tools: " in result.stderr
    assert statuses(cli) == []


def test_L10_a_question_from_before_is_denied_and_the_message_is_answered(cli: Cli) -> None:
    agent_id = cli.asker("memory_insert")
    cli.ask_beside(agent_id, INSERT)
    outcome = told(cli, "Ada", "-p", "SAY:Good morning.", "--approve-all")
    assert outcome["answer"] == "Good morning."
    assert returns(outcome)[0][1].endswith("unattended: nobody can approve")
    assert open_questions(cli) == 0
    assert cli.done("blocks", "show", "Ada", "human") == "\n"


def test_a_question_whose_time_is_over_is_closed_as_such(cli: Cli) -> None:
    agent_id = cli.asker("memory_insert")
    cli.ask_beside(agent_id, INSERT)
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection, connection:
        connection.execute("UPDATE approvals SET expires_at = asked_at")
    outcome = told(cli, "Ada", "-p", "SAY:Good morning.")
    assert (outcome["answer"], outcome["denied"]) == ("Good morning.", [])
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection:
        assert connection.execute("SELECT answered_by FROM approvals").fetchall() == [("timeout",)]


def test_a_call_of_a_client_that_is_not_here_gets_an_error_return(cli: Cli) -> None:
    agent_id = cli.asker()
    cli.ask_beside(agent_id, "TOOL:lamp {}", LAMP)
    outcome = told(cli, "Ada", "-p", "SAY:Good morning.", "--approve-all")
    assert returns(outcome) == [
        ("error", "Error: lamp is a tool of a client, and that client is not here. The call was not made.")
    ]
    assert outcome["answer"] == "Good morning."


def test_a_model_that_asks_for_ever_is_stopped_and_leaves_no_question(cli: Cli) -> None:
    cli.asker("memory_insert")
    asking = "\nTHEN:\n".join(
        f'TOOL:memory_insert {{"label": "human", "new_string": "{number}"}}' for number in range(60)
    )
    outcome = told(cli, "Ada", "-p", asking)
    assert outcome["stop_reason"] == "max_steps"
    assert len(outcome["run_ids"]) == 51
    assert open_questions(cli) == 0


def test_a_turn_that_fails_says_why_and_ends_with_the_code_of_its_kind(cli: Cli) -> None:
    result = cli.run("run", "-p", "ERROR:401", "--model", "scripted/demo", "--json")
    assert result.exit_code == 4
    outcome = json.loads(result.stdout)
    assert (outcome["stop_reason"], outcome["error"]["type"]) == ("llm_api_error", "llm_authentication")
    assert "Error: Authentication failed" in result.stderr


def with_server(server: ModelServer) -> dict[str, str]:
    server.models.append({"id": "gpt-4o"})
    return {"OPENAI_BASE_URL": server.base_url, "EUNOE_MODEL": "openai/gpt-4o"}


def test_what_takes_too_long_is_cancelled_and_ends_with_124(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.behave(hang_after=5)
    result = cli.run(
        *("run", "-p", "SAY:once upon a time there was", "--timeout", "0.5", "--json"), env=with_server(openai_server)
    )
    assert result.exit_code == 124
    outcome = json.loads(result.stdout)
    assert (outcome["stop_reason"], outcome["timed_out"]) == ("cancelled", True)
    assert outcome["answer"].startswith("once upon")
    assert result.stderr.endswith("Error: The time limit of 0.5 seconds is over.\n")
    assert statuses(cli) == ["cancelled"]


@pytest.mark.slow
def test_ctrl_c_cancels_the_run_and_ends_with_130(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.behave(hang=True)
    with cli.terminal("run", "-p", "SAY:hello", env=with_server(openai_server)) as terminal:
        terminal.expect("Created companion")
        until(lambda: openai_server.requests)
        terminal.press_until("\x03", "^C")
        assert terminal.leave() == 130
    assert statuses(cli) == ["cancelled"]


@pytest.mark.slow
def test_ctrl_c_before_the_run_has_begun_ends_with_130_too(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.behave(hang=True)
    with cli.terminal("run", "-p", "SAY:hello", env=with_server(openai_server)) as terminal:
        terminal.expect("Created companion")
        terminal.press_until("\x03", "^C")
        assert terminal.leave() == 130


def test_a_conversation_of_its_own_is_talked_in(cli: Cli) -> None:
    cli.done("run", "-p", "SAY:one", "--model", "scripted/demo")
    fork = cli.done("conversations", "fork", "companion").strip()
    assert told(cli, "-p", "SAY:two", "--conversation", fork)["conversation_id"] == fork
    counts = {
        one["conversation"]["id"] == fork: one["messages"]
        for one in json.loads(cli.done("conversations", "list", "companion", "--json"))
    }
    assert counts == {True: 4, False: 2}
