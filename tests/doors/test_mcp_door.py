"""A server that is killed in the middle of a call of an MCP tool: the call is not made again (I4), and is told."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from http_door import HttpDoor
from letta_client import Letta

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
