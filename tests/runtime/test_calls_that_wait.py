"""Calls that wait for a person or for the client: what came before runs once, and each answer reaches its own call."""

import json
import threading
from pathlib import Path

import anyio
import pytest
from chat_endpoint import MODEL, Answer, Asked, ChatEndpoint, insert
from runtime_rig import BOUND, Told, assert_paired, first_delta, open_home, request, send, watch

from eunoe.embedded import Agent, Home
from eunoe.runtime.approvals import Reply
from eunoe.runtime.turn import TurnRequest
from eunoe.state.approvals import Answer as Given
from eunoe.state.errors import PendingApproval
from eunoe.state.messages import ApprovalPart, ToolReturnPart
from eunoe.state.rules import ApprovalRule
from eunoe.state.tools import ToolSchema

pytestmark = pytest.mark.anyio

BASH = ToolSchema(name="Bash", description="Run a command.", parameters={"type": "object", "properties": {}})
TWO = (Asked("functions_Bash_3", "Bash"), Asked("functions_Bash_5", "Bash"))


def reply(agent: Agent, *answers: Given) -> TurnRequest:
    return TurnRequest(agent_id=agent.id, reply=Reply(answers=answers), client_tools=(BASH,))


def yes(told: Told) -> ApprovalPart:
    """Approve the one call that a turn ended with."""
    (call,) = told.messages[-1].tool_calls
    return ApprovalPart(tool_call_id=call.id, approve=True)


def ran(call_id: str, content: str) -> ToolReturnPart:
    return ToolReturnPart(tool_call_id=call_id, name="", content=content)


def returns_sent(endpoint: ChatEndpoint) -> list[tuple[str, str]]:
    """The tool returns of the last request, each with the id of its call."""
    messages = endpoint.requests()[-1]["messages"]
    return [(one["tool_call_id"], one["content"]) for one in messages if one["role"] == "tool"]


async def gated_agent(home: Home) -> Agent:
    return await home.create_agent(
        model=MODEL, memory={"human": "Likes maps."}, tool_rules=(ApprovalRule(tool_name="memory_replace"),)
    )


def replace(call_id: str, old: str, new: str) -> Asked:
    return Asked(call_id, "memory_replace", json.dumps({"label": "human", "old_string": old, "new_string": new}))


async def test_L03_calls_of_a_client_that_never_comes_back_are_closed_and_the_next_turn_works(
    tmp_path: Path, endpoint: ChatEndpoint
) -> None:
    async with open_home(tmp_path / "store", endpoint.environment, EUNOE_CLIENT_TOOL_WAIT="0.000001") as home:
        agent = await home.create_agent(model=MODEL)
        endpoint.answers(Answer(calls=TWO))
        told = await send(home, agent, "List the files.", client_tools=(BASH,))
        assert told.ended.stop_reason == "requires_approval"
        await home.runtime.tidy()
        closed = (await agent.window())[-1]
        assert [(part.tool_call_id, part.status) for part in closed.tool_returns] == [
            ("functions_Bash_3", "error"),
            ("functions_Bash_5", "error"),
        ]
        assert (await send(home, agent, "And now?", client_tools=(BASH,))).ended.stop_reason == "end_turn"
    assert [call_id for call_id, _ in returns_sent(endpoint)] == ["functions_Bash_3", "functions_Bash_5"]


async def test_calls_that_waited_too_long_are_closed_by_the_next_message_too(
    tmp_path: Path, endpoint: ChatEndpoint
) -> None:
    async with open_home(tmp_path / "store", endpoint.environment, EUNOE_APPROVAL_WAIT="0.000001") as home:
        agent = await gated_agent(home)
        endpoint.answers(Answer(calls=(replace("call_1", "maps", "tea"),)))
        await send(home, agent, "I like tea.")
        assert (await send(home, agent, "And now?")).ended.stop_reason == "end_turn"
        assert (await agent.block("human")).value == "Likes maps."
    ((call_id, told),) = returns_sent(endpoint)
    assert (call_id, "Nobody answered in time" in told) == ("call_1", True)


async def test_L18_answers_that_come_in_another_order_reach_their_own_calls(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    endpoint.answers(Answer(calls=TWO))
    await send(home, agent, "List the files.", client_tools=(BASH,))
    answered = reply(agent, ran("functions_Bash_5", "two"), ran("functions_Bash_3", "one"))
    assert (await watch(await home.runtime.start(answered))).ended.stop_reason == "end_turn"
    assert returns_sent(endpoint) == [("functions_Bash_3", "one"), ("functions_Bash_5", "two")]


async def test_L19_what_ran_before_a_question_runs_once_however_often_the_turn_goes_on(
    home: Home, endpoint: ChatEndpoint
) -> None:
    agent = await gated_agent(home)
    endpoint.answers(
        Answer(calls=(insert("call_0", "Before."),)),
        Answer(calls=(replace("call_1", "maps", "tea"),)),
        Answer(calls=(replace("call_2", "tea", "rain"),)),
        Answer(calls=(replace("call_3", "rain", "snow"),)),
    )
    told = await send(home, agent, "Go.")
    for _ in range(3):
        assert told.ended.stop_reason == "requires_approval"
        answer = reply(agent, yes(told))
        told = await watch(await home.runtime.start(answer))
        assert (await home.runtime.start(answer)).run_id == told.ended.run_id
    assert told.ended.stop_reason == "end_turn"
    block = await agent.block("human")
    assert (block.value, block.revision) == ("Likes snow.\nBefore.", 5)
    assert_paired([message for message in await agent.window() if message.role != "approval"])


async def test_L04_a_call_that_was_approved_and_does_not_end_the_turn_is_stored_with_its_return(
    home: Home, endpoint: ChatEndpoint
) -> None:
    agent = await gated_agent(home)
    endpoint.answers(Answer(calls=(replace("call_1", "maps", "tea"),)), Answer(text=("Done.",)))
    told = await send(home, agent, "I like tea.")
    await watch(await home.runtime.start(reply(agent, yes(told))))
    window = await agent.window()
    assert [message.role for message in window] == ["user", "assistant", "approval", "tool", "assistant"]
    assert [call.id for call in window[1].tool_calls] == [part.tool_call_id for part in window[3].tool_returns]
    assert window[3].tool_returns[0].status == "success"
    assert (await send(home, agent, "Thanks.")).ended.stop_reason == "end_turn"


async def test_a_message_that_queues_behind_a_question_runs_after_the_turn_that_its_answer_continues(
    home: Home, endpoint: ChatEndpoint
) -> None:
    agent = await gated_agent(home)
    hold = threading.Event()
    endpoint.answers(
        Answer(calls=(replace("call_1", "maps", "tea"),)),
        Answer(text=("Noted ", "it."), hold=hold),
        Answer(text=("Second.",)),
    )
    asked = await send(home, agent, "I like tea.")
    with pytest.raises(PendingApproval):
        await home.runtime.start(request(agent, "Next.", on_pending="reject"))
    queued: list[Told] = []

    async def queue() -> None:
        queued.append(await send(home, agent, "Next.", on_pending="queue"))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(queue)
            await anyio.wait_all_tasks_blocked()
            going_on = await home.runtime.start(reply(agent, yes(asked)))
            await first_delta(going_on)
            with anyio.move_on_after(0.5):  # the message looks twice in that time whether it may go on, and may not
                await anyio.sleep_forever()
            assert queued == []
            hold.set()
    assert [message.text for message in queued[0].messages if message.role == "assistant"] == ["Second."]
    said = [message.text for message in await agent.window() if message.role in {"user", "assistant"} and message.text]
    assert said == ["I like tea.", "Noted it.", "Next.", "Second."]


async def test_a_message_that_queued_too_long_is_refused_and_the_question_still_waits(
    tmp_path: Path, endpoint: ChatEndpoint
) -> None:
    async with open_home(tmp_path / "store", endpoint.environment, EUNOE_BUSY_WAIT="0.05") as home:
        agent = await gated_agent(home)
        endpoint.answers(Answer(calls=(replace("call_1", "maps", "tea"),)))
        asked = await send(home, agent, "I like tea.")
        with anyio.fail_after(BOUND), pytest.raises(PendingApproval):
            await home.runtime.start(request(agent, "Next.", on_pending="queue"))
        assert (await watch(await home.runtime.start(reply(agent, yes(asked))))).ended.stop_reason == "end_turn"
        assert (await agent.block("human")).value == "Likes tea."
