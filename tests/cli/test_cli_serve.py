"""``eunoe serve`` as a process: it says where it is, serves, and stops when it is told to."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import httpx2
import pytest
from cli_rig import PATIENCE, Cli, environment

pytestmark = pytest.mark.slow


@contextmanager
def serving(cli: Cli, *arguments: str) -> Generator[tuple[subprocess.Popen[str], list[str]]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "eunoe", "serve", "--port", "0", *arguments],
        env=environment(cli.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        try:
            yield process, [process.stdout.readline().rstrip(), process.stdout.readline().rstrip()]
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_is_serves_and_stops(cli: Cli, number: signal.Signals) -> None:
    with serving(cli) as (process, (store, address)):
        assert store == f"Store: {cli.store / 'eunoe.db'}"
        url = address.removeprefix("Eunoe listens on ")
        assert httpx2.get(f"{url}/v1/health/", timeout=PATIENCE).json()["status"] == "ok"
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0


def test_O01_a_server_on_the_same_store_has_the_agents_and_one_on_another_path_warns(cli: Cli) -> None:
    warning = "there was no store at"
    with serving(cli, "--log", "json") as (process, (_, address)):
        url = f"{address.removeprefix('Eunoe listens on ')}/v1/agents/"
        made = httpx2.post(url, json={"name": "Ada", "model": "scripted/demo"}, timeout=PATIENCE).json()
        process.kill()
        assert warning in process.communicate(timeout=PATIENCE)[1]
    with serving(cli, "--log", "json") as (process, (_, address)):
        url = f"{address.removeprefix('Eunoe listens on ')}/v1/agents/"
        assert [agent["id"] for agent in httpx2.get(url, timeout=PATIENCE).json()] == [made["id"]]
        process.kill()
        assert warning not in process.communicate(timeout=PATIENCE)[1]
    wrong = cli.home / "mounted-elsewhere"
    with serving(cli, "--log", "json", "--home", str(wrong)) as (process, (store, _)):
        assert store == f"Store: {wrong / 'eunoe.db'}"
        process.kill()
        assert f"{warning} {wrong / 'eunoe.db'}" in process.communicate(timeout=PATIENCE)[1]


def test_A06_a_conversation_that_is_named_is_opened_beside_another_process(cli: Cli) -> None:
    cli.done("run", "-p", "SAY:one", "--model", "scripted/demo")
    fork = cli.done("conversations", "fork", "companion").strip()
    with serving(cli) as (_, (_, address)):
        said = cli.process("run", "-p", "SAY:two", "--conversation", fork)
        assert (said.returncode, said.stdout) == (0, "two\n")
        url = f"{address.removeprefix('Eunoe listens on ')}/v1/conversations/{fork}/messages"
        listed = httpx2.get(url, params={"order": "asc"}, timeout=PATIENCE).json()
    spoken = [message["content"] for message in listed if message["message_type"] == "assistant_message"]
    assert spoken == ["one", "two"]


def test_a_token_is_asked_for(cli: Cli) -> None:
    with serving(cli, "--token", "a-long-and-random-token") as (_, (_, address)):
        url = f"{address.removeprefix('Eunoe listens on ')}/v1/agents/"
        shown = {"Authorization": "Bearer a-long-and-random-token"}
        assert httpx2.get(url, timeout=PATIENCE).status_code == 401
        assert httpx2.get(url, timeout=PATIENCE, headers=shown).json() == []


def test_the_log_can_be_json(cli: Cli) -> None:
    with serving(cli, "--log", "json", "--log-level", "info") as (process, _):
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
    lines = [json.loads(line) for line in log.splitlines()]
    assert lines
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)


def test_a_port_in_use_is_a_sentence(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = cli.process("serve", "--port", str(port))
    assert result.returncode == 2
    assert result.stderr == (
        f"Error: Port {port} on 127.0.0.1 is already in use. "
        "Stop the program that has it, or choose another with --port.\n"
    )


def test_an_address_open_to_others_is_refused_without_a_token(cli: Cli) -> None:
    result = cli.process("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - to be refused
    assert result.returncode == 2
    assert "EUNOE_TOKEN" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_store_that_cannot_be_opened_ends_it_with_3(cli: Cli) -> None:
    cli.store.mkdir()
    (cli.store / "eunoe.db").write_text("a letter" * 1000)
    result = cli.process("serve", "--port", "0")
    assert result.returncode == 3
    assert result.stderr.splitlines()[-1].startswith("Error: The file ")


def test_a_script_gets_exit_code_and_streams_apart(cli: Cli) -> None:
    result = cli.process("chat", "--model", "scripted/demo", text="SAY:one\nERROR:503\n")
    assert result.stdout == "one\n"
    assert result.returncode == 4
    assert "Traceback" not in result.stderr
