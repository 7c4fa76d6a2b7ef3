"""What the doctor tells of MCP servers."""

import json
from datetime import UTC, datetime
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
