"""Starting, stopping and starting again."""

import json
import logging
import socket
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from letta_client import Letta

from eunoe.runtime.runtime import open_runtime
from eunoe.runtime.settings import Settings
from eunoe.server.serve import Binding, JsonLines, PortInUse, serve
from eunoe.state.errors import InvalidInput, StoreUnwritable

pytestmark = pytest.mark.slow


def test_an_agent_is_whole_after_the_server_was_started_again(tmp_path: Path, serve_home: Any):
    with serve_home(tmp_path) as url, Letta(base_url=url, api_key="none") as client:
        agent = client.agents.create(model="scripted/demo", memory_blocks=[{"label": "human", "value": "Likes maps."}])
        client.agents.messages.create(agent.id, input="SAY:before")
        prompt = client.agents.recompile(agent.id, dry_run=True)
        messages = [message.id for message in client.agents.messages.list(agent.id)]
    with serve_home(tmp_path) as url, Letta(base_url=url, api_key="none") as client:
        assert client.agents.recompile(agent.id, dry_run=True) == prompt
        assert [message.id for message in client.agents.messages.list(agent.id)] == messages
        found = client.agents.retrieve(agent.id, include=["agent.blocks"])
        assert found.blocks[0].value == "Likes maps."
        answer: Any = client.agents.messages.create(agent.id, input="SAY:after").messages[0]
        assert answer.content == "after"


def test_a_token_is_asked_for(tmp_path: Path, serve_home: Any):
    with serve_home(tmp_path, token="secret") as url:
        with httpx2.Client(base_url=url) as http:
            refused = http.get("/v1/agents/")
            assert (refused.status_code, refused.json()) == (401, {"detail": "Unauthorized"})
            assert http.get("/v1/health/").status_code == 200
        with Letta(base_url=url, api_key="secret") as client:
            assert client.agents.list().items == []


def test_a_stream_of_a_silent_run_is_kept_alive_by_pings(tmp_path: Path, serve_home: Any):
    with serve_home(tmp_path, ping_seconds=0.001) as url, httpx2.Client(base_url=url) as http:
        agent = http.post("/v1/agents", json={"model": "scripted/demo"}).json()
        text = "SAY:" + "word " * 500
        answer = http.post(f"/v1/agents/{agent['id']}/messages/stream", json={"input": text})
        frames = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        assert frames[0]["message_type"] == "ping"
        assert [frame["message_type"] for frame in frames[-3:]] == [
            "assistant_message",
            "stop_reason",
            "usage_statistics",
        ]
        assert answer.text.endswith("data: [DONE]\n\n")
        quiet = http.post(f"/v1/agents/{agent['id']}/messages/stream", json={"input": "SAY:hi", "include_pings": False})
        assert '"ping"' not in quiet.text


def test_a_run_goes_on_when_its_client_leaves(tmp_path: Path, serve_home: Any):
    with serve_home(tmp_path) as url, httpx2.Client(base_url=url) as http:
        agent = http.post("/v1/agents", json={"model": "scripted/demo"}).json()
        body = {"input": "SAY:" + "word " * 2000, "streaming": True, "stream_tokens": True}
        with http.stream("POST", f"/v1/agents/{agent['id']}/messages", json=body) as events:
            first = next(line for line in events.iter_lines() if line.startswith("data: "))
        run_id = json.loads(first[6:])["run_id"]
        waiting = {"input": "SAY:next", "on_busy": "wait"}
        assert http.post(f"/v1/agents/{agent['id']}/messages", json=waiting).status_code == 200
        assert http.get(f"/v1/runs/{run_id}").json()["status"] == "completed"


async def serving(home: Path, binding: Binding) -> None:
    def refuse(url: str) -> None:
        pytest.fail(f"it serves at {url}")

    with anyio.fail_after(10):
        await serve(lambda: open_runtime(Settings(home=home)), binding, announce=refuse)


@pytest.mark.anyio
async def test_a_port_that_is_taken_is_told_in_a_sentence(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"Port {port} on 127.0.0.1 is already in use"):
            await serving(tmp_path, Binding(port=port))


@pytest.mark.anyio
async def test_an_open_address_without_a_token_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInput, match="EUNOE_TOKEN"):
        await serving(tmp_path, Binding(host="0.0.0.0", port=0))  # noqa: S104


@pytest.mark.anyio
async def test_a_store_that_cannot_be_opened_is_told_as_itself(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnwritable):
        await serving(tmp_path / "file" / "home", Binding(port=0))


def test_a_log_line_is_one_json_object():
    record = logging.LogRecord("eunoe.server", logging.WARNING, __file__, 1, "two\nlines of %s", ("text",), None)
    line = JsonLines().format(record)
    assert "\n" not in line
    fields = json.loads(line)
    assert (fields["level"], fields["logger"], fields["message"]) == ("warning", "eunoe.server", "two\nlines of text")
