"""MCP servers over HTTP, by the official client: managed, and used by agents in turns."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import letta_client
import pytest
from letta_client import Letta
from loop_rig import new_agent, post, say

from eunoe.tools.mcp.limits import McpLimits
from mcp_servers.raw_server import ECHO, RawMcp, raw_mcp

pytestmark = pytest.mark.slow

Served = Callable[..., Any]
GOOD = Path(__file__).parents[1] / "mcp_servers" / "good_server.py"
CALL = 3.0
"""Seconds that a call may take here."""
LIMITS = McpLimits(connect=10.0, list=10.0, call=CALL, programs=True)


@pytest.fixture
def raw() -> Iterator[RawMcp]:
    with raw_mcp() as server:
        yield server


@pytest.fixture(scope="module")
def address(serve_home: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_home(tmp_path_factory.mktemp("home"), settings={"mcp": LIMITS}) as url:
        yield url


def client_of(url: str) -> Letta:
    return Letta(base_url=url, api_key="none", max_retries=0, timeout=30)


@pytest.fixture
def letta(address: str) -> Iterator[Letta]:
    with client_of(address) as client:
        yield client


@pytest.fixture
def plain(address: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=address, timeout=30) as client:
        yield client


def config(raw: RawMcp, kind: str = "streamable_http", **fields: Any) -> Any:
    return {"mcp_server_type": kind, "server_url": raw.root + ("/sse" if kind == "sse" else "/mcp"), **fields}


def add(letta: Letta, raw: RawMcp, name: str, kind: str = "streamable_http", **fields: Any) -> str:
    """Add the server under a name and return its id; its one tool gets the name ``<name>_tool``."""
    raw.tools = raw.tools if raw.tools != [ECHO] else [{**ECHO, "name": f"{name}_tool"}]
    return str(letta.mcp_servers.create(server_name=name, config=config(raw, kind, **fields)).id)


def agent_with(letta: Letta, server_id: str) -> str:
    """Create an agent with all tools of a server."""
    ids = [tool.id for tool in letta.mcp_servers.tools.list(server_id)]
    return new_agent(letta, tool_ids=ids)


def returned(messages: list[Any]) -> list[tuple[str, str]]:
    """Return status and text of each tool return."""
    returns = [part for one in messages if one.message_type == "tool_return_message" for part in one.tool_returns]
    return [(part.status, part.tool_return) for part in returns]


def until_called(raw: RawMcp) -> None:
    deadline = time.monotonic() + 10
    while "tools/call" not in raw.asked:
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


# ---- a turn ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cut", "cut-end", "hang"])
def test_L12_an_answer_over_sse_cut_in_mid_string_is_a_tool_error_and_the_run_ends(letta: Letta, raw: RawMcp, how: str):
    name = f"sse_{how.replace('-', '_')}"
    agent_id = agent_with(letta, add(letta, raw, name, "sse"))
    raw.behave["tools/call"] = how
    began = time.monotonic()
    asked = letta.agents.messages.create(agent_id, input=f'TOOL:{name}_tool {{"text":"tides"}}')
    assert time.monotonic() - began < CALL + 3
    ((status, text),) = returned(asked.messages)
    assert status == "error"
    assert ("no JSON message" if how.startswith("cut") else f"did not answer in {CALL:g} s") in text
    assert asked.stop_reason.stop_reason == "end_turn"
    (run,) = letta.runs.list(agent_id=agent_id).items
    assert (run.status, run.stop_reason) == ("completed", "end_turn")
    assert run.completed_at is not None
    raw.behave.clear()
    ((status, text),) = returned(say(letta, agent_id, f'TOOL:{name}_tool {{"text":"tides"}}'))
    assert (status, text) == ("success", "tides")
    assert say(letta, agent_id, "SAY:still here")[-1].content == "still here"


@pytest.mark.parametrize(
    ("how", "words"), [("401", "HTTP 401"), ("404", "HTTP 404"), ("500", "HTTP 500"), ("end", "ended the connection")]
)
@pytest.mark.parametrize("kind", ["sse", "streamable_http"])
def test_a_server_that_refuses_or_goes_away_is_a_tool_error(letta: Letta, raw: RawMcp, kind: str, how: str, words: str):
    name = f"{kind}_{how}"
    agent_id = agent_with(letta, add(letta, raw, name, kind))
    raw.behave["tools/call"] = how
    ((status, text),) = returned(say(letta, agent_id, f'TOOL:{name}_tool {{"text":"tides"}}'))
    assert status == "error"
    assert words in text


def test_calls_of_one_step_run_side_by_side_over_one_session(letta: Letta, raw: RawMcp):
    agent_id = agent_with(letta, add(letta, raw, "side"))
    calls = "\n".join(f'TOOL:side_tool {{"text":"{n}"}}' for n in range(4))
    raw.meeting = threading.Barrier(4, timeout=5)
    assert returned(say(letta, agent_id, calls)) == [("success", str(n)) for n in range(4)]
    assert raw.asked.count("initialize") == 1


def test_arguments_that_are_no_json_never_reach_the_server(letta: Letta, raw: RawMcp):
    agent_id = agent_with(letta, add(letta, raw, "strict"))
    ((status, text),) = returned(say(letta, agent_id, 'TOOL:strict_tool {"text": "a'))
    assert status == "error"
    assert "not a JSON object" in text
    assert "tools/call" not in raw.asked


def test_cancelling_a_turn_ends_its_call_at_once(letta: Letta, plain: httpx2.Client, raw: RawMcp):
    agent_id = agent_with(letta, add(letta, raw, "slow", "sse"))
    raw.behave["tools/call"] = "hang"
    run = letta.agents.messages.create_async(agent_id, input='TOOL:slow_tool {"text":"x"}')
    until_called(raw)
    began = time.monotonic()
    post(plain, f"/v1/agents/{agent_id}/messages/cancel", {"run_ids": [run.id]})
    ended = letta.runs.retrieve(run.id)
    assert time.monotonic() - began < CALL / 2
    assert (ended.status, ended.stop_reason) == ("cancelled", "cancelled")
    assert ended.completed_at is not None
    raw.behave.clear()
    assert returned(say(letta, agent_id, 'TOOL:slow_tool {"text":"again"}'))[-1] == ("success", "again")


def test_a_call_that_hangs_does_not_keep_the_server_from_stopping(serve_home: Served, raw: RawMcp, tmp_path: Path):
    raw.behave["tools/call"] = "hang"
    settings = {"mcp": McpLimits(call=60.0), "shutdown_wait": 0.1}
    ending = 0.0
    with serve_home(tmp_path, settings=settings) as url, client_of(url) as letta:
        agent_id = agent_with(letta, add(letta, raw, "stuck", "sse"))
        run = letta.agents.messages.create_async(agent_id, input='TOOL:stuck_tool {"text":"x"}')
        until_called(raw)
        ending = time.monotonic()
    assert time.monotonic() - ending < 5.0
    with serve_home(tmp_path) as url, client_of(url) as letta:
        ended = letta.runs.retrieve(run.id)
        assert (ended.status, ended.stop_reason) == ("cancelled", "cancelled")


def test_a_call_that_waits_for_approval_is_made_when_it_is_approved(letta: Letta, raw: RawMcp):
    agent_id = agent_with(letta, add(letta, raw, "gated"))
    letta.agents.tools.update_approval("gated_tool", agent_id=agent_id, body_requires_approval=True)
    asked: Any = say(letta, agent_id, 'TOOL:gated_tool {"text":"yes"}')[-1]
    assert asked.message_type == "approval_request_message"
    assert "tools/call" not in raw.asked
    answer: Any = {"type": "approval", "tool_call_id": asked.tool_call.tool_call_id, "approve": True}
    told = letta.agents.messages.create(agent_id, messages=[{"type": "approval", "approvals": [answer]}])
    assert returned(told.messages) == [("success", "yes")]


def test_an_agent_comes_back_with_its_tools_and_calls_them(serve_home: Served, raw: RawMcp, tmp_path: Path):
    with serve_home(tmp_path) as url, client_of(url) as letta:
        server_id = add(letta, raw, "kept", auth_token="tok-secret")
        agent_id = agent_with(letta, server_id)
        assert returned(say(letta, agent_id, 'TOOL:kept_tool {"text":"before"}')) == [("success", "before")]
    raw.headers.clear()
    with serve_home(tmp_path) as url, client_of(url) as letta:
        parts = httpx2.get(f"{url}/v1/agents/{agent_id}/manifest").json()["parts"]
        (tool,) = [part for part in parts if part["kind"] == "tool" and part["name"] == "kept_tool"]
        assert tool["details"]["mcp_server"] == "kept"
        assert returned(say(letta, agent_id, 'TOOL:kept_tool {"text":"after"}')) == [("success", "after")]
    assert {one["authorization"] for one in raw.headers} == {"Bearer tok-secret"}


def test_a_program_serves_an_agent_over_several_turns(letta: Letta):
    made = letta.mcp_servers.create(
        server_name="program",
        config={"mcp_server_type": "stdio", "command": sys.executable, "args": [str(GOOD), "stdio"]},
    )
    agent_id = agent_with(letta, str(made.id))
    counts = [returned(say(letta, agent_id, "TOOL:count {}"))[0][1] for _ in range(2)]
    assert [text.split()[0] for text in counts] == ["1", "2"]
    assert returned(say(letta, agent_id, "TOOL:fail {}")) == [("error", "the tide is out")]
    assert returned(say(letta, agent_id, "TOOL:crash {}"))[0][0] == "error"
    assert returned(say(letta, agent_id, 'TOOL:add {"a":1,"b":2}')) == [("success", "3")]
    letta.mcp_servers.delete(str(made.id))


# ---- servers ---------------------------------------------------------------------------------------------------------


def test_a_server_is_made_read_changed_and_deleted_by_the_official_client(letta: Letta, raw: RawMcp):
    server_id = add(letta, raw, "first", auth_token="tok-secret", custom_headers={"X-Key": "key-secret"})
    found: Any = letta.mcp_servers.retrieve(server_id)
    assert (found.server_name, found.mcp_server_type, found.server_url) == (
        "first",
        "streamable_http",
        raw.root + "/mcp",
    )
    assert (found.auth_token, found.custom_headers) == ("", {"X-Key": ""})
    assert server_id in [one.id for one in letta.mcp_servers.list()]
    (tool,) = letta.mcp_servers.tools.list(server_id)
    assert (tool.name, tool.tool_type, tool.tags) == ("first_tool", "external_mcp", ["mcp:first"])
    assert tool.metadata == {
        "mcp": {
            "server_name": "first",
            "server_id": server_id,
            "tool_name": "first_tool",
            "health": {"status": "NON_STRICT_ONLY", "reasons": ["inputSchema: additionalProperties is not false"]},
        }
    }
    assert letta.mcp_servers.tools.retrieve(tool.id, mcp_server_id=server_id) == tool
    raw.headers.clear()
    changed: Any = letta.mcp_servers.update(
        server_id,
        server_name="second",
        config={"server_url": None, "custom_headers": {"X-Key": "", "X-New": "new-secret"}},
    )
    assert (changed.server_name, changed.server_url, changed.auth_token) == ("second", raw.root + "/mcp", "")
    (tool,) = letta.mcp_servers.tools.list(server_id)
    assert (tool.name, tool.tags) == ("first_tool", ["mcp:second"])
    result: Any = letta.mcp_servers.tools.run(tool.id, mcp_server_id=server_id, args={"text": "run"})
    assert (result.status, result.func_return) == ("success", "run")
    sent = raw.headers[-1]
    assert (sent["authorization"], sent["x-key"], sent["x-new"]) == ("Bearer tok-secret", "key-secret", "new-secret")
    letta.mcp_servers.delete(server_id)
    with pytest.raises(letta_client.NotFoundError):
        letta.mcp_servers.retrieve(server_id)
    with pytest.raises(letta_client.NotFoundError):
        letta.tools.retrieve(tool.id)


def test_paths_are_served_with_and_without_a_slash(plain: httpx2.Client):
    assert plain.get("/v1/mcp-servers").json() == plain.get("/v1/mcp-servers/").json()


def test_secrets_are_in_no_answer_log_or_file(
    letta: Letta, plain: httpx2.Client, raw: RawMcp, caplog: pytest.LogCaptureFixture
):
    secrets = {"auth_token": "tok-secret", "custom_headers": {"X-Key": "key-secret"}}
    server_id = add(letta, raw, "discreet", **secrets)
    agent_id = agent_with(letta, server_id)
    raw.behave["tools/call"] = "500"
    say(letta, agent_id, 'TOOL:discreet_tool {"text":"x"}')
    shown = [
        plain.get(path).text
        for path in (
            "/v1/mcp-servers/",
            f"/v1/mcp-servers/{server_id}",
            f"/v1/mcp-servers/{server_id}/tools",
            f"/v1/agents/{agent_id}/messages",
            f"/v1/agents/{agent_id}/manifest",
            "/v1/tools/?limit=200",
        )
    ]
    assert [text for text in [*shown, caplog.text] if "secret" in text.replace("secrets", "")] == []


def test_the_store_holds_secrets_encrypted(serve_home: Served, raw: RawMcp, tmp_path: Path):
    with serve_home(tmp_path) as url, client_of(url) as letta:
        add(letta, raw, "sealed", auth_token="tok-secret")
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("eunoe.db*") if path.is_file())
    assert b"sealed_tool" in kept
    assert b"tok-secret" not in kept


@pytest.mark.parametrize(
    ("config", "status", "words"),
    [
        ({"mcp_server_type": "sse"}, 422, "server_url: required"),
        ({"mcp_server_type": "stdio", "command": "a"}, 422, "args: required"),
        ({"mcp_server_type": "sse", "server_url": "http://a", "command": "b"}, 422, "kind sse has no command"),
        ({"server_url": "a.example/mcp"}, 422, "begins with http"),
        ({"server_url": "http://a", "custom_headers": {"X": ""}}, 422, "has no value"),
        ({"mcp_server_type": "carrier_pigeon", "server_url": "http://a"}, 422, "mcp_server_type"),
        ({"mcp_server_type": "stdio", "command": "/no/such", "args": []}, 502, "cannot be started"),
        ({"server_url": "http://127.0.0.1:9/mcp"}, 502, "cannot be reached"),
    ],
)
def test_a_server_that_cannot_be_is_refused_and_not_stored(plain: httpx2.Client, config: Any, status: int, words: str):
    before = plain.get("/v1/mcp-servers/").json()
    answer = plain.post("/v1/mcp-servers/", json={"server_name": "wrong", "config": config})
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]
    assert plain.get("/v1/mcp-servers/").json() == before
    if status == 502:
        assert answer.headers["x-should-retry"] == "false"
        assert answer.json()["error"]["type"] == "mcp_connection_error"


def test_a_late_server_is_answered_with_408_that_no_client_repeats(serve_home: Served, raw: RawMcp, tmp_path: Path):
    raw.behave["tools/list"] = "hang"
    with serve_home(tmp_path, settings={"mcp": McpLimits(list=0.3)}) as url:
        answer = httpx2.post(f"{url}/v1/mcp-servers/", json={"server_name": "late", "config": config(raw)})
    assert (answer.status_code, answer.headers["x-should-retry"]) == (408, "false")
    assert answer.json()["error"]["type"] == "mcp_timeout"


def test_two_servers_cannot_have_one_name(letta: Letta, raw: RawMcp):
    server_id = add(letta, raw, "taken")
    with pytest.raises(letta_client.ConflictError, match=server_id):
        letta.mcp_servers.create(server_name="taken", config=config(raw))


def test_programs_are_refused_unless_they_are_allowed(serve_home: Served, tmp_path: Path):
    body = {"server_name": "p", "config": {"mcp_server_type": "stdio", "command": "true", "args": []}}
    with serve_home(tmp_path, settings={"mcp": McpLimits()}) as url:
        answer = httpx2.post(f"{url}/v1/mcp-servers/", json=body)
    assert answer.status_code == 400
    assert "EUNOE_MCP_STDIO=1" in answer.json()["detail"]


def test_private_addresses_are_refused_where_others_can_reach_the_server(
    serve_home: Served, raw: RawMcp, tmp_path: Path
):
    with serve_home(tmp_path, settings={"mcp": McpLimits(private=False)}) as url:
        answer = httpx2.post(f"{url}/v1/mcp-servers/", json={"server_name": "in", "config": config(raw)})
    assert answer.status_code == 400
    assert "EUNOE_MCP_PRIVATE_ADDRESSES" in answer.json()["detail"]
    assert raw.asked == []


# ---- tools -----------------------------------------------------------------------------------------------------------


def test_T02_of_75_tools_with_3_invalid_72_are_listed_and_3_told_by_name(letta: Letta, raw: RawMcp):
    raw.tools = [{**ECHO, "name": f"many_{n}"} for n in range(75)]
    for n in (3, 40, 74):
        raw.tools[n] = {"name": f"many_{n}", "inputSchema": {"type": "object", "properties": {"a": {"type": "strin"}}}}
    server_id = add(letta, raw, "many")
    assert len(letta.mcp_servers.tools.list(server_id)) == 72
    server: Any = letta.mcp_servers.retrieve(server_id)
    assert [problem["tool"] for problem in server.problems] == ["many_3", "many_40", "many_74"]
    assert all("no JSON Schema" in problem["reasons"][0] for problem in server.problems)


def test_a_tool_never_takes_the_name_of_another(letta: Letta, raw: RawMcp):
    raw.tools = [{**ECHO, "name": name} for name in ("memory_insert", "clash.one", "clash/one")]
    server_id = add(letta, raw, "clashing")
    listed: Any = letta.mcp_servers.tools.list(server_id)
    names = {tool.metadata["mcp"]["tool_name"]: tool.name for tool in listed}
    assert names == {
        "memory_insert": "clashing_memory_insert",
        "clash.one": "clash_one",
        "clash/one": "clashing_clash_one",
    }
    (own,) = letta.tools.list(name="memory_insert").items
    assert own.tool_type != "external_mcp"
    agent_id = agent_with(letta, server_id)
    assert returned(say(letta, agent_id, 'TOOL:clashing_memory_insert {"text":"theirs"}')) == [("success", "theirs")]


def test_a_refresh_adds_updates_and_takes_nothing_from_an_agent(letta: Letta, raw: RawMcp):
    raw.tools = [{**ECHO, "name": f"fresh_{letter}"} for letter in "abcd"]
    server_id = add(letta, raw, "fresh")
    stored = {tool.name: tool.id for tool in letta.mcp_servers.tools.list(server_id)}
    agent_id = new_agent(letta, tool_ids=[stored["fresh_a"], stored["fresh_b"]])
    raw.tools = [
        {**ECHO, "name": "fresh_b", "description": "Another."},
        {**ECHO, "name": "fresh_e"},
        {"name": "fresh_d", "inputSchema": 7},
    ]
    for expected in (
        {"added": ["fresh_e"], "updated": ["fresh_b"], "deleted": ["fresh_c"]},
        {"added": [], "updated": [], "deleted": []},
    ):
        done: Any = letta.mcp_servers.refresh(server_id)
        assert {name: done[name] for name in expected} == expected
        assert done["missing"] == [{"name": "fresh_a", "agent_ids": [agent_id]}]
        assert [one["tool"] for one in done["invalid"]] == ["fresh_d"]
    now = {str(tool.name): tool for tool in letta.mcp_servers.tools.list(server_id)}
    assert sorted(now) == ["fresh_a", "fresh_b", "fresh_d", "fresh_e"]
    assert {name: now[name].id for name in ("fresh_a", "fresh_b", "fresh_d")} == {
        name: stored[name] for name in ("fresh_a", "fresh_b", "fresh_d")
    }
    missing: Any = now["fresh_a"].metadata
    assert missing["mcp"]["missing"] is True
    assert {"fresh_a", "fresh_b"} <= {str(tool.name) for tool in letta.agents.tools.list(agent_id)}
    raw.tools = [{**ECHO, "name": "fresh_a"}]
    done = letta.mcp_servers.refresh(server_id)
    assert done["updated"] == ["fresh_a"]
    (back,) = [tool for tool in letta.mcp_servers.tools.list(server_id) if tool.name == "fresh_a"]
    facts: Any = back.metadata
    assert "missing" not in facts["mcp"]


def test_a_refresh_of_a_server_that_is_gone_changes_nothing(letta: Letta, plain: httpx2.Client, raw: RawMcp):
    server_id = add(letta, raw, "going")
    before = plain.get(f"/v1/mcp-servers/{server_id}/tools").json()
    raw.behave["tools/list"] = "500"
    assert plain.patch(f"/v1/mcp-servers/{server_id}/refresh").status_code == 502
    assert plain.get(f"/v1/mcp-servers/{server_id}/tools").json() == before


def test_deleting_a_server_takes_its_tools_and_their_rules_from_agents(letta: Letta, raw: RawMcp):
    server_id = add(letta, raw, "leaving")
    agent_id = agent_with(letta, server_id)
    letta.agents.tools.update_approval("leaving_tool", agent_id=agent_id, body_requires_approval=True)
    letta.mcp_servers.delete(server_id)
    agent = letta.agents.retrieve(agent_id)
    assert "leaving_tool" not in [tool.name for tool in agent.tools]
    assert agent.tool_rules == []
    ((status, text),) = returned(say(letta, agent_id, 'TOOL:leaving_tool {"text":"x"}'))
    assert status == "error"
    assert "no tool 'leaving_tool'" in text


def test_a_tool_of_another_server_is_not_found(letta: Letta, raw: RawMcp):
    one, two = add(letta, raw, "one"), None
    raw.tools = [{**ECHO, "name": "two_tool"}]
    two = add(letta, raw, "two")
    (tool,) = letta.mcp_servers.tools.list(one)
    with pytest.raises(letta_client.NotFoundError):
        letta.mcp_servers.tools.run(tool.id, mcp_server_id=two)


def test_a_tool_that_fails_by_hand_is_a_result(letta: Letta, raw: RawMcp):
    server_id = add(letta, raw, "handy")
    (tool,) = letta.mcp_servers.tools.list(server_id)
    raw.behave["tools/call"] = "500"
    with pytest.raises(letta_client.InternalServerError, match="HTTP 500"):
        letta.mcp_servers.tools.run(tool.id, mcp_server_id=server_id, args={"text": "x"})
