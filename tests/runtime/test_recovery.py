"""What a crash, or a broken history, left behind is healed once, by adding, and never twice (I1, I3, I4)."""

import json
import shutil
import signal
import threading
from pathlib import Path
from typing import Any, Final

import pytest
from chat_endpoint import MODEL, Answer, ChatEndpoint
from dying_process import Dying
from msgspec import structs
from runtime_rig import (
    INSERT,
    assert_paired,
    contents,
    first_delta,
    open_home,
    request,
    rows,
    run_of,
    send,
    watch,
)

from eunoe.embedded import Agent, Home
from eunoe.runtime.agents import reset_messages
from eunoe.runtime.runtime import utc_now
from eunoe.runtime.turn import TurnRequest
from eunoe.runtime.window import INTERRUPTED, MISSING
from eunoe.state.errors import InvalidInput
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, Part, Role, TextPart, ToolCallPart, ToolReturnPart
from eunoe.state.rules import ApprovalRule
from eunoe.store import conversations, messages, runs, steps
from model_servers.control import ModelServer

pytestmark = pytest.mark.anyio

_ONE: Final = ToolCallPart(id="call_1", name="memory_insert", arguments="{}")
_TWO: Final = ToolCallPart(id="call_2", name="memory_insert", arguments="{}")


async def _add(home: Home, agent: Agent, *given: tuple[Role, tuple[Part, ...]]) -> None:
    """Add messages to the history as an import would, without a run."""
    now = utc_now()
    conversation = (await agent.state()).conversation
    made = [
        Message(
            id=new_id("message"),
            agent_id=agent.id,
            conversation_id=conversation.id,
            role=role,
            parts=parts,
            created_at=now,
        )
        for role, parts in given
    ]
    await home.runtime.db.write(lambda tx: messages.append(tx, conversation.id, made, now))


def _returned(call: ToolCallPart) -> ToolReturnPart:
    return ToolReturnPart(tool_call_id=call.id, name=call.name, content="Done.")


def _said(text: str) -> tuple[TextPart]:
    return (TextPart(text=text),)


_BROKEN: Final[dict[str, tuple[list[tuple[Role, tuple[Part, ...]]], list[tuple[int, str, str]]]]] = {
    "no return at all": (
        [("user", _said("Edit.")), ("assistant", (_ONE,)), ("user", _said("Well?")), ("assistant", _said("Hm."))],
        [(2, "call_1", MISSING)],
    ),
    "one of two returns": (
        [("user", _said("Edit.")), ("assistant", (_ONE, _TWO)), ("tool", (_returned(_TWO),)), ("user", _said("Well?"))],
        [(3, "call_1", MISSING)],
    ),
    "two messages in a row": (
        [("assistant", (_ONE,)), ("assistant", (_TWO,)), ("user", _said("Well?"))],
        [(1, "call_1", MISSING), (3, "call_2", MISSING)],
    ),
    "at the end": (
        [("user", _said("Edit.")), ("assistant", (_ONE,))],
        [(2, "call_1", INTERRUPTED)],
    ),
}
"""Histories with calls that lack a return, and where which return must be added with which reason."""


@pytest.mark.parametrize("name", list(_BROKEN))
async def test_a_broken_history_is_healed_once_where_it_is_broken(
    home: Home, agent: Agent, endpoint: ChatEndpoint, name: str
) -> None:
    given, added = _BROKEN[name]
    await _add(home, agent, *given)
    before = await agent.window()
    assert not (await agent.verify()).ok
    await agent.ask("Go on.")
    window = await agent.window()
    assert_paired(window)
    for index, call_id, reason in added:
        (part,) = window[index].tool_returns
        assert (part.tool_call_id, part.status, part.content) == (call_id, "error", reason)
        assert window[index].meta == {"healed": reason}
    # Nothing was taken away or rewritten.
    old = {message.id: message for message in window}
    assert [old[message.id] for message in before] == list(before)
    assert len(window) == len(before) + len(added) + 2
    sent = endpoint.requests()[0]["messages"][1:]
    assert [message["role"] for message in sent] == [message.role for message in window[:-1]]
    await agent.ask("And on.")
    assert [message.id for message in (await agent.window())[: len(window)]] == [message.id for message in window]
    assert (await agent.verify()).ok


async def test_a_turn_before_and_after_healing_replays_exactly(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await agent.ask("First.")
    await _add(home, agent, ("assistant", (_ONE,)), ("user", _said("Well?")))
    await agent.ask("Second.")
    await agent.ask("Third.")
    made = await home.runtime.db.read(lambda tx: steps.page(tx, steps.StepQuery(order="asc")))
    assert [bytes((await agent.request_of(step.id)).body) for step in made] == endpoint.received


@pytest.mark.slow
async def test_L01_a_call_cut_by_a_crash_has_one_result_on_a_responses_style_provider(
    dying: Dying, tmp_path: Path, openai_server: ModelServer
) -> None:
    assert dying.send(tmp_path, "") == 0
    assert dying.send(tmp_path, INSERT, EUNOE_FAULT="commit:3") == -signal.SIGKILL
    openai_server.models.append({"id": "gpt-test"})
    async with open_home(tmp_path, {"OPENAI_BASE_URL": openai_server.base_url}) as home:
        (agent,) = await home.agents()
        await agent.update(model="openai-responses/gpt-test")
        told = await send(home, agent, "SAY:Hello again.")
        assert told.ended.stop_reason == "end_turn"
        items: list[dict[str, Any]] = openai_server.requests[-1]["input"]
        called = [item["call_id"] for item in items if item.get("type") == "function_call"]
        returned = [item for item in items if item.get("type") == "function_call_output"]
        assert len(called) == 1
        assert [item["call_id"] for item in returned] == called
        assert "outcome is unknown" in returned[0]["output"]
        assert (await agent.block("human")).value == "Likes maps."


async def _died_with_a_run(home: Home, agent: Agent, *, owner: str) -> str:
    """Leave what a process leaves that dies in the middle of a run."""
    now = utc_now()
    told = await send(home, agent, "Hi.")
    run = await run_of(home, told)
    dead = structs.replace(run, id=new_id("run"), status="running", stop_reason=None, completed_at=None)
    await home.runtime.db.write(lambda tx: runs.insert(tx, dead))
    await home.runtime.db.write(
        lambda tx: conversations.take_lease(
            tx, run.conversation_id, run_id=dead.id, owner=owner, now=now, expires_at=None
        )
    )
    await _add(home, agent, ("assistant", (_ONE,)))
    return dead.id


async def test_opening_ends_the_runs_of_dead_processes(tmp_path: Path, endpoint: ChatEndpoint) -> None:
    async with open_home(tmp_path, endpoint.environment) as home:
        agent = await home.create_agent(model=MODEL)
        run_id = await _died_with_a_run(home, agent, owner="0" * 32)
    async with open_home(tmp_path, endpoint.environment) as home:
        run = await home.runtime.db.read(lambda tx: runs.get(tx, run_id))
        assert (run.status, run.stop_reason) == ("failed", "error")
        assert run.error is not None
        assert run.error.type == "interrupted"
        assert run.completed_at is not None
        again = await home.agent(agent.id)
        assert (await again.state()).conversation.lease_run_id is None
        last = (await again.window())[-1]
        assert [(part.status, part.content) for part in last.tool_returns] == [("error", INTERRUPTED)]
    before = rows(tmp_path)
    async with open_home(tmp_path, endpoint.environment):
        assert rows(tmp_path) == before


async def test_a_message_to_a_conversation_whose_process_died_heals_it_without_a_new_opening(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    run_id = await _died_with_a_run(home, agent, owner="0" * 32)
    assert await agent.ask("Go on.") == "Fine."
    assert (await home.runtime.db.read(lambda tx: runs.get(tx, run_id))).status == "failed"
    assert_paired(await agent.window())
    assert len(endpoint.received) == 2


async def test_opening_leaves_the_runs_of_living_processes_alone(tmp_path: Path, endpoint: ChatEndpoint) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("One.",), hold=hold))
    async with open_home(tmp_path, endpoint.environment) as home:
        agent = await home.create_agent(model=MODEL)
        handle = await home.runtime.start(request(agent, "First."))
        await first_delta(handle)
        before = rows(tmp_path)
        async with open_home(tmp_path, endpoint.environment):
            assert rows(tmp_path) == before
        hold.set()
        assert (await watch(handle)).ended.stop_reason == "end_turn"


async def test_a_lease_whose_run_was_deleted_does_not_lock_the_conversation(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    run_id = await _died_with_a_run(home, agent, owner="0" * 32)
    await home.runtime.db.write(lambda tx: runs.delete(tx, run_id))
    assert await agent.ask("Go on.") == "Fine."
    assert_paired(await agent.window())
    assert len(endpoint.received) == 2


async def _waiting_agent(home: Home) -> Agent:
    """An agent that has asked whether it may edit its memory."""
    agent = await home.create_agent(
        model="scripted/demo",
        memory={"human": "Likes maps."},
        tool_rules=(ApprovalRule(tool_name="memory_insert"),),
    )
    assert (await send(home, agent, f"{INSERT}\nTHEN:\nSAY:Noted.")).ended.stop_reason == "requires_approval"
    return agent


@pytest.mark.slow
async def test_a_crash_after_an_approval_was_given_never_runs_the_call_twice(dying: Dying, tmp_path: Path) -> None:
    prepared = tmp_path / "prepared"
    async with open_home(prepared) as home:
        await _waiting_agent(home)
    report = tmp_path / "counts.json"
    counted = tmp_path / "counted"
    shutil.copytree(prepared, counted)
    assert dying.send(counted, "APPROVE", EUNOE_FAULT_COUNT=str(report)) == 0
    totals: dict[str, int] = json.loads(report.read_text())
    values: list[str] = []
    for point in [f"{kind}:{number}" for kind, total in totals.items() for number in range(1, total + 1)]:
        folder = tmp_path / point.replace(":", "-")
        shutil.copytree(prepared, folder)
        assert dying.send(folder, "APPROVE", EUNOE_FAULT=point) == -signal.SIGKILL
        async with open_home(folder) as home:
            (agent,) = await home.agents()
            window = await agent.window()
            value = (await agent.block("human")).value
            values.append(value)
            returns = [part for message in window for part in message.tool_returns]
            answered = any(message.role == "approval" for message in window)
            # The message that came with the answer is stored with it, or neither is.
            assert [message.text for message in window].count("SAY:Noted.") == answered
            if not answered:
                # The answer was not stored: the question is still open, and answering it again does it once.
                assert (returns, value) == ([], "Likes maps.")
                assert dying.send(folder, "APPROVE") == 0
                assert (await agent.block("human")).value == "Likes maps.\nLikes tea."
            elif value == "Likes maps.":
                assert [(part.status, part.content) for part in returns] == [("error", INTERRUPTED)]
                assert [message.role for message in window if message.role != "approval"][-2:] == ["tool", "user"]
                assert await agent.ask("SAY:on") == "on"
                assert (await agent.block("human")).value == "Likes maps."
            else:
                assert value == "Likes maps.\nLikes tea."
                assert [part.status for part in returns] == ["success"]
                assert await agent.ask("SAY:on") == "on"
                assert (await agent.block("human")).value == value
            assert_paired([message for message in await agent.window() if message.role != "approval"])
            assert (await home.runtime.db.read(runs.unfinished)) == []
    assert set(values) == {"Likes maps.", "Likes maps.\nLikes tea."}


async def test_a_reset_takes_back_the_question_that_waited(home: Home) -> None:
    agent = await _waiting_agent(home)
    await reset_messages(home.runtime, agent.id)
    assert await agent.ask("SAY:Hello.") == "Hello."
    assert [contents(message)[0] for message in await agent.window()] == ["user", "assistant"]
    with pytest.raises(InvalidInput, match="Messages must not be empty"):
        await home.runtime.start(TurnRequest(agent_id=agent.id))
