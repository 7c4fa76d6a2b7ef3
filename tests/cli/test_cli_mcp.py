"""MCP servers in the terminal, and what the doctor tells of them."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_rig import Cli

from eunoe.runtime.mcp_servers import ServerChanges, add_server, new_server
from eunoe.runtime.runtime import Runtime
from eunoe.state.mcp import McpKind
from mcp_servers.raw_server import ECHO, RawMcp, raw_mcp

pytestmark = pytest.mark.slow


def add(cli: Cli, raw: RawMcp, name: str, kind: McpKind = "streamable_http") -> None:
    async def work(runtime: Runtime) -> None:
        now = datetime.now(UTC)
        url = raw.root + ("/sse" if kind == "sse" else "/mcp")
        server, secrets = new_server(kind, ServerChanges(name=name, url=url, token="tok-secret"), now)
        await add_server(runtime, server, secrets, now)

    cli.beside(work)


def test_the_doctor_asks_each_server_for_its_tools(cli: Cli) -> None:
    with raw_mcp() as raw:
        add(cli, raw, "well")
        add(cli, raw, "loud", "sse")
        raw.headers.clear()
        raw.tools = [ECHO, {"name": "spoilt", "inputSchema": 7}]
        result = cli.run("doctor", "--json")
        found: dict[str, Any] = {check["name"]: check for check in json.loads(result.stdout)}
        assert found["MCP server well"]["status"] == "warning"
        assert found["MCP server loud"]["found"] == (
            "reachable; 1 tools; cannot be taken: spoilt (its inputSchema is not a JSON object)"
        )
        assert {one["authorization"] for one in raw.headers} == {"Bearer tok-secret"}
        raw.tools = [ECHO]
        assert "MCP server well: reachable; 1 tools" in cli.run("doctor").stdout
    result = cli.run("doctor", "--json")
    assert result.exit_code == 1
    found = {check["name"]: check for check in json.loads(result.stdout)}
    assert found["MCP server well"]["status"] == "failed"
    assert "cannot be reached" in found["MCP server well"]["found"]
    assert "secret" not in result.output.replace("key for secrets", "").replace("secret.key", "")


def test_servers_are_added_listed_refreshed_and_removed(cli: Cli) -> None:
    with raw_mcp() as raw:
        told = cli.done("mcp", "add", "sea", f"{raw.root}/sse", "--sse", "--token-from", "T", env={"T": "tok-secret"})
        assert told == "added: echo\n"
        assert {one["authorization"] for one in raw.headers} == {"Bearer tok-secret"}
        cli.done("agents", "create", "--name", "Ada", "--model", "scripted/demo", "--tool", "echo")
        assert "tides" in cli.done("run", "Ada", "-p", 'TOOL:echo {"text":"tides"}', "--json")
        (server,) = json.loads(cli.done("mcp", "list", "--json"))
        assert (server["name"], server["kind"], server["has_token"]) == ("sea", "sse", True)
        assert f"{raw.root}/sse" in cli.done("mcp", "list")
        raw.tools = [{**ECHO, "name": "shout"}, {"name": "spoilt", "inputSchema": 7}]
        result = cli.run("mcp", "refresh", "sea")
        assert result.stdout == "added: shout\ngone from the server, kept for 1 agents: echo\n"
        assert "spoilt cannot be taken: its inputSchema is not a JSON object" in result.stderr
        listed = cli.done("mcp", "tools", "sea")
        assert "gone from the server" in listed
        assert "shout" in listed
    cli.done("mcp", "remove", "sea")
    assert json.loads(cli.done("mcp", "list", "--json")) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sea", "http://127.0.0.1:9/mcp"), "cannot be reached"),
        (("sea", "http://a.example/", "more"), "takes no arguments"),
        (("sea", "http://a.example/", "--token-from", "NOT_SET"), "NOT_SET is not set"),
        (("sea", "http://a.example/", "--header", "X-Key"), "NAME=VARIABLE"),
        (("sea", "--sse", "--", "server", "-v"), "A program takes no --sse"),
        (("sea", "--", "server", "-v"), "EUNOE_MCP_STDIO=1"),
    ],
)
def test_what_cannot_be_added_is_told_in_a_sentence(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    result = cli.run("mcp", "add", *arguments)
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith("Error: ")
    assert words in result.stderr
    assert json.loads(cli.done("mcp", "list", "--json")) == []


def test_a_program_is_added_with_the_variables_that_it_is_given(cli: Cli) -> None:
    good = str(Path(__file__).parents[1] / "mcp_servers" / "good_server.py")
    allowed = {"EUNOE_MCP_STDIO": "1", "PASS": "pass-word"}
    told = cli.done("mcp", "add", "prog", "--env", "PASS", "--", sys.executable, good, "stdio", env=allowed)
    assert "added: variable\n" in told
    (server,) = json.loads(cli.done("mcp", "list", "--json"))
    assert (server["kind"], server["args"], server["env_names"]) == ("stdio", [good, "stdio"], ["PASS"])
