"""Failures of the loop that were reported of other systems, by their ids, where no other file holds them.

Not yet: L12 (a server of the Model Context Protocol that cuts its answer), which needs such tools.
"""

import threading

import anyio
import pytest
from chat_endpoint import MODEL, Answer, ChatEndpoint
from compaction_rig import exchange, store
from runtime_rig import BOUND, INSERT, assert_paired, first_delta, request, send, watch

from eunoe.embedded import Agent, Home
from eunoe.runtime.compaction_call import CompactionOutcome, compact_conversation
from eunoe.state.errors import ConversationBusy, PendingApproval
from eunoe.state.rules import ApprovalRule

pytestmark = pytest.mark.anyio


async def test_L07_waiting_for_an_answer_and_being_busy_are_two_errors_that_name_what_holds(
    home: Home, endpoint: ChatEndpoint
) -> None:
    waits = await home.create_agent(
        model="scripted/demo", memory={"human": "Likes maps."}, tool_rules=(ApprovalRule(tool_name="memory_insert"),)
    )
    asked = (await send(home, waits, INSERT)).messages[-1]
    with pytest.raises(PendingApproval) as pending:
        await home.runtime.start(request(waits, "SAY:Hello."))
    assert (pending.value.code, pending.value.details) == ("PENDING_APPROVAL", {"pending_request_id": asked.id})
    hold = threading.Event()
    endpoint.answers(Answer(text=("One ", "moment."), hold=hold))
    busy = await home.create_agent(model=MODEL)
    handle = await home.runtime.start(request(busy, "First."))
    await first_delta(handle)
    with pytest.raises(ConversationBusy) as held:
        await home.runtime.start(request(busy, "Second."))
    hold.set()
    await watch(handle)
    assert (held.value.code, held.value.details["run_id"]) == ("CONVERSATION_BUSY", handle.run_id)
    told = await send(home, waits, "SAY:Hello.", on_pending="deny_and_continue")
    assert told.messages[-1].text == "Hello."
    assert (await waits.block("human")).value == "Likes maps."


async def test_L20_a_message_that_comes_while_a_run_goes_on_waits_for_it(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("One ", "moment."), hold=hold), Answer(text=("Tick.",)))
    handle = await home.runtime.start(request(agent, "First."))
    await first_delta(handle)
    with pytest.raises(ConversationBusy):
        await home.runtime.start(request(agent, "Skipped.", on_busy="reject"))
    waiting: list[str] = []

    async def timer() -> None:
        waiting.append((await send(home, agent, "The timer.", on_busy="wait")).messages[-1].text)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(timer)
            await anyio.wait_all_tasks_blocked()
            assert len(endpoint.received) == 1
            hold.set()
    assert waiting == ["Tick."]
    assert [message.text for message in await agent.window()] == ["First.", "One moment.", "The timer.", "Tick."]


async def test_L20_a_message_that_comes_while_a_compaction_goes_on_is_answered_and_stays_in_view(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await store(home, agent, exchange(10))
    hold = threading.Event()
    endpoint.answers(Answer(text=("They counted ", "maps."), hold=hold), Answer(text=("Tick.",)))
    done: list[CompactionOutcome] = []

    async def compact() -> None:
        done.append(await compact_conversation(home.runtime, agent.id))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(compact)
            assert await anyio.to_thread.run_sync(endpoint.asked.wait, BOUND)
            assert (await send(home, agent, "The timer.")).messages[-1].text == "Tick."
            hold.set()
    window = await agent.window()
    assert done[0].summary == "They counted maps."
    assert [message.text for message in window[-2:]] == ["The timer.", "Tick."]
    assert window[0].role == "summary"
    assert_paired(window)
