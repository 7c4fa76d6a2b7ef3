"""Sessions with MCP servers: kept, bounded in every wait, and told apart when they fail."""

import ipaddress
import os
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

import eunoe.tools.mcp.connection  # noqa: F401 - importing the library takes longer than a test may
from eunoe.state.errors import McpError
from eunoe.tools.mcp.http import is_public
from eunoe.tools.mcp.limits import McpLimits
from eunoe.tools.mcp.sessions import MOST_KEPT, McpSessions
from eunoe.tools.mcp.target import Target
from mcp_servers.raw_server import ECHO, RawMcp, raw_mcp

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

GOOD = Path(__file__).parents[1] / "mcp_servers" / "good_server.py"
HTTP = ["sse", "streamable_http"]
SOON = 3.0
"""Seconds in which something happens that waits for no timeout."""
LIMITS = McpLimits(connect=20.0, list=20.0, call=20.0, programs=True)
HASTY = McpLimits(connect=1.0, list=1.0, call=1.0, programs=True)


@pytest.fixture
def raw() -> Iterator[RawMcp]:
    with raw_mcp() as server:
        yield server


@asynccontextmanager
async def asking(limits: McpLimits = LIMITS) -> AsyncIterator[McpSessions]:
    """Sessions in a group of their own, which must end soon after the block."""
    ending = 0.0
    async with anyio.create_task_group() as group:
        yield McpSessions(limits, group.start_soon)
        ending = time.monotonic()
        group.cancel_scope.cancel()
    assert time.monotonic() - ending < SOON


def at(raw: RawMcp, kind: Any, **fields: Any) -> Target:
    path = "/sse" if kind == "sse" else "/mcp"
    return Target(server_id="s", name="raw", kind=kind, url=raw.root + path, **fields)


def program(*args: str, **fields: Any) -> Target:
    return Target(server_id="p", name="prog", kind="stdio", command=sys.executable, args=args, **fields)


async def echo(sessions: McpSessions, target: Target, text: str = "hello") -> str:
    return (await sessions.call(target, "echo", {"text": text})).content


# ---- good servers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HTTP)
async def test_one_session_serves_many_calls(raw: RawMcp, kind: str):
    async with asking() as sessions:
        found = await sessions.tools(at(raw, kind))
        assert [(tool.name, tool.parameters["required"]) for tool in found.tools] == [("echo", ["text"])]
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(echo, sessions, at(raw, kind))
        assert raw.asked.count("tools/call") == 5
        assert raw.asked.count("initialize") == 1


@pytest.mark.parametrize("kind", HTTP)
async def test_every_request_carries_the_headers(raw: RawMcp, kind: str):
    async with asking() as sessions:
        await echo(sessions, at(raw, kind, headers={"Authorization": "Bearer t", "X-Key": "k"}))
    assert {(one.get("authorization"), one.get("x-key")) for one in raw.headers} == {("Bearer t", "k")}


@pytest.mark.parametrize("kind", HTTP)
async def test_a_server_that_knows_no_handshake_is_asked_as_it_wants(raw: RawMcp, kind: str):
    raw.modern = True
    async with asking() as sessions:
        assert [tool.name for tool in (await sessions.tools(at(raw, kind))).tools] == ["echo"]
        assert await echo(sessions, at(raw, kind)) == "hello"
    assert raw.asked[:2] == ["initialize", "server/discover"]


async def test_a_changed_server_gets_a_new_session(raw: RawMcp):
    async with asking() as sessions:
        for key in ("one", "one", "two"):
            await echo(sessions, at(raw, "streamable_http", headers={"X-Key": key}))
    assert raw.asked.count("initialize") == 2


async def test_an_unused_session_ends_by_itself(raw: RawMcp):
    async with asking(McpLimits(idle=0)) as sessions:
        await echo(sessions, at(raw, "sse"))
        deadline = time.monotonic() + SOON
        while sessions.opened():
            assert time.monotonic() < deadline
            await anyio.sleep(0.05)


async def test_no_more_sessions_are_kept_than_the_bound(raw: RawMcp):
    async with asking() as sessions:
        for number in range(MOST_KEPT + 2):
            await echo(sessions, Target(server_id=str(number), name="n", kind="streamable_http", url=raw.root + "/mcp"))
        assert sessions.opened() == [str(number) for number in range(2, MOST_KEPT + 2)]


async def test_a_long_list_comes_in_pages(raw: RawMcp):
    raw.tools, raw.page = [{**ECHO, "name": f"tool_{n}"} for n in range(75)], 20
    for index, spoilt in ((3, {"name": "tool_3"}), (40, {**ECHO, "name": "tool_40", "inputSchema": 7}), (74, "tool")):
        raw.tools[index] = spoilt
    async with asking() as sessions:
        found = await sessions.tools(at(raw, "streamable_http"))
    assert len(found.tools) == 72
    assert [problem.tool for problem in found.problems] == ["tool_3", "tool_40", "(tool number 75)"]


async def test_a_list_whose_pages_do_not_end_is_told(raw: RawMcp):
    raw.page = 0
    async with asking() as sessions:
        found = await sessions.tools(at(raw, "streamable_http"))
    assert [problem.tool for problem in found.problems] == ["(the rest)"]
    assert raw.asked.count("tools/list") == 2


async def test_a_server_without_tools_offers_none(raw: RawMcp):
    raw.tools = []
    async with asking() as sessions:
        assert (await sessions.tools(at(raw, "sse"))).tools == ()


async def test_a_forgotten_session_is_opened_anew_and_the_call_is_made_once(raw: RawMcp):
    async with asking() as sessions:
        await echo(sessions, at(raw, "streamable_http"))
        raw.session = "two"
        assert await echo(sessions, at(raw, "streamable_http"), "again") == "again"
    assert raw.asked.count("initialize") == 2


async def test_a_call_that_is_refused_is_not_made_again_and_the_next_one_gets_a_new_session(raw: RawMcp):
    target = at(raw, "streamable_http")
    async with asking() as sessions:
        await echo(sessions, target)
        raw.behave["tools/call"] = "400:no valid session"
        with pytest.raises(McpError, match="HTTP 400: no valid session"):
            await echo(sessions, target)
        assert raw.asked.count("tools/call") == 2
        raw.behave.clear()
        assert await echo(sessions, target) == "hello"
    assert raw.asked.count("initialize") == 2


@pytest.mark.parametrize("kind", HTTP)
async def test_a_long_answer_is_bounded(raw: RawMcp, kind: str):
    text = "x" * 3_000_000
    async with asking() as sessions:
        if kind == "streamable_http":
            assert await echo(sessions, at(raw, kind), text) == text
        else:
            with anyio.fail_after(SOON), pytest.raises(McpError, match="too long") as failed:
                await echo(sessions, at(raw, kind), text)
            assert failed.value.kind == "invalid_response"


# ---- servers that fail -----------------------------------------------------------------------------------------------

FAULTS = [
    ("cut", "sse", "invalid_response", "no JSON message"),
    ("cut", "streamable_http", "invalid_response", "no JSON message"),
    ("cut-end", "sse", "invalid_response", "no JSON message"),
    ("cut-end", "streamable_http", "invalid_response", "no JSON message"),
    ("end", "sse", "ended", "ended the connection before it answered"),
    ("end", "streamable_http", "ended", "ended the connection before it answered"),
    ("401", "sse", "refused", "answered with HTTP 401. Set auth_token"),
    ("401", "streamable_http", "refused", "answered with HTTP 401. Set auth_token"),
    ("404", "sse", "refused", "answered with HTTP 404"),
    ("404", "streamable_http", "refused", "answered with HTTP 404"),
    ("500", "sse", "refused", "answered with HTTP 500"),
    ("500", "streamable_http", "refused", "answered with HTTP 500"),
]


@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call"])
@pytest.mark.parametrize(("how", "kind", "meaning", "words"), FAULTS)
async def test_what_goes_wrong_is_told_at_once_and_the_next_call_is_made(
    raw: RawMcp, method: str, how: str, kind: str, meaning: str, words: str
):
    raw.behave[method] = how
    async with asking() as sessions:
        with anyio.fail_after(SOON), pytest.raises(McpError, match=re.escape(words)) as failed:
            await (sessions.tools(at(raw, kind)) if method == "tools/list" else echo(sessions, at(raw, kind)))
        assert failed.value.kind == meaning
        assert failed.value.message.startswith("MCP server 'raw' ")
        raw.behave.clear()
        with anyio.fail_after(SOON):
            assert await echo(sessions, at(raw, kind)) == "hello"


@pytest.mark.parametrize("kind", HTTP)
@pytest.mark.parametrize("method", ["initialize", "tools/list", "tools/call"])
async def test_a_server_that_never_answers_is_given_up(raw: RawMcp, method: str, kind: str):
    raw.behave[method] = "hang"
    async with asking(HASTY) as sessions:
        with anyio.fail_after(SOON), pytest.raises(McpError, match="in 1 s") as failed:
            await (sessions.tools(at(raw, kind)) if method == "tools/list" else echo(sessions, at(raw, kind)))
        assert failed.value.kind == "timeout"
        raw.behave.clear()
        assert await echo(sessions, at(raw, kind)) == "hello"


@pytest.mark.parametrize(("how", "words"), [("403", "HTTP 403"), ("hang", "did not open a session in 1 s")])
async def test_a_stream_that_does_not_open_is_told(raw: RawMcp, how: str, words: str):
    raw.behave["connect"] = how
    async with asking(HASTY) as sessions:
        with anyio.fail_after(SOON), pytest.raises(McpError, match=words):
            await sessions.tools(at(raw, "sse"))


@pytest.mark.parametrize("kind", HTTP)
async def test_a_server_that_is_not_there_is_told(kind: Any):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    target = Target(server_id="s", name="gone", kind=kind, url=f"http://127.0.0.1:{port}/mcp?key=secret")
    async with asking() as sessions:
        with pytest.raises(McpError, match=f"cannot be reached at http://127.0.0.1:{port}/mcp") as failed:
            await sessions.tools(target)
    assert failed.value.kind == "unreachable"
    assert "secret" not in failed.value.message


async def test_a_call_that_fails_leaves_the_others_of_the_session_alone(raw: RawMcp):
    raw.behave["tools/list"] = "cut"
    target = at(raw, "streamable_http")
    async with asking() as sessions:
        await echo(sessions, target)
        async with anyio.create_task_group() as group:
            group.start_soon(echo, sessions, target)
            with pytest.raises(McpError):
                await sessions.tools(target)
        assert await echo(sessions, target) == "hello"
    assert raw.asked.count("initialize") == 1


async def test_a_late_request_takes_no_other_with_it(raw: RawMcp):
    target = at(raw, "streamable_http")
    told: dict[str, str] = {}

    async def call(sessions: McpSessions) -> None:
        told["call"] = await echo(sessions, target)

    async with asking(McpLimits(list=0.5)) as sessions:
        await echo(sessions, target)
        raw.behave = {"tools/list": "hang", "tools/call": "hang"}
        async with anyio.create_task_group() as group:
            group.start_soon(call, sessions)
            with pytest.raises(McpError, match=r"did not answer in 0\.5 s"):
                await sessions.tools(target)
            assert told == {}
            raw.released.set()
        assert told == {"call": "hello"}
        raw.behave.clear()
        assert await echo(sessions, target) == "hello"
    assert raw.asked.count("initialize") == 2


@pytest.mark.parametrize("kind", HTTP)
async def test_a_cancelled_call_returns_at_once_and_leaves_nothing_running(raw: RawMcp, kind: str):
    raw.behave["tools/call"] = "hang"
    async with asking() as sessions:
        await sessions.tools(at(raw, kind))
        began = time.monotonic()
        with anyio.move_on_after(0.3) as waiting:
            await echo(sessions, at(raw, kind))
        assert waiting.cancelled_caught
        assert time.monotonic() - began < 1.0


async def test_secrets_are_not_in_what_is_told_or_logged_of_a_failure(raw: RawMcp, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    raw.behave["tools/call"] = "400:the token token-secret is not known"
    url = f"{raw.root}/mcp?key=query-secret"
    headers = {"Authorization": "Bearer token-secret"}
    target = Target(server_id="s", name="raw", kind="streamable_http", url=url, headers=headers)
    async with asking() as sessions:
        with pytest.raises(McpError, match=re.escape("HTTP 400: the token *** is not known")) as failed:
            await echo(sessions, target)
    assert "secret" not in failed.value.message + caplog.text


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - nothing binds to it
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("2002:a00:1::", False),
    ],
)
async def test_which_addresses_are_public(address: str, public: bool):
    assert is_public(ipaddress.ip_address(address)) is public


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize("kind", HTTP)
async def test_a_server_that_others_can_reach_calls_no_private_address(raw: RawMcp, kind: Any, host: str):
    port = raw.server_address[1]
    target = Target(server_id="s", name="inside", kind=kind, url=f"http://{host}:{port}/mcp")
    async with asking(McpLimits(private=False)) as sessions:
        with pytest.raises(McpError, match="EUNOE_MCP_PRIVATE_ADDRESSES") as failed:
            await sessions.tools(target)
    assert failed.value.kind == "forbidden"
    assert raw.asked == []


async def test_a_name_is_connected_to_as_it_was_judged_and_stays_the_name():
    from eunoe.tools.mcp.http import _Judged

    target = Target(server_id="s", name="n", kind="sse", url="https://one.one.one.one/")
    judged = _Judged(target, private=False, note=lambda _request, _status: None)
    given = httpx2.Request("GET", "https://93.184.216.34:8443/sse?a=b")
    sent = await judged._pinned(given)
    assert str(sent.url) == "https://93.184.216.34:8443/sse?a=b"
    assert sent.headers["host"] == "93.184.216.34:8443"
    assert sent.extensions["sni_hostname"] == "93.184.216.34"
    await judged.aclose()


# ---- programs --------------------------------------------------------------------------------------------------------


async def test_a_program_is_started_once_and_keeps_what_it_knows():
    target = program(str(GOOD), "stdio", env={"FOR_ME": "mine"})
    os.environ["EUNOE_NOT_FOR_PROGRAMS"] = "secret"
    try:
        async with asking() as sessions:
            assert len((await sessions.tools(target)).tools) == 8
            counts = [(await sessions.call(target, "count", {})).content for _ in range(2)]
            assert [text.split()[0] for text in counts] == ["1", "2"]
            pid = int(counts[0].split()[-1])
            told = [(await sessions.call(target, "variable", {"name": name})).content for name in ("FOR_ME", "HOME")]
            assert told == ["mine", os.environ["HOME"]]
            hidden = await sessions.call(target, "variable", {"name": "EUNOE_NOT_FOR_PROGRAMS"})
            assert hidden.content == "(not set)"
            failed = await sessions.call(target, "fail", {})
            assert (failed.status, failed.content) == ("error", "the tide is out")
            with pytest.raises(McpError, match="ended before it answered"):
                await sessions.call(target, "crash", {})
            again = (await sessions.call(target, "count", {})).content
            assert again.startswith("1 in ")
            assert again != counts[0]
    finally:
        del os.environ["EUNOE_NOT_FOR_PROGRAMS"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_program_that_cannot_be_started_is_told():
    target = Target(server_id="p", name="prog", kind="stdio", command="/no/such/program")
    async with asking() as sessions:
        with pytest.raises(McpError, match="cannot be started: /no/such/program: No such file or directory"):
            await sessions.tools(target)


async def test_the_last_words_of_a_program_are_told_without_its_secrets():
    code = "import os, sys; sys.exit(f'cannot log in with {os.environ[\"PASS\"]}')"
    async with asking() as sessions:
        with pytest.raises(McpError, match=re.escape("ended before it answered: cannot log in with ***")):
            await sessions.tools(program("-c", code, env={"PASS": "pass-word"}))


async def test_lines_that_are_no_messages_do_not_disturb_a_program():
    code = """
import runpy, sys
print("Starting up...", flush=True)
sys.argv[1:] = ["stdio"]
runpy.run_path(PATH, run_name="__main__")
"""
    async with asking() as sessions:
        result = await sessions.call(program("-c", code.replace("PATH", repr(str(GOOD)))), "add", {"a": 1, "b": 2})
        assert result.content == "3"


async def test_a_program_that_ignores_everything_is_given_up_and_killed():
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"
    began = time.monotonic()
    async with anyio.create_task_group() as group:
        sessions = McpSessions(HASTY, group.start_soon)
        with anyio.fail_after(SOON), pytest.raises(McpError, match="did not open a session"):
            await sessions.tools(program("-c", code))
        group.cancel_scope.cancel()
    assert time.monotonic() - began < 12.0


async def test_programs_are_not_started_unless_they_are_allowed():
    async with asking(McpLimits()) as sessions:
        with pytest.raises(McpError, match="EUNOE_MCP_STDIO=1") as failed:
            await sessions.tools(program(str(GOOD), "stdio"))
    assert failed.value.kind == "forbidden"


# ---- the library -----------------------------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
import anyio
from eunoe.runtime.runtime import open_runtime
from eunoe.runtime.settings import Settings
from eunoe.tools.mcp.target import Target

async def main():
    async with open_runtime(Settings(home=Path(sys.argv[1]))) as runtime:
        print("mcp" in sys.modules, "pydantic" in sys.modules)
        sys.modules["mcp"] = None
        try:
            await runtime.mcp.sessions.tools(Target(server_id="s", name="n", kind="sse", url="http://127.0.0.1:9"))
        except Exception as error:
            print(type(error).__name__, error)

anyio.run(main)
"""


async def test_the_library_is_wanted_only_when_a_server_is_asked_and_its_lack_is_told(tmp_path: Path):
    done = await anyio.run_process([sys.executable, "-c", CHILD, str(tmp_path)])
    unused, told = done.stdout.decode().splitlines()
    assert unused == "False False"
    assert told.startswith("InvalidInput MCP servers need a library")
    assert "pip install 'eunoe[mcp]'" in told
