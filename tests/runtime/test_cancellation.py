"""Cancelling a turn, at any moment: what was said stays, calls are closed, and the store agrees with what was told."""

import threading

import anyio
import pytest
from chat_endpoint import Answer, Asked, ChatEndpoint, insert
from runtime_rig import (
    BOUND,
    assert_ended,
    assert_paired,
    busy_readers,
    contents,
    first_message,
    request,
    run_of,
    send,
    steps_of,
    watch,
)

from eunoe.embedded import Agent, Home
from eunoe.runtime.approvals import Reply
from eunoe.runtime.runtime import utc_now
from eunoe.runtime.window import CANCELLED
from eunoe.state.events import RunStarted, TextDelta
from eunoe.state.messages import ApprovalPart
from eunoe.state.rules import ApprovalRule

pytestmark = pytest.mark.anyio


async def test_a_turn_that_is_cancelled_while_the_model_speaks_keeps_what_was_said(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("Once upon ", "a time"), hold=hold))
    handle = await home.runtime.start(request(agent, "A story."))
    with anyio.fail_after(BOUND):
        async for event in handle.events():
            if isinstance(event, TextDelta) and event.text == "a time":
                break
    with anyio.fail_after(BOUND):
        assert await home.runtime.cancel(handle.run_id)
    hold.set()
    told = await watch(handle)
    await assert_ended(home, told, "cancelled", step_count=0)
    last = (await agent.window())[-1]
    assert contents(last) == ("assistant", "Once upon a time")
    assert last.meta == {"partial": "cancelled"}
    # It is the message that its pieces announced.
    assert {event.message_id for event in told.events if isinstance(event, TextDelta)} == {last.id}
    assert await agent.ask("Go on.") == "Fine."
    sent = endpoint.requests()[-1]["messages"]
    assert sent[-2:] == [
        {"role": "assistant", "content": "Once upon a time"},
        {"role": "user", "content": "Go on."},
    ]


async def test_a_turn_that_is_cancelled_while_a_tool_runs_closes_its_calls(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    search = Asked("call_search", "conversation_search", '{"query": "zebra"}')
    endpoint.answers(Answer(calls=(search, insert("call_edit", "Never made."))))
    async with busy_readers(home):
        handle = await home.runtime.start(request(agent, "Find it."))
        await first_message(handle)
        with anyio.fail_after(BOUND):
            assert await home.runtime.cancel(handle.run_id)
    told = await watch(handle)
    await assert_ended(home, told, "cancelled", step_count=1)
    assert [(part.tool_call_id, part.status, part.content) for part in told.returns] == [
        ("call_search", "error", CANCELLED),
        ("call_edit", "error", CANCELLED),
    ]
    assert_paired(await agent.window())
    assert (await agent.block("human")).value == "Likes maps."
    assert [step.status for step in await steps_of(home, told)] == ["cancelled"]
    assert await agent.ask("Go on.") == "Fine."


async def test_a_message_that_came_with_an_answer_is_kept_when_the_call_is_cancelled(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await agent.update(tool_rules=(ApprovalRule(tool_name="conversation_search"),))
    endpoint.answers(Answer(calls=(Asked("call_search", "conversation_search", '{"query": "zebra"}'),)))
    assert (await send(home, agent, "Find it.")).ended.stop_reason == "requires_approval"
    reply = Reply(answers=(ApprovalPart(tool_call_id="call_search", approve=True),))
    async with busy_readers(home):
        handle = await home.runtime.start(request(agent, "And hurry.", reply=reply))
        with anyio.fail_after(BOUND):
            assert await home.runtime.cancel(handle.run_id)
    assert [contents(message) for message in await agent.window() if message.role != "approval"] == [
        ("user", "Find it."),
        ("assistant", (("conversation_search", '{"query": "zebra"}'),)),
        ("tool", (("conversation_search", "error", CANCELLED),)),
        ("user", "And hurry."),
    ]
    assert await agent.ask("Never mind.") == "Fine."


async def test_leaving_a_turn_early_cancels_it(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("Once upon ",), hold=hold))
    run_id = ""
    turn = agent.send("A story.")
    with anyio.fail_after(BOUND):
        async for event in turn:
            if isinstance(event, RunStarted):
                run_id = event.run_id
            if isinstance(event, TextDelta):
                break
        await turn.aclose()
        handle = home.runtime.handle(run_id)
        ended = await handle.wait() if handle else None
    hold.set()
    assert ended is not None
    assert ended.stop_reason == "cancelled"
    assert [contents(message) for message in await agent.window()][-1] == ("assistant", "Once upon ")


async def test_cancelling_a_run_that_is_over_changes_nothing(home: Home, scripted: Agent) -> None:
    told = await send(home, scripted, "SAY:Done.")
    assert await home.runtime.cancel(told.ended.run_id) is False
    assert (await run_of(home, told)).stop_reason == "end_turn"


async def test_a_turn_can_be_cancelled_after_any_of_its_events(home: Home, scripted: Agent) -> None:
    edit = 'TOOL:memory_replace {"label": "human", "old_string": "END", "new_string": "x END"}'
    text = f"SAY:I write it down.\n{edit}\n{edit}\nTHEN:\n{edit}\nTHEN:\nSAY:Done, all of it."
    await scripted.update_block("human", value="END")
    whole = await send(home, scripted, text)
    ends: list[str] = []
    for moment in range(len(whole.events)):
        await scripted.update_block("human", value="END")
        before = len(await scripted.window())
        handle = await home.runtime.start(request(scripted, text))
        with anyio.fail_after(BOUND):
            seen = 0
            async for _ in handle.events():
                seen += 1
                if seen > moment:
                    break
            handle.cancel()
            await handle.wait()
        told = await watch(handle)
        ends.append(told.ended.stop_reason)
        window = (await scripted.window())[before:]
        assert_paired(window)
        # What was told is what is stored: the messages, the end, and one edit for each return that succeeded.
        assert [message.id for message in told.messages] == [message.id for message in window if message.role != "user"]
        run = await run_of(home, told)
        assert (run.stop_reason, run.step_count) == (told.ended.stop_reason, told.ended.step_count)
        made = sum(part.status == "success" for message in window for part in message.tool_returns)
        assert (await scripted.block("human")).value == "x " * made + "END"
        assert all(step.status != "pending" for step in await steps_of(home, told))
        assert (await scripted.state()).conversation.lease_run_id is None
        assert run.completed_at is not None
        assert run.completed_at <= utc_now()
    assert set(ends) == {"cancelled", "end_turn"}
    assert ends[0] == "cancelled"
    assert ends[-1] == "end_turn"
