"""A conversation has one run at a time: leases, fences, and what a second request gets (I11)."""

import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from chat_endpoint import MODEL, Answer, Asked, ChatEndpoint
from dying_process import Dying
from runtime_rig import (
    BOUND,
    INSERT,
    assert_paired,
    busy_readers,
    contents,
    first_delta,
    first_message,
    open_home,
    request,
    rows,
    run_of,
    send,
    watch,
)

from eunoe.embedded import Agent, Home
from eunoe.runtime.runtime import utc_now
from eunoe.state.errors import ConversationBusy, EunoeError
from eunoe.state.ids import new_id
from eunoe.store import conversations, runs

pytestmark = pytest.mark.anyio


def _stored(folder: Path) -> dict[str, object]:
    """Return all rows but the index for search, which follows what is stored whenever somebody searches."""
    return {name: found for name, found in rows(folder).items() if not name.startswith("message_search")}


async def _take_lease_away(home: Home, conversation_id: str) -> None:
    """Let another run take the conversation, as one would that holds this run for dead."""
    await home.runtime.db.write(
        lambda tx: conversations.take_lease(
            tx, conversation_id, run_id=new_id("run"), owner="0" * 32, now=utc_now(), expires_at=None
        )
    )


async def test_a_second_request_is_refused_with_the_id_of_the_run(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("One ", "moment."), hold=hold))
    first = await home.runtime.start(request(agent, "First."))
    await first_delta(first)
    with pytest.raises(ConversationBusy) as busy:
        await home.runtime.start(request(agent, "Second.", on_busy="reject"))
    assert busy.value.details == {
        "run_id": first.run_id,
        "conversation_id": (await agent.state()).conversation.id,
    }
    hold.set()
    assert (await watch(first)).ended.stop_reason == "end_turn"
    assert [contents(message) for message in await agent.window()] == [("user", "First."), ("assistant", "One moment.")]
    assert (await send(home, agent, "Third.")).ended.stop_reason == "end_turn"


async def test_a_request_that_waits_runs_after_the_one_before_it(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("One.",), hold=hold), Answer(text=("Two.",)), Answer(text=("Three.",)))
    first = await home.runtime.start(request(agent, "First."))
    await first_delta(first)
    said: list[str] = []

    async def ask(text: str) -> None:
        said.append(await agent.ask(text))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "Second.")
            group.start_soon(ask, "Third.")
            await anyio.wait_all_tasks_blocked()
            assert len(endpoint.received) == 1
            hold.set()
    assert said == ["Two.", "Three."]
    window = await agent.window()
    assert [message.role for message in window] == ["user", "assistant"] * 3
    assert [message.text for message in window[1::2]] == ["One.", "Two.", "Three."]


async def test_a_request_that_waited_too_long_is_refused_and_leaves_no_trace(
    tmp_path: Path, endpoint: ChatEndpoint
) -> None:
    async with open_home(tmp_path / "store", endpoint.environment, EUNOE_BUSY_WAIT="0.05") as home:
        agent = await home.create_agent(model="openai/gpt-test")
        hold = threading.Event()
        endpoint.answers(Answer(text=("One.",), hold=hold))
        first = await home.runtime.start(request(agent, "First."))
        await first_delta(first)
        before = rows(tmp_path / "store")
        with anyio.fail_after(BOUND), pytest.raises(ConversationBusy):
            await home.runtime.start(request(agent, "Second.", on_busy="wait"))
        assert rows(tmp_path / "store") == before
        hold.set()
        await watch(first)


async def test_runs_of_different_agents_do_not_wait_for_each_other(
    home: Home, agent: Agent, scripted: Agent, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("One.",), hold=hold))
    first = await home.runtime.start(request(agent, "First."))
    await first_delta(first)
    assert (await send(home, scripted, "SAY:Free.")).ended.stop_reason == "end_turn"
    assert first.ended is None
    hold.set()
    await watch(first)


@pytest.mark.parametrize("moment", ["while the model speaks", "while a tool runs"])
async def test_a_run_whose_lease_was_taken_writes_nothing_more(
    home: Home, agent: Agent, endpoint: ChatEndpoint, tmp_path: Path, moment: str
) -> None:
    hold = threading.Event()
    insert = Asked("call_a", "memory_insert", '{"label": "human", "new_string": "Lost."}')
    search = Asked("call_b", "conversation_search", '{"query": "zebra"}')
    endpoint.answers(Answer(text=("Wait. ",), calls=(insert, search), hold=hold))
    conversation_id = (await agent.state()).conversation.id
    handle = await home.runtime.start(request(agent, "Edit."))
    await first_delta(handle)
    async with busy_readers(home):
        if moment == "while a tool runs":
            hold.set()
            await first_message(handle)
        await _take_lease_away(home, conversation_id)
        before = _stored(tmp_path)
        hold.set()
    told = await watch(handle)
    assert told.ended.stop_reason == "error"
    assert _stored(tmp_path) == before
    assert (await agent.block("human")).value == "Likes maps."
    # The one that took the lease never lived; the next request ends it, closes the calls and goes on.
    assert await agent.ask("Go on.") == "Fine."
    assert_paired(await agent.window())


async def test_a_run_that_lost_its_lease_is_ended_at_the_next_opening(tmp_path: Path, endpoint: ChatEndpoint) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("Wait. ",), hold=hold))
    async with open_home(tmp_path, endpoint.environment) as home:
        agent = await home.create_agent(model="openai/gpt-test")
        handle = await home.runtime.start(request(agent, "Edit."))
        await first_delta(handle)
        await _take_lease_away(home, (await agent.state()).conversation.id)
        hold.set()
        told = await watch(handle)
        assert (await run_of(home, told)).status == "running"
    async with open_home(tmp_path, endpoint.environment) as home:
        assert (await run_of(home, told)).status == "failed"


@pytest.mark.slow
async def test_L23_a_second_process_on_the_same_conversation_is_refused_or_queued(
    tmp_path: Path, endpoint: ChatEndpoint, dying: Dying
) -> None:
    folder = tmp_path / "store"
    async with open_home(folder, endpoint.environment) as home:
        agent = await home.create_agent(model="openai/gpt-test", memory={"human": "Likes maps."})
        insert = Asked("call_a", "memory_insert", '{"label": "human", "new_string": "From the other."}')
        hold = threading.Event()
        endpoint.answers(
            Answer(text=("Theirs. ",), calls=(insert,), hold=hold),
            Answer(text=("Theirs, done.",)),
            Answer(text=("Ours.",)),
        )
        ends: list[int] = []
        said: list[str] = []

        def their_turn() -> None:
            ends.append(dying.send(folder, "Their message.", **endpoint.environment))

        async def our_turn() -> None:
            said.append(await agent.ask("Our message."))

        with anyio.fail_after(BOUND):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, their_turn)
                assert await anyio.to_thread.run_sync(endpoint.asked.wait, BOUND)
                theirs = await home.runtime.db.read(runs.unfinished)
                assert [run.status for run in theirs] == ["running"]
                with pytest.raises(ConversationBusy) as busy:
                    await home.runtime.start(request(agent, "Refused."))
                assert busy.value.details["run_id"] == theirs[0].id
                group.start_soon(our_turn)
                await anyio.wait_all_tasks_blocked()
                hold.set()
        assert (ends, said) == ([0], ["Ours."])
        window = await agent.window()
        assert [contents(message)[0] for message in window] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
        ]
        assert [message.text for message in window if message.text] == [
            "Their message.",
            "Theirs. ",
            "Theirs, done.",
            "Our message.",
            "Ours.",
        ]
        assert (await agent.block("human")).value == "Likes maps.\nFrom the other."


async def test_closing_the_store_ends_a_running_turn_as_cancelled(tmp_path: Path, endpoint: ChatEndpoint) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("Once upon ",), hold=hold))
    async with open_home(tmp_path, endpoint.environment) as home:
        agent = await home.create_agent(model="openai/gpt-test")
        handle = await home.runtime.start(request(agent, "A story."))
        await first_delta(handle)
    hold.set()
    assert handle.ended is not None
    assert handle.ended.stop_reason == "cancelled"
    async with open_home(tmp_path, endpoint.environment) as home:
        again = await home.agent(agent.id)
        assert [contents(message) for message in await again.window()] == [
            ("user", "A story."),
            ("assistant", "Once upon "),
        ]
        assert await again.ask("Go on.") == "Fine."


async def test_closing_waits_for_a_turn_that_is_about_to_end(tmp_path: Path, endpoint: ChatEndpoint) -> None:
    async with open_home(tmp_path, endpoint.environment, EUNOE_SHUTDOWN_WAIT="10") as home:
        agent = await home.create_agent(model="scripted/demo", memory={"human": "Likes maps."})
        handle = await home.runtime.start(request(agent, f"{INSERT}\nTHEN:\nSAY:Noted."))
    assert handle.ended is not None
    assert handle.ended.stop_reason == "end_turn"


async def test_requests_that_wait_go_in_the_order_in_which_they_came(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("Held.",), hold=hold), *(Answer(text=(f"Answer {n}.",)) for n in range(8)))
    first = await home.runtime.start(request(agent, "First."))
    await first_delta(first)
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(agent.ask, f"Message {number}.")
                for _ in range(20):  # the turns of the loop that it takes to be refused, and so to stand in line
                    await anyio.lowlevel.checkpoint()
                await home.runtime.db.read(lambda tx: tx.row("SELECT 1"))
                await home.runtime.db.write(lambda tx: tx.row("SELECT 1"))
            hold.set()
    asked = [text for role, text in map(contents, await agent.window()) if role == "user"]
    assert asked == ["First.", *(f"Message {number}." for number in range(8))]


@pytest.mark.parametrize("ending", ["the agent is deleted", "the store is closed"])
async def test_a_request_that_is_refused_meanwhile_keeps_no_end_waiting(
    tmp_path: Path, endpoint: ChatEndpoint, ending: str
) -> None:
    hold, taken, release = threading.Event(), threading.Event(), threading.Event()
    endpoint.answers(Answer(text=("One ", "moment."), hold=hold))
    refused: list[str] = []

    async def ask() -> None:
        try:
            await agent.ask("Second.")
        except EunoeError as error:
            refused.append(error.code)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            async with open_home(tmp_path, endpoint.environment, EUNOE_BUSY_WAIT="0") as home:
                agent = await home.create_agent(model=MODEL)
                await first_delta(await home.runtime.start(request(agent, "First.")))
                # The writer is kept busy, so that the second request waits in its opening when the end comes.
                group.start_soon(home.runtime.db.write, lambda _tx: (taken.set(), release.wait(BOUND)))
                assert await anyio.to_thread.run_sync(taken.wait, BOUND)
                group.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                threading.Timer(0.2, release.set).start()
                if ending == "the agent is deleted":
                    await agent.delete()
            hold.set()
    assert refused == ["CONVERSATION_BUSY"]
