"""Background runs: their events outlive connections and processes, and any watcher is told all of them once (I12)."""

import threading
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from chat_endpoint import MODEL, Answer, Asked, ChatEndpoint
from runtime_rig import BOUND, INSERT, Told, first_delta, open_home, request, run_of, send, watch

from eunoe.embedded import Agent, Home
from eunoe.runtime.handles import RunHandle
from eunoe.runtime.runtime import utc_now
from eunoe.runtime.watching import watch as watch_run
from eunoe.state.errors import NotFound
from eunoe.state.events import Event, MessageStored, RunEnded, RunStarted
from eunoe.store import run_events, runs

pytestmark = pytest.mark.anyio

_TWO_STEPS = f"{INSERT}\nTHEN:\nSAY:Some words to tell."


async def _stored(home: Home, run_id: str) -> list[Event]:
    return await home.runtime.db.read(lambda tx: run_events.of_run(tx, run_id))


async def _rest(handle: RunHandle, after: int) -> list[Event]:
    with anyio.fail_after(BOUND):
        return [event async for event in handle.events(after)]


async def test_every_event_is_stored_before_it_is_told(home: Home, scripted: Agent) -> None:
    handle = await home.runtime.start(request(scripted, _TWO_STEPS, background=True))
    told: list[Event] = []
    with anyio.fail_after(BOUND):
        async for event in handle.events():
            told.append(event)
            assert (await _stored(home, handle.run_id))[: len(told)] == told
    assert await _stored(home, handle.run_id) == told
    assert isinstance(told[0], RunStarted)
    assert [isinstance(event, RunEnded) for event in told].count(True) == 1


async def test_a_run_that_is_not_in_the_background_stores_no_events(home: Home, scripted: Agent) -> None:
    told = await send(home, scripted, _TWO_STEPS)
    assert await _stored(home, told.ended.run_id) == []


async def test_watchers_that_come_late_or_come_back_miss_nothing_and_hear_nothing_twice(
    home: Home, scripted: Agent
) -> None:
    handle = await home.runtime.start(request(scripted, _TWO_STEPS, background=True))
    seen: list[Event] = []
    async for event in handle.events():
        seen.append(event)
        if len(seen) == 2:
            break  # this watcher's connection is cut
    whole = list((await watch(handle)).events)
    for after in range(len(whole) + 1):
        assert await _rest(await watch_run(home.runtime, handle.run_id), after) == whole[after:]
    assert seen + await _rest(handle, 2) == whole


async def test_S03_a_run_goes_on_when_its_watcher_is_gone_and_is_told_from_where_it_was_cut(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("A long ", "silence."), hold=hold))
    handle = await home.runtime.start(request(agent, "Go.", background=True))
    await first_delta(handle)
    heard = len(await _stored(home, handle.run_id))
    hold.set()
    whole = (await watch(handle)).events
    assert await _rest(await watch_run(home.runtime, handle.run_id), heard) == list(whole[heard:])
    ended = whole[-1]
    assert isinstance(ended, RunEnded)
    assert ended.stop_reason == "end_turn"


async def test_S01_a_run_can_be_watched_and_a_message_sent_after_a_restart(tmp_path: Path) -> None:
    async with open_home(tmp_path) as home:
        agent = await home.create_agent(model="scripted/demo", memory={"human": "Likes maps."})
        told = await send(home, agent, _TWO_STEPS, background=True)
    async with open_home(tmp_path) as home:
        again = await watch(await watch_run(home.runtime, told.ended.run_id))
        assert again == told
        with anyio.fail_after(BOUND):
            assert await (await home.agent(agent.id)).ask("SAY:on") == "on"


async def _told_elsewhere(home: Home, run_id: str, told: list[Told]) -> None:
    told.append(await watch(await watch_run(home.runtime, run_id)))


@pytest.mark.slow
@pytest.mark.parametrize("background", [True, False])
async def test_a_run_of_another_opening_is_watched_to_its_end(
    tmp_path: Path, endpoint: ChatEndpoint, *, background: bool
) -> None:
    hold = threading.Event()
    insert = Asked("call_a", "memory_insert", '{"label": "human", "new_string": "Likes tea."}')
    endpoint.answers(Answer(text=("First. ",), calls=(insert,), hold=hold), Answer(text=("Then.",)))
    told: list[Told] = []
    own: list[Told] = []
    async with open_home(tmp_path, endpoint.environment) as home, open_home(tmp_path, endpoint.environment) as other:
        agent = await home.create_agent(model=MODEL, memory={"human": "Likes maps."})
        handle = await home.runtime.start(request(agent, "Go.", background=background))
        await first_delta(handle)
        async with anyio.create_task_group() as group:
            group.start_soon(_told_elsewhere, other, handle.run_id, told)
            await anyio.wait_all_tasks_blocked()
            hold.set()
            await _told_elsewhere(home, handle.run_id, own)
    assert told[0].ended.stop_reason == "end_turn"
    assert told[0].messages == own[0].messages
    if background:
        assert told[0].events == own[0].events


@pytest.mark.slow
async def test_a_run_of_another_opening_is_cancelled_within_seconds(tmp_path: Path, endpoint: ChatEndpoint) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("Once upon ",), hold=hold))
    async with open_home(tmp_path, endpoint.environment) as home, open_home(tmp_path, endpoint.environment) as other:
        agent = await home.create_agent(model=MODEL)
        handle = await home.runtime.start(request(agent, "A story.", background=True))
        await first_delta(handle)
        with anyio.fail_after(5):
            assert await other.runtime.cancel(handle.run_id)
        told = await watch(handle)
        hold.set()
        assert told.ended.stop_reason == "cancelled"
        assert (await run_of(other, told)).status == "cancelled"
        assert [message.text for message in await agent.window()] == ["A story.", "Once upon "]
        assert not await other.runtime.cancel(handle.run_id)


async def test_events_are_forgotten_when_their_time_is_over_and_messages_are_not(tmp_path: Path) -> None:
    async with open_home(tmp_path, EUNOE_EVENTS_KEPT="3600") as home:
        agent = await home.create_agent(model="scripted/demo", memory={"human": "Likes maps."})
        told = await send(home, agent, _TWO_STEPS, background=True)
        run_id = told.ended.run_id
        await home.runtime.tidy()
        assert await _stored(home, run_id) == list(told.events)
        before = (utc_now() - timedelta(hours=2)).timestamp() * 1_000_000
        await home.runtime.db.write(lambda tx: tx.execute("UPDATE runs SET completed_at = ?", (int(before),)))
        await home.runtime.tidy()
        assert await _stored(home, run_id) == []
        later = await watch(await watch_run(home.runtime, run_id))
        assert later.messages == told.messages
        assert later.ended.stop_reason == "end_turn"
        assert [type(event) for event in later.events] == [RunStarted, *[MessageStored] * 3, RunEnded]


@pytest.mark.parametrize("background", [True, False])
async def test_a_run_whose_agent_another_process_deletes_ends_and_takes_nobody_with_it(
    tmp_path: Path, endpoint: ChatEndpoint, *, background: bool
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("Once upon ", "a time."), hold=hold))
    async with open_home(tmp_path, endpoint.environment) as home:
        agent = await home.create_agent(model=MODEL)
        bystander = await home.create_agent(model="scripted/demo")
        handle = await home.runtime.start(request(agent, "A story.", background=background))
        await first_delta(handle)
        async with open_home(tmp_path, endpoint.environment) as other:
            await (await other.agent(agent.id)).delete()
        hold.set()
        assert (await watch(handle)).ended.stop_reason == "error"
        assert await bystander.ask("SAY:still here") == "still here"


async def test_events_that_cannot_be_stored_end_their_run_alone(tmp_path: Path) -> None:
    async with open_home(tmp_path) as home:
        agent = await home.create_agent(model="scripted/demo", memory={"human": "Likes maps."})
        await home.runtime.db.write(
            lambda tx: tx.execute(
                "CREATE TRIGGER full BEFORE INSERT ON run_events WHEN NEW.seq > 2 BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        )
        told = await send(home, agent, _TWO_STEPS, background=True)
        assert told.ended.stop_reason == "error"
        run = await run_of(home, told)
        assert run.completed_at is not None
        assert await agent.ask("SAY:on") == "on"
        later = await watch(await watch_run(home.runtime, run.id))
        assert later.ended.stop_reason == run.stop_reason


async def test_the_watcher_of_a_run_that_another_opening_loses_is_told_and_nobody_else_suffers(
    tmp_path: Path, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("First. ",), hold=hold))
    async with open_home(tmp_path, endpoint.environment) as home, open_home(tmp_path, endpoint.environment) as other:
        agent = await home.create_agent(model=MODEL)
        bystander = await other.create_agent(model="scripted/demo")
        run_id = (await home.runtime.start(request(agent, "Go."))).run_id
        watched = await watch_run(other.runtime, run_id)
        await home.runtime.db.write(lambda tx: runs.delete(tx, run_id))
        told = await watch(watched)
        watched.cancel()  # of a run that is gone
        hold.set()
        assert told.ended.stop_reason == "error"
        assert told.ended.error is not None
        assert told.ended.error.message == f"Run {run_id} not found"
        assert await bystander.ask("SAY:Fine.") == "Fine."


async def test_what_fails_beside_the_turns_is_logged_and_ends_nothing_else(
    home: Home, scripted: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(error: Exception) -> None:
        raise error

    home.runtime.spawn(fail, NotFound("Run", "run-1"))
    home.runtime.spawn(fail, ZeroDivisionError("a bug"))
    await anyio.wait_all_tasks_blocked()
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert await scripted.ask("SAY:Fine.") == "Fine."
