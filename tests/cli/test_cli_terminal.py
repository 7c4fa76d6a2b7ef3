"""Chat in a real terminal: streaming, Ctrl-C, Ctrl-D and the commands of the chat."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli_rig import Cli, until

from model_servers.control import ModelServer

pytestmark = pytest.mark.slow

DIM = "\x1b[2m"
DEMO = {"EUNOE_MODEL": "scripted/demo"}


def with_server(server: ModelServer) -> dict[str, str]:
    server.models.append({"id": "gpt-4o"})
    return {"OPENAI_BASE_URL": server.base_url, "EUNOE_MODEL": "openai/gpt-4o"}


def test_a_person_talks_looks_around_and_leaves(cli: Cli) -> None:
    with cli.terminal("chat", env=DEMO) as terminal:
        terminal.expect("Talking with companion (scripted/demo).")
        terminal.expect("> ")
        terminal.type("remember that I like tea\n")
        terminal.expect("→ memory_insert(")
        terminal.expect("← ok: I like tea")
        terminal.expect("> ")
        terminal.type("/help\n")
        for command in ("/help", "/blocks", "/agent", "/exit"):
            terminal.expect(command)
        terminal.expect("> ")
        terminal.type("/blocks\n")
        terminal.expect("human (10 of 100000 characters)")
        terminal.expect("I like tea")
        terminal.expect("> ")
        terminal.type("/agent\n")
        terminal.expect("model scripted/demo")
        terminal.expect("> ")
        terminal.type("/fly\n")
        terminal.expect("There is no command /fly.")
        terminal.expect("> ")
        terminal.type("/etc/hosts is a file\n")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0
    assert "6 stored" in cli.done("agents", "show", "companion")


def test_reasoning_stands_back_and_no_color_is_obeyed(cli: Cli) -> None:
    with cli.terminal("chat", env=DEMO) as terminal:
        terminal.expect("> ")
        terminal.type("THINK:Hm.\\\nSAY:Yes.\n")
        assert f"{DIM}Hm." in terminal.expect("\nYes.").replace("\r", "")
    with cli.terminal("chat", env={"NO_COLOR": "1"}) as terminal:
        terminal.expect("> ")
        terminal.type("THINK:Hm.\\\nSAY:Yes.\n")
        assert DIM not in terminal.expect("\nYes.")


def test_a_failed_turn_is_told_and_the_talk_goes_on(cli: Cli) -> None:
    with cli.terminal("chat", env=DEMO) as terminal:
        terminal.expect("> ")
        terminal.type("ERROR:401\n")
        terminal.expect("Error: Authentication failed")
        terminal.expect("> ")
        terminal.type("SAY:still here\n")
        terminal.expect("\nstill here")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.leave() == 0


def test_text_streams_and_ctrl_c_cancels_the_turn_and_not_the_talk(cli: Cli, openai_server: ModelServer) -> None:
    with cli.terminal("chat", env=with_server(openai_server)) as terminal:
        terminal.expect("> ")
        openai_server.behave(hang_after=5)
        terminal.type("SAY:once upon a time there was a lighthouse\n")
        # It is shown although the answer has not ended: the server is silent in the middle of it.
        terminal.expect("\nonce upon")
        terminal.type("\x03")
        terminal.expect("(cancelled)")
        terminal.expect("> ")
        terminal.type("SAY:good morning\n")
        terminal.expect("\ngood morning")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.leave() == 0
    assert statuses(cli.store) == ["cancelled", "completed"]


def statuses(store: Path) -> list[str]:
    with closing(sqlite3.connect(store / "eunoe.db")) as connection:
        return [status for (status,) in connection.execute("SELECT status FROM runs ORDER BY created_at")]


def test_ctrl_c_before_the_first_word_cancels_too(cli: Cli, openai_server: ModelServer) -> None:
    with cli.terminal("chat", env=with_server(openai_server)) as terminal:
        terminal.expect("> ")
        openai_server.behave(hang=True)
        terminal.type("SAY:hello\n")
        terminal.expect("SAY:hello\r\n")
        until(lambda: openai_server.requests)
        terminal.type("\x03")
        terminal.expect("(cancelled)")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.leave() == 0
    assert statuses(cli.store) == ["cancelled"]


def test_ctrl_c_drops_the_line_and_twice_leaves(cli: Cli) -> None:
    with cli.terminal("chat", env=DEMO) as terminal:
        terminal.expect("> ")
        terminal.type("SAY:half a thou")
        terminal.expect("half a thou")
        terminal.press_until("\x03", "Press Ctrl-C again to leave.")
        terminal.expect("> ")
        terminal.type("SAY:whole\n")
        terminal.expect("\nwhole")
        terminal.expect("> ")
        terminal.press_until("\x03", "Press Ctrl-C again to leave.")
        terminal.expect("> ")
        terminal.press_until("\x03", "\n")
        assert terminal.leave() == 0
    agent = json.loads(cli.done("agents", "list", "--json"))[0]
    assert "2 stored" in cli.done("agents", "show", agent["id"])


def test_an_arrow_key_brings_the_last_message_back(cli: Cli) -> None:
    with cli.terminal("chat", env=DEMO) as terminal:
        terminal.expect("> ")
        terminal.type("SAY:again\n")
        terminal.expect("\nagain")
        terminal.expect("> ")
        terminal.type("\x1b[A\n")
        terminal.expect("\nagain")


def test_ctrl_c_in_a_script_cancels_the_turn_and_ends_with_130(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.behave(hang_after=5)
    with cli.terminal("chat", "-m", "SAY:once upon a time there was", env=with_server(openai_server)) as terminal:
        terminal.expect("once upon")
        terminal.type("\x03")
        assert terminal.leave() == 130
    assert statuses(cli.store) == ["cancelled"]
