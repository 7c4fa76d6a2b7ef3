"""MCP servers through the doors: a process that is killed in the middle of a call (I4), and Python."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from http_door import HttpDoor
from letta_client import Letta

import eunoe
from eunoe.state.errors import InvalidInput, McpError, NotFound
from eunoe.state.events import MessageStored
from mcp_servers.raw_server import raw_mcp

pytestmark = pytest.mark.slow


def client_of(door: HttpDoor) -> Letta:
    return Letta(base_url=door.url, api_key="none", max_retries=0, timeout=30)


def test_a_killed_server_closes_the_call_and_does_not_make_it_again(tmp_path: Path):
    with raw_mcp() as raw, HttpDoor(tmp_path, {}) as door:
        with client_of(door) as letta:
            config: Any = {"mcp_server_type": "sse", "server_url": f"{raw.root}/sse"}
            server = letta.mcp_servers.create(server_name="raw", config=config)
            (tool,) = letta.mcp_servers.tools.list(str(server.id))
            agent = letta.agents.create(model="scripted/demo", tool_ids=[tool.id])
            raw.behave["tools/call"] = "hang"
            letta.agents.messages.create_async(agent.id, input='TOOL:echo {"text":"once"}')
            deadline = time.monotonic() + 20
            while "tools/call" not in raw.asked:
                assert time.monotonic() < deadline
                threading.Event().wait(0.02)
        door.kill()
        raw.behave.clear()
        with client_of(door) as letta:
            (run,) = letta.runs.list(agent_id=agent.id).items
            assert (run.status, run.stop_reason) == ("failed", "error")
            assert run.completed_at is not None
            told: list[Any] = list(letta.agents.messages.list(agent.id, order="asc"))
            closed = [one for one in told if one.message_type == "tool_return_message"]
            assert [one.status for one in closed] == ["error"]
            assert "interrupted" in closed[0].tool_return.lower()
            assert raw.asked.count("tools/call") == 1
            answer: Any = letta.agents.messages.create(agent.id, input='TOOL:echo {"text":"anew"}').messages
            assert [one.tool_return for one in answer if one.message_type == "tool_return_message"] == ["anew"]


def test_the_python_door_adds_changes_and_removes_servers(tmp_path: Path):
    with raw_mcp() as raw, eunoe.open_sync(tmp_path, environment={}) as home:
        server = home.mcp.add("raw", url=f"{raw.root}/mcp", token="tok-secret")
        assert (server.kind, server.has_token, "secret" in repr(server)) == ("streamable_http", True, False)
        assert [tool.name for tool in home.mcp.tools("raw")] == ["echo"]
        agent = home.create_agent(model="scripted/demo", tools=("echo",))
        told = [event.message for event in agent.send('TOOL:echo {"text":"tides"}') if isinstance(event, MessageStored)]
        assert [part.content for message in told for part in message.tool_returns] == ["tides"]
        assert home.mcp.change("raw", name="sea").name == "sea"
        raw.tools = []
        assert [kept.name for kept in home.mcp.refresh(server.id).kept] == ["echo"]
        with pytest.raises(NotFound):
            home.mcp.tools("raw")
        with pytest.raises(InvalidInput, match="either a url or a command"):
            home.mcp.add("both")
        with pytest.raises(McpError, match="EUNOE_MCP_STDIO"):
            home.mcp.add("program", command="true")
        home.mcp.remove("sea")
        assert home.mcp.list() == []
        assert "echo" not in [tool.name for tool in agent.state().tools]
