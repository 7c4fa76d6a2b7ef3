"""The exact request of every past step can be shown, byte for byte as an endpoint received it."""

import hashlib
import json
import threading
from pathlib import Path

import anyio
import pytest
from chat_endpoint import MODEL, Answer, Asked, ChatEndpoint
from runtime_rig import BOUND, first_delta, open_home, request, send, watch

from eunoe.embedded import Agent, Home
from eunoe.prompt.skills import Skill
from eunoe.runtime.agents import reset_messages
from eunoe.runtime.approvals import Reply
from eunoe.runtime.recompile import recompile
from eunoe.runtime.turn import TurnRequest
from eunoe.state.errors import NotFound
from eunoe.state.ids import new_id
from eunoe.state.messages import ApprovalPart, ImagePart, NewMessage, TextPart
from eunoe.state.rules import ApprovalRule
from eunoe.state.runs import Step
from eunoe.state.tools import ToolSchema
from eunoe.store import steps

pytestmark = pytest.mark.anyio

INSERT = Asked("call_a", "memory_insert", '{"label": "human", "new_string": "Likes tea."}')
SEARCH = Asked("call_b", "conversation_search", '{"query": "tea", "limit": 3}')


async def _steps(home: Home) -> list[Step]:
    return await home.runtime.db.read(lambda tx: steps.page(tx, steps.StepQuery(order="asc", limit=1000)))


async def _assert_replays(home: Home, received: list[bytes]) -> None:
    made = await _steps(home)
    assert len(made) == len(received)
    for step, body in zip(made, received, strict=True):
        replayed = await (await home.agent(step.agent_id)).request_of(step.id)
        assert bytes(replayed.body) == body
        assert replayed.verified
        assert replayed.note is None
        assert replayed.payload_hash == hashlib.sha256(body).hexdigest()
        assert (replayed.model, replayed.dialect) == (MODEL, "openai_chat")
        assert replayed.url.endswith("/v1/chat/completions")


async def _live(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    """Let the agent live through turns with calls, edits from outside, failures and changes of itself."""
    endpoint.answers(
        Answer(text=("I write it down.",), calls=(INSERT, SEARCH)),
        Answer(text=("Noted.",)),
        Answer(calls=(SEARCH,)),
        Answer(text=("Found.",)),
        Answer(status=400, message="No."),
        Answer(text=("Here again.",)),
    )
    await send(home, agent, "I like tea. 我喜欢茶 🍵")
    await agent.update_block("human", value="Likes maps, tea and \u2028 strange lines.")
    await send(home, agent, "Search.")
    await agent.update(system="You are someone else.", model_settings={"temperature": 0.5, "max_output_tokens": 100})
    await send(home, agent, "Fail.")
    await agent.update(tool_ids=())
    await send(home, agent, "And now?")
    image = ImagePart(data="aGk=", media_type="image/png")
    picture = NewMessage(role="user", parts=(TextPart(text="Look."), image), name="Mo")
    skill = Skill(name="paint", description="How to paint.", location="skills/paint/SKILL.md")
    tool = ToolSchema(name="here", description="Where am I?", parameters={"type": "object", "properties": {}})
    given = TurnRequest(agent_id=agent.id, messages=(picture,), client_skills=(skill,), client_tools=(tool,))
    await watch(await home.runtime.start(given))


async def test_every_step_replays_to_the_bytes_that_were_received(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await _live(home, agent, endpoint)
    assert len(endpoint.received) == 7
    await _assert_replays(home, endpoint.received)


async def test_steps_replay_in_the_next_process_and_after_later_changes(tmp_path: Path, endpoint: ChatEndpoint) -> None:
    async with open_home(tmp_path, endpoint.environment) as home:
        agent = await home.create_agent(model=MODEL, memory={"human": "Likes maps.", "persona": "Kind."})
        await _live(home, agent, endpoint)
    async with open_home(tmp_path, endpoint.environment) as home:
        again = await home.agent(agent.id)
        await again.update(system="Quite another text.", timezone="Asia/Tokyo", model_settings={"temperature": 1.0})
        await again.update_block("human", value="")
        await recompile(home.runtime, agent.id, update_timestamp=True)
        await _assert_replays(home, endpoint.received)


async def test_steps_around_a_cancelled_one_replay_exactly(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(calls=(SEARCH,)), Answer(text=("Half ",), hold=hold), Answer(text=("Whole.",)))
    await send(home, agent, "First.", max_steps=1)
    handle = await home.runtime.start(request(agent, "Second."))
    await first_delta(handle)
    with anyio.fail_after(BOUND):
        assert await home.runtime.cancel(handle.run_id)
    hold.set()
    await send(home, agent, "Third.")
    made = await _steps(home)
    # The step that was cancelled while its model spoke has no record; those before and after are exact.
    assert len(made) == 2
    for step, body in zip(made, (endpoint.received[0], endpoint.received[2]), strict=True):
        assert bytes((await agent.request_of(step.id)).body) == body
    assert json.loads(endpoint.received[2])["messages"][-3:] == [
        {"role": "user", "content": "Second."},
        {"role": "assistant", "content": "Half "},
        {"role": "user", "content": "Third."},
    ]


async def test_a_turn_that_goes_on_from_an_answer_replays_exactly(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await agent.update(tool_rules=(ApprovalRule(tool_name="memory_insert"),))
    endpoint.answers(Answer(calls=(INSERT, SEARCH)), Answer(calls=(SEARCH,)))
    await send(home, agent, "I like tea.")
    reply = Reply(answers=(ApprovalPart(tool_call_id="call_a", approve=True),))
    told = await send(home, agent, "And then?", reply=reply)
    assert told.ended.stop_reason == "end_turn"
    await send(home, agent, "Good.")
    assert [message["role"] for message in endpoint.requests()[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    await _assert_replays(home, endpoint.received)


async def test_after_a_reset_a_replay_says_that_it_is_not_what_was_sent(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await send(home, agent, "Hi.")
    (step,) = await _steps(home)
    await reset_messages(home.runtime, agent.id)
    replayed = await agent.request_of(step.id)
    assert replayed.verified is False
    assert replayed.note is not None
    assert "messages were deleted" in replayed.note
    assert replayed.payload_hash == hashlib.sha256(endpoint.received[0]).hexdigest()
    assert [message["role"] for message in json.loads(bytes(replayed.body))["messages"]] == ["system"]


async def test_a_step_that_is_not_there_is_not_found(agent: Agent) -> None:
    missing = new_id("step")
    with pytest.raises(NotFound, match=missing):
        await agent.request_of(missing)
