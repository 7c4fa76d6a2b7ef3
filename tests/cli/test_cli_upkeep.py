"""Conversations, runs and the check of an agent, from the command line."""

import json
import re
import sqlite3
from contextlib import closing

import pytest
from cli_rig import Cli, until

from eunoe.runtime.conversations import ConversationSpec, create_conversation
from model_servers.control import ModelServer

DEMO = {"EUNOE_MODEL": "scripted/demo"}


def conversations(cli: Cli) -> list[dict[str, object]]:
    listed = json.loads(cli.done("conversations", "list", "companion", "--json"))
    return [{**one["conversation"], "messages": one["messages"]} for one in listed]


def test_a_conversation_is_forked_listed_talked_in_and_deleted(cli: Cli) -> None:
    cli.done("chat", "-m", "SAY:one", env=DEMO)
    first = json.loads(cli.done("run", "-p", "SAY:two", "--json"))
    fork = cli.done("conversations", "fork", "companion", "--at", first["messages"][0]["id"]).strip()
    assert fork.startswith("conv-")
    cli.done("chat", "companion", "--conversation", fork, "-m", "SAY:three")
    assert [(one["is_default"], one["messages"]) for one in conversations(cli)] == [(True, 4), (False, 6)]
    table = cli.done("conversations", "list", "companion")
    assert fork in table
    assert "default" in table
    assert cli.run("conversations", "delete", "companion", fork, text="n\n").exit_code == 1
    assert cli.run("conversations", "delete", "companion", fork, "--yes").exit_code == 0
    assert [one["is_default"] for one in conversations(cli)] == [True]


def test_the_default_conversation_stays_and_says_what_to_do(cli: Cli) -> None:
    cli.done("chat", "-m", "SAY:one", env=DEMO)
    result = cli.run("conversations", "delete", "companion", str(conversations(cli)[0]["id"]), "--yes")
    assert result.exit_code == 2
    assert "Reset the agent's messages, or delete the agent." in result.stderr


@pytest.mark.parametrize("command", [("chat", "-m", "hello"), ("run", "-p", "hello")])
def test_a_conversation_of_another_agent_is_not_talked_in(cli: Cli, command: tuple[str, ...]) -> None:
    cli.done("chat", "-m", "SAY:one", env=DEMO)
    theirs = str(conversations(cli)[0]["id"])
    cli.done("chat", "--new", "Other", "-m", "SAY:one", env=DEMO)
    result = cli.run(command[0], "Other", "--conversation", theirs, *command[1:])
    assert result.exit_code == 2
    assert f"has no conversation {theirs}; it is one of agent agent-" in result.stderr


def test_a_conversation_is_answered_by_its_own_model_unless_another_is_named(
    cli: Cli, openai_server: ModelServer
) -> None:
    openai_server.models.append({"id": "gpt-4o"})
    env = {**DEMO, "OPENAI_BASE_URL": openai_server.base_url}
    cli.done("chat", "-m", "SAY:one", env=env)
    spec = ConversationSpec(agent_id=str(conversations(cli)[0]["agent_id"]), model="openai/gpt-4o")
    own = cli.beside(lambda runtime: create_conversation(runtime, spec), env).id
    cli.done("chat", "--conversation", own, "--model", "scripted/demo", "-m", "SAY:two", env=env)
    assert openai_server.requests == []
    cli.done("chat", "--conversation", own, "-m", "SAY:three", env=env)
    assert [request["model"] for request in openai_server.requests] == ["gpt-4o"]


def test_runs_are_listed_and_one_that_is_over_stays_as_it_is(cli: Cli) -> None:
    assert cli.run("runs", "list").stderr == "There are no such runs.\n"
    cli.done("chat", "-m", "SAY:one", env=DEMO)
    (run,) = json.loads(cli.done("runs", "list", "companion", "--json"))
    assert (run["status"], run["stop_reason"]) == ("completed", "end_turn")
    assert run["id"] in cli.done("runs", "list")
    assert json.loads(cli.done("runs", "list", "--active", "--json")) == []
    result = cli.run("runs", "cancel", run["id"])
    assert (result.exit_code, result.stderr) == (0, f"Run {run['id']} was over before: completed.\n")


def test_a_run_that_is_not_there_is_not_found(cli: Cli) -> None:
    assert cli.run("runs", "cancel", "run-00000000-0000-4000-8000-000000000000").exit_code == 2


@pytest.mark.slow
def test_a_run_of_another_process_is_cancelled(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.behave(hang_after=5)
    openai_server.models.append({"id": "gpt-4o"})
    env = {"OPENAI_BASE_URL": openai_server.base_url, "EUNOE_MODEL": "openai/gpt-4o"}
    with cli.terminal("chat", "-m", "SAY:once upon a time there was", env=env) as terminal:
        terminal.expect("once upon")
        (run,) = json.loads(cli.done("runs", "list", "--active", "--json"))
        result = cli.run("runs", "cancel", run["id"])
        assert (result.exit_code, result.stderr) == (0, f"Run {run['id']} ended: cancelled.\n")
        terminal.expect("(cancelled)")
        assert terminal.leave() == 130


def test_a_broken_agent_is_told_of_and_healed(cli: Cli) -> None:
    cli.done("chat", "-m", "remember that I like tea", env=DEMO)
    assert cli.done("agents", "check", "companion") == "All is as it must be.\n"
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection, connection:
        connection.execute(
            "DELETE FROM conversation_messages WHERE message_id IN (SELECT id FROM messages WHERE role = 'tool')"
        )
    broken = cli.run("agents", "check", "companion")
    assert broken.exit_code == 1
    lost, unpaired = broken.stdout.splitlines()
    assert lost.startswith("I1 message message-")
    assert unpaired.startswith("I3 conversation conv-")
    assert "calls that have no return" in unpaired
    healed = cli.done("agents", "check", "companion", "--repair")
    assert healed.startswith("healed: Put message message-")
    assert json.loads(cli.done("agents", "check", "companion", "--json"))["ok"] is True


@pytest.mark.slow
def test_a_chat_is_compacted_and_its_conversations_are_shown(cli: Cli) -> None:
    cli.done("chat", text="SAY:one\nSAY:two\nSAY:three\n", env=DEMO)
    with cli.terminal("chat", env={**DEMO, "NO_COLOR": "1"}) as terminal:
        terminal.expect("> ")
        terminal.type("/compact\n")
        terminal.expect("7 messages became ")
        terminal.expect("; all of them stay in the store.")
        terminal.expect("> ")
        terminal.type("/conversations\n")
        terminal.expect("*   conv-")
        # The id stands on one line, so that it can be copied.
        assert re.match(r"[0-9a-f-]{36} ", terminal.expect("> "))
        terminal.type("/exit\n")
        assert terminal.leave() == 0


@pytest.mark.slow
def test_nothing_to_compact_is_told_and_the_talk_goes_on(cli: Cli) -> None:
    with cli.terminal("chat", env=DEMO) as terminal:
        terminal.expect("> ")
        terminal.type("/compact\n")
        terminal.expect("has no messages that could go out of view")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0


@pytest.mark.slow
def test_ctrl_c_ends_a_compaction_and_the_talk_goes_on(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.models.append({"id": "gpt-4o"})
    env = {"OPENAI_BASE_URL": openai_server.base_url, "EUNOE_MODEL": "openai/gpt-4o"}
    cli.done("chat", text="SAY:one\nSAY:two\nSAY:three\n", env=env)
    with cli.terminal("chat", env=env) as terminal:
        terminal.expect("> ")
        openai_server.behave(hang=True)
        asked = len(openai_server.requests)
        terminal.type("/compact\n")
        until(lambda: len(openai_server.requests) > asked)
        terminal.type("\x03")
        terminal.expect("Press Ctrl-C again to leave.")
        terminal.expect("> ")
        terminal.type("SAY:still here\n")
        terminal.expect("\nstill here")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0
    assert [one["messages"] for one in conversations(cli)] == [8]
