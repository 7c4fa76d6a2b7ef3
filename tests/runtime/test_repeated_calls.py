"""A model that asks for the very same again and again is stopped, and one that only looks like it is not."""

import json

import pytest
from chat_endpoint import Answer, Asked, ChatEndpoint
from runtime_rig import assert_ended, assert_paired, send

from eunoe.embedded import Agent, Home
from eunoe.runtime.failures import MOST_REPETITIONS

pytestmark = pytest.mark.anyio


def looking(call_id: str, query: str = "tea") -> Answer:
    return Answer(calls=(Asked(call_id, "conversation_search", json.dumps({"query": query})),))


async def test_L15_the_same_call_with_the_same_return_is_stopped_with_its_reason(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    endpoint.answers(*(looking("call_1") for _ in range(20)))
    told = await send(home, agent, "Look for it.")
    assert told.ended.error is not None
    assert told.ended.error.type == "repeated_tool_call"
    await assert_ended(home, told, "invalid_tool_call", step_count=MOST_REPETITIONS + 1)
    assert len(endpoint.received) == MOST_REPETITIONS + 1
    for body in endpoint.requests():
        calls = [call["id"] for one in body["messages"] for call in one.get("tool_calls", ())]
        returns = [one["tool_call_id"] for one in body["messages"] if one["role"] == "tool"]
        assert calls == returns
        assert len(set(calls)) == len(calls)
    assert_paired(await agent.window())
    assert (await send(home, agent, "Never mind.", max_steps=1)).ended.error is None


async def test_calls_that_differ_are_no_repetition(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    endpoint.answers(*(looking(f"call_{n}", query=f"tea {n}") for n in range(MOST_REPETITIONS + 3)))
    told = await send(home, agent, "Look for them.")
    await assert_ended(home, told, "end_turn", step_count=MOST_REPETITIONS + 4)


async def test_the_same_call_in_later_turns_is_no_repetition(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    for number in range(MOST_REPETITIONS + 3):
        endpoint.answers(looking(f"call_{number}"), Answer(text=("Nothing.",)))
        assert (await send(home, agent, "Look for it.")).ended.stop_reason == "end_turn"
