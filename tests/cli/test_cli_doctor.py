"""The doctor: what it finds, what it advises, and that it changes nothing and tells no key."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_rig import Cli

from model_servers.control import ModelServer, event

KEY = "sk-very-secret-key"


def checks(cli: Cli, *arguments: str, env: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    result = cli.run("doctor", "--json", *arguments, env=env)
    found = {check["name"]: check for check in json.loads(result.stdout)}
    failed = any(check["status"] == "failed" for check in found.values())
    assert result.exit_code == int(failed)
    assert all(check["found"] for check in found.values())
    assert all(check["advice"] for check in found.values() if check["status"] == "warning")
    return found


def with_server(server: ModelServer, **more: str) -> dict[str, str]:
    server.models.append({"id": "gpt-4o", "context_window": 8_192})
    return {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY, **more}


def statuses(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: check["status"] for name, check in found.items()}


def test_an_empty_home_is_well_and_stays_empty(cli: Cli) -> None:
    found = checks(cli)
    assert {"Python", "SQLite", "home", "disk", "store", "key for secrets", "server"} <= set(found)
    assert found["store"]["found"] == f"none yet; {cli.store / 'eunoe.db'} will be made"
    assert not cli.store.exists()


def test_a_store_in_use_is_looked_through(cli: Cli) -> None:
    cli.done("chat", "--model", "scripted/demo", "-m", "SAY:hello")
    found = checks(cli)
    assert found["integrity"]["found"] == "every page and index is whole"
    assert found["schema"]["found"] == "up to date"
    assert found["runs"]["found"] == "none interrupted"


def test_a_run_that_a_dead_process_left_is_told_and_not_touched(cli: Cli) -> None:
    cli.done("chat", "--model", "scripted/demo", "-m", "SAY:hello")
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection:
        connection.execute("UPDATE runs SET status = 'running', completed_at = NULL")
        connection.commit()
    for _ in range(2):
        assert checks(cli)["runs"]["found"] == "1 without an end"


def test_a_store_of_a_newer_eunoe_is_told(cli: Cli) -> None:
    cli.done("agents", "list", "--json")
    with closing(sqlite3.connect(cli.store / "eunoe.db")) as connection:
        connection.execute("INSERT INTO migrations (name, applied_at) VALUES ('9999_later', 0)")
        connection.commit()
    found = checks(cli)["schema"]
    assert found["status"] == "failed"
    assert "Upgrade Eunoe" in found["found"]


def test_a_store_that_another_process_keeps_locked_is_told(cli: Cli) -> None:
    cli.done("chat", "--model", "scripted/demo", "-m", "SAY:hello")
    assert checks(cli)["lock"] == {"name": "lock", "status": "ok", "found": "free to write", "advice": None}
    with closing(sqlite3.connect(cli.store / "eunoe.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = checks(cli)["lock"]
    assert found["status"] == "failed"
    assert "Another process held the write lock" in found["found"]


def test_a_damaged_store_is_told(cli: Cli) -> None:
    cli.done("chat", "--model", "scripted/demo", "-m", "SAY:hello")
    path = cli.store / "eunoe.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'messages'").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    found = checks(cli)
    damaged = found.get("integrity", found["store"])
    assert damaged["status"] == "failed"
    assert "backup" in damaged["found"] + (damaged["advice"] or "")


def test_a_file_that_is_no_store_is_told(cli: Cli) -> None:
    cli.store.mkdir()
    (cli.store / "eunoe.db").write_text("a letter" * 1000)
    assert "not an SQLite database" in checks(cli)["store"]["found"]


def test_a_home_that_is_a_file_is_told(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = checks(cli, env={"EUNOE_HOME": str(tmp_path / "file" / "home")})
    assert found["home"]["status"] == "failed"
    assert "--home" in found["home"]["advice"]


def test_a_key_file_that_others_can_read_is_told(cli: Cli) -> None:
    cli.store.mkdir()
    key = cli.store / "secret.key"
    key.write_text("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
    key.chmod(0o644)
    assert checks(cli)["key for secrets"]["advice"] == f"chmod 600 {key}"
    key.write_text("not a key")
    assert checks(cli)["key for secrets"]["status"] == "failed"


@pytest.mark.parametrize(
    ("env", "status"),
    [
        ({}, "ok"),
        ({"EUNOE_TOKEN": "x" * 32}, "ok"),
        ({"EUNOE_TOKEN": "short"}, "warning"),
        ({"EUNOE_HOST": "0.0.0.0"}, "failed"),  # noqa: S104 - to be refused
    ],
)
def test_an_open_server_is_refused_and_a_short_token_warned_of(cli: Cli, env: dict[str, str], status: str) -> None:
    assert checks(cli, env=env)["server"]["status"] == status


def test_a_good_model_passes_every_check(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.key = KEY
    found = checks(cli, "--model", "openai/gpt-4o", env=with_server(openai_server))
    assert found["openai"]["found"] == "reachable; has gpt-4o"
    assert found["openai/gpt-4o: answer"]["status"] == "ok"
    assert "streamed in" in found["openai/gpt-4o: answer"]["found"]
    # The test's server is the scripted model, which calls no tool when it is asked in English.
    assert found["openai/gpt-4o: tool call"]["status"] == "warning"
    assert openai_server.requests[1]["tools"][0]["function"]["name"] == "report_word"


def test_the_first_model_of_a_provider_is_checked_when_none_is_named(cli: Cli, openai_server: ModelServer) -> None:
    found = checks(cli, env=with_server(openai_server))
    assert "openai/gpt-4o: answer" in found
    assert "openai-responses" not in found


def test_the_demo_model_passes_every_check(cli: Cli) -> None:
    found = statuses(checks(cli, "--model", "scripted/demo"))
    assert {name: found[f"scripted/demo: {name}"] for name in ("window", "answer", "tool call")} == {
        "window": "ok",
        "answer": "ok",
        "tool call": "ok",
    }


def test_a_window_smaller_than_the_model_s_is_told(cli: Cli, openai_server: ModelServer) -> None:
    found = checks(cli, "--model", "openai/gpt-4o", env=with_server(openai_server))["openai/gpt-4o: window"]
    assert found["status"] == "warning"
    assert found["found"] == "8192 tokens as the endpoint runs it, of 128000 that the model can have"


def test_a_wrong_key_is_told_by_its_variable_and_never_shown(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.key = "another"
    result = cli.run("doctor", env=with_server(openai_server))
    assert result.exit_code == 1
    assert "FAILED   openai: " in result.stdout
    assert "OPENAI_API_KEY" in result.stdout
    assert KEY not in result.output


def test_a_server_that_is_down_is_told_with_its_address(cli: Cli) -> None:
    found = checks(cli, env={"OLLAMA_BASE_URL": "http://127.0.0.1:9"})["ollama"]
    assert found["status"] == "failed"
    assert "http://127.0.0.1:9" in found["found"]
    assert "OLLAMA_BASE_URL" in found["found"]


def test_a_model_that_says_nothing_is_given_up_after_the_timeout(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.behave(hang=True)
    found = checks(cli, "--model", "openai/gpt-4o", "--timeout", "0.5", env=with_server(openai_server))
    assert found["openai/gpt-4o: answer"]["found"] == "no answer within 0.5 seconds"
    assert "openai/gpt-4o: tool call" not in found


def test_an_answer_in_one_piece_is_told(cli: Cli, openai_server: ModelServer) -> None:
    openai_server.behave(whole=True)
    found = checks(cli, "--model", "openai/gpt-4o", env=with_server(openai_server))
    assert found["openai/gpt-4o: answer"]["found"] == "came in one piece"


def test_a_model_that_is_not_there_is_told_with_those_that_are(cli: Cli, openai_server: ModelServer) -> None:
    found = checks(cli, "--model", "openai/gpt-9", env=with_server(openai_server))
    assert "openai/gpt-4o" in found["openai/gpt-9: window"]["found"]


@pytest.mark.parametrize(
    ("words", "read", "status"),
    [("Lighthouse.", 6_100, "ok"), ("Which word?", 2_048, "failed"), ("Sea?", 6_100, "warning")],
)
def test_a_probe_finds_out_whether_a_long_prompt_is_read_from_its_beginning(
    cli: Cli, openai_server: ModelServer, words: str, read: int, status: str
) -> None:
    usage = {"prompt_tokens": read, "completion_tokens": 3, "total_tokens": read + 3}
    choice = {"index": 0, "delta": {"content": words}, "finish_reason": "stop"}
    openai_server.behave(times=2)
    openai_server.behave(raw=event({"choices": [choice], "usage": usage}) + event("[DONE]"))
    env = with_server(openai_server)
    found = checks(cli, "--model", "openai/gpt-4o", "--probe", env=env)["openai/gpt-4o: probe"]
    prompt = openai_server.requests[-1]["messages"][-1]["content"]
    assert prompt.startswith("The secret word is lighthouse.")
    assert 0.5 * 8_192 < len(prompt) / 4 < 8_192
    assert found["status"] == status
    assert str(read if status != "warning" else "about 6") in found["found"]


def test_people_get_lines_and_a_sum(cli: Cli) -> None:
    lines = cli.done("doctor", "--model", "scripted/demo").splitlines()
    assert lines[0] == "ok       Python: " + ".".join(map(str, sys.version_info[:3]))
    assert lines[-1].endswith(" failed")
