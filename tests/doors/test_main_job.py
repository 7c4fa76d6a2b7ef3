"""The main job: an agent is made, talks, edits its memory, is killed, comes back whole, and goes on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import letta_client
import pytest
from http_door import HttpDoor
from main_job import (
    EDIT,
    HUMAN,
    HUMAN_EDITED,
    PATIENCE,
    PERSONA_AFTER,
    TOOLS,
    Door,
    all_else_in,
    said_in,
    system_of,
    until,
    without_section,
)
from python_door import PythonDoor
from terminal_door import TerminalDoor

from model_servers.control import ModelServer


class Model(NamedTuple):
    """A model as the person names it, and the server that answers for it; the scripted model has none."""

    handle: str
    env: dict[str, str]
    server: ModelServer | None = None


DOORS: dict[str, Callable[[Path, dict[str, str]], Door]] = {
    "http": HttpDoor,
    "python": lambda home, env: PythonDoor(home, env, "async"),
    "python-sync": lambda home, env: PythonDoor(home, env, "sync"),
    "terminal": TerminalDoor,
}


def openai(server: ModelServer, provider: str) -> Model:
    server.models.append({"id": "gpt-4o-mini"})
    env = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "test-key"}
    return Model(f"{provider}/gpt-4o-mini", env, server)


def anthropic(server: ModelServer) -> Model:
    server.models.append({"id": "claude-sonnet-4-5"})
    env = {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "test-key"}
    return Model("anthropic/claude-sonnet-4-5", env, server)


@pytest.fixture(params=["openai", "openai-responses", "anthropic", "scripted"])
def model(request: pytest.FixtureRequest) -> Model:
    match request.param:
        case "scripted":
            return Model("scripted/demo", {})
        case "anthropic":
            return anthropic(request.getfixturevalue("anthropic_server"))
        case provider:
            return openai(request.getfixturevalue("openai_server"), provider)


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, tmp_path: Path, model: Model) -> Door:
    return DOORS[request.param](tmp_path, model.env)


def sent(door: Door, model: Model) -> Any:
    """Return the last request as the model's server received it; the scripted model's is built from the store."""
    return door.last_request() if model.server is None else model.server.requests[-1]


@pytest.mark.slow
def test_an_agent_comes_back_whole_after_kill_and_goes_on(door: Door, model: Model):
    with door:
        door.create(model.handle)
        door.say(EDIT, "Understood.")
        door.say("SAY:好的", "好的")
        before, asked = door.whole(), sent(door, model)
        assert before.blocks == {"human": HUMAN, "persona": PERSONA_AFTER}
        assert before.tools == TOOLS

        door.kill()
        assert door.whole() == before

        door.say("SAY:还在", "还在")
        again = sent(door, model)
        assert system_of(again) == system_of(asked)
        assert before.prompt in {None, system_of(again)}
        assert said_in(again)[: len(said_in(asked))] == said_in(asked)
        assert all_else_in(again) == all_else_in(asked)
        assert HUMAN in system_of(again)
        assert PERSONA_AFTER.splitlines()[-1] in system_of(again)

        door.edit("human", value=HUMAN_EDITED)
        door.say("SAY:先给结论", "先给结论")
        edited = sent(door, model)
        assert HUMAN_EDITED in system_of(edited)
        assert HUMAN not in system_of(edited)
        assert without_section("human", system_of(edited)) == without_section("human", system_of(again))
        assert said_in(edited)[: len(said_in(again))] == said_in(again)
        assert all_else_in(edited) == all_else_in(again)

        door.edit("human", metadata={"seen": "2026-01-01"})
        door.say("SAY:没有变", "没有变")
        unchanged = sent(door, model)
        assert system_of(unchanged) == system_of(edited)
        assert door.last_request() == unchanged


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
def test_a_server_killed_in_the_middle_of_an_answer_goes_on_with_what_was_said(
    provider: str, tmp_path: Path, request: pytest.FixtureRequest
):
    server: ModelServer = request.getfixturevalue("anthropic_server" if provider == "anthropic" else "openai_server")
    model = anthropic(server) if provider == "anthropic" else openai(server, provider)
    with HttpDoor(tmp_path, model.env) as door, ThreadPoolExecutor() as pool:
        door.create(model.handle)
        door.say("SAY:好的", "好的")
        server.behave(hang_after=3)
        asking = pool.submit(door.say, "Never answered.\n", "")
        until(lambda: len(server.requests) == 2)
        door.kill()
        with pytest.raises(letta_client.APIConnectionError):
            asking.result(PATIENCE)
        server.release()

        assert door.whole().blocks["human"] == HUMAN
        door.say("SAY:还在", "还在")
        cut, after = server.requests[1], server.requests[2]
        assert system_of(after) == system_of(cut)
        texts = str(said_in(after))
        assert texts.index("SAY:好的") < texts.index("Never answered.") < texts.index("SAY:还在")
