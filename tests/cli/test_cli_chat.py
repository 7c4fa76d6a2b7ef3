"""Chat without a terminal: one message, lines of a file, and which agent is meant."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from cli_rig import Cli

from model_servers.control import ModelServer


def names(cli: Cli) -> list[str]:
    return [agent["name"] for agent in json.loads(cli.done("agents", "list", "--json"))]


def demo(cli: Cli, *arguments: str, text: str | None = None) -> str:
    return cli.done("chat", *arguments, text=text, env={"EUNOE_MODEL": "scripted/demo"})


def test_the_first_chat_creates_a_companion_that_remembers_in_the_next_process(cli: Cli) -> None:
    first = demo(cli, "-m", "remember that I like tea")
    assert "→ memory_insert(" in first
    assert "← ok: " in first
    assert "tea" in demo(cli, "-m", "what do you know about me?")
    assert names(cli) == ["companion"]
    assert cli.done("blocks", "show", "companion", "human") == "I like tea\n"


def test_each_line_of_a_file_is_a_message_and_a_backslash_joins_lines(cli: Cli) -> None:
    told = demo(cli, text="SAY:one\n\nSAY:two\\\nSAY:lines\n   \nSAY:last")
    assert told == "one\ntwo\nlines\nlast\n"


def test_a_turn_that_fails_ends_the_program_and_the_rest_is_not_sent(cli: Cli) -> None:
    result = cli.run("chat", "--model", "scripted/demo", text="SAY:before\nERROR:401\nSAY:after\n")
    assert result.exit_code == 4
    assert result.stdout == "before\n"
    assert "Error: Authentication failed" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_agent_that_was_used_last_goes_on(cli: Cli) -> None:
    demo(cli, "--new", "First", "-m", "SAY:1")
    demo(cli, "--new", "Second", "-m", "SAY:2")
    demo(cli, "First", "-m", "SAY:3")
    demo(cli, "-m", "SAY:4")
    stored = {agent["name"]: agent["id"] for agent in json.loads(cli.done("agents", "list", "--json"))}
    assert sorted(stored) == ["First", "Second"]
    assert "6 stored" in cli.done("agents", "show", "First")


@pytest.mark.slow
def test_two_chats_with_one_agent_wait_for_each_other_and_both_are_heard(cli: Cli) -> None:
    cli.done("agents", "create", "--model", "scripted/demo", "--name", "Ada", "--human", "")

    def chat(name: str) -> tuple[int, str]:
        said = "".join(f"remember that {name}{number}\n" for number in range(4))
        done = cli.process("chat", "Ada", text=said)
        return done.returncode, done.stderr

    with ThreadPoolExecutor() as pool:
        assert [code for code, _ in pool.map(chat, "ab")] == [0, 0]
    kept = cli.done("blocks", "show", "Ada", "human").split()
    assert sorted(kept) == [f"{name}{number}" for name in "ab" for number in range(4)]


def test_an_agent_that_is_not_there_is_not_made_by_mistake(cli: Cli) -> None:
    result = cli.run("chat", "Adda", "-m", "hello")
    assert result.exit_code == 2
    assert names(cli) == []


def test_a_message_that_cannot_be_stored_is_refused_by_its_character(cli: Cli) -> None:
    result = cli.run("chat", "--model", "scripted/demo", "-m", "a\x1bb")
    assert result.exit_code == 2
    assert "U+001B" in result.stderr


def test_another_model_answers_for_one_chat_and_the_agent_keeps_its_own(cli: Cli, openai_server: ModelServer) -> None:
    demo(cli, "-m", "SAY:mine")
    openai_server.models.append({"id": "gpt-4o"})
    env = {"OPENAI_BASE_URL": openai_server.base_url, "OPENAI_API_KEY": "sk-1"}
    assert cli.done("chat", "--model", "openai/gpt-4o", "-m", "SAY:other", env=env) == "other\n"
    assert openai_server.requests[0]["model"] == "gpt-4o"
    assert json.loads(cli.done("agents", "list", "--json"))[0]["model"] == "scripted/demo"


def test_a_model_that_is_not_there_is_refused_before_anything_is_sent(cli: Cli, openai_server: ModelServer) -> None:
    demo(cli, "-m", "SAY:mine")
    openai_server.models.append({"id": "gpt-4o"})
    env = {"OPENAI_BASE_URL": openai_server.base_url}
    result = cli.run("chat", "--model", "openai/gpt-5", "-m", "hello", env=env)
    assert result.exit_code == 2
    assert "openai/gpt-4o" in result.stderr


def test_the_first_model_of_a_configured_provider_is_taken(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.models.append({"id": "gpt-4o"})
    cli.done("chat", "-m", "SAY:hello", env={"OPENAI_BASE_URL": openai_server.base_url})
    assert json.loads(cli.done("agents", "list", "--json"))[0]["model"] == "openai/gpt-4o"


def test_a_configured_provider_that_is_down_is_not_replaced_by_the_demo(cli: Cli) -> None:
    result = cli.run("chat", "-m", "hello", env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert result.exit_code == 2
    assert "`eunoe doctor` says why" in result.stderr
    assert names(cli) == []


@pytest.mark.slow
def test_a_terminal_that_is_not_unicode_ends_nothing(cli: Cli) -> None:
    result = cli.process(
        "chat",
        *("--model", "scripted/demo", "-m", "remember that I like tea"),
        env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    )
    assert result.returncode == 0
    assert "\\u2192 memory_insert(" in result.stdout


def test_input_that_is_no_text_is_refused_in_a_sentence(cli: Cli) -> None:
    result = cli.run("chat", "--model", "scripted/demo", text=b"SAY:one\n\xff\xfe\n")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("Error: The ")
    assert "Traceback" not in result.stderr
