"""Reflections that begin by themselves: when they are due, counted from what is stored, and never two at once."""

import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_endpoint import MODEL, Answer, ChatEndpoint
from msgspec import structs
from runtime_rig import BOUND, request, send

from eunoe.embedded import Agent, Home
from eunoe.runtime.compaction_call import compact_conversation
from eunoe.runtime.reflecting import MOST_AT_ONCE, Looker, reflecting
from eunoe.runtime.runtime import open_runtime, utc_now
from eunoe.runtime.settings import settings_from
from eunoe.state.errors import Conflict, InvalidInput, NotFound
from eunoe.state.reflections import Reflection
from eunoe.store import reflections

pytestmark = pytest.mark.anyio

GIT = ("git-memory-enabled",)
TEA = 'TOOL:memory_replace {"label": "human", "old_string": "maps", "new_string": "tea"}\nTHEN:\nSAY:Done.'


@asynccontextmanager
async def quiet(folder: Path, endpoint: ChatEndpoint | None = None) -> AsyncGenerator[Home]:
    """Open a store in which nothing begins by itself but what a test looks for."""
    named = {"EUNOE_SHUTDOWN_WAIT": "0", **(endpoint.environment if endpoint else {})}
    async with open_runtime(settings_from(named, folder)) as runtime:
        yield Home(runtime)


@pytest.fixture
async def home(tmp_path: Path, endpoint: ChatEndpoint) -> AsyncIterator[Home]:
    async with quiet(tmp_path, endpoint) as opened:
        yield opened


async def filed(home: Home, **fields: Any) -> Agent:
    return await home.create_agent(
        **{"model": "scripted/demo", "tags": GIT, "memory": {"human": "Likes maps."}, **fields}
    )


async def look(home: Home) -> list[Reflection]:
    """Look once, and return what began, as it ended."""
    begun = await Looker(home.runtime).look()
    ended: list[Reflection] = []
    with anyio.fail_after(BOUND):
        for one in begun:
            found = one
            while found.outcome is None:
                await anyio.lowlevel.checkpoint()
                found = (await (await home.agent(one.agent_id)).memory.reflection(one.id)).reflection
            ended.append(found)
    return ended


async def test_after_so_many_steps_it_begins_and_counts_anew(home: Home):
    agent = await filed(home)
    await agent.memory.reflect_when(every_steps=3, instructions=TEA)
    for expected in (0, 0, 1, 0, 0, 1):
        await send(home, agent, "SAY:Noted.")
        assert len(await look(home)) == expected
    assert [one.outcome for one in await agent.memory.reflections()] == ["nothing to do", "merged"]
    assert (await agent.block("system/human")).value == "Likes tea."


async def test_without_a_trigger_nothing_begins(home: Home):
    agent = await filed(home)
    for _ in range(3):
        await send(home, agent, "SAY:Noted.")
    assert await agent.memory.reflects_when() is None
    await agent.memory.reflect_when(every_steps=1)
    await agent.memory.reflect_when_asked()
    assert await look(home) == []
    with pytest.raises(NotFound, match="not reflected for by itself"):
        await agent.memory.reflect_when_asked()


async def test_after_a_compaction(home: Home):
    agent = await filed(home)
    await agent.memory.reflect_when(after_compaction=True, instructions="SAY:Nothing.")
    for _ in range(5):
        await send(home, agent, "SAY:Noted.")
    assert await look(home) == []
    await compact_conversation(home.runtime, agent.id)
    (done,) = await look(home)
    assert done.outcome == "nothing to do"
    assert await look(home) == []


async def test_what_was_counted_is_there_after_a_restart(tmp_path: Path):
    async with quiet(tmp_path) as home:
        agent = await filed(home)
        set_then = await agent.memory.reflect_when(every_steps=2, policy="review", instructions=TEA)
        await send(home, agent, "SAY:Noted.")
    async with quiet(tmp_path) as home:
        agent = await home.agent(agent.id)
        assert await agent.memory.reflects_when() == set_then
        assert await look(home) == []
        await send(home, agent, "SAY:Noted.")
    async with quiet(tmp_path) as home:
        (done,) = await look(home)
        assert (done.outcome, done.policy) == ("waits for review", "review")


async def test_while_one_waits_for_a_person_no_other_begins(home: Home):
    agent = await filed(home)
    await agent.memory.reflect_when(every_steps=1, policy="review", instructions=TEA)
    await send(home, agent, "SAY:Noted.")
    (done,) = await look(home)
    await send(home, agent, "SAY:Noted.")
    assert await look(home) == []
    await agent.memory.reject(done.id)
    (again,) = await look(home)
    assert again.from_seq == done.to_seq


async def test_one_that_failed_is_tried_again_later_and_goes_over_the_same(home: Home):
    agent = await filed(home)
    await agent.memory.reflect_when(every_steps=1, instructions="ERROR:400")
    await send(home, agent, "SAY:Noted.")
    (failed,) = await look(home)
    assert failed.outcome == "failed"
    await send(home, agent, "SAY:Noted.")
    assert await look(home) == []

    async def let_pass(time: timedelta) -> None:
        ended = structs.replace(failed, ended_at=utc_now() - time)
        await home.runtime.db.write(lambda tx: reflections.update(tx, ended))

    await let_pass(timedelta(minutes=9))
    assert await look(home) == []
    await let_pass(timedelta(minutes=11))
    (again,) = await look(home)
    assert (again.outcome, again.from_seq) == ("failed", failed.from_seq)
    assert await look(home) == []


async def test_while_a_run_goes_on_none_begins_and_never_a_second_one(home: Home, endpoint: ChatEndpoint):
    agent = await filed(home, model=MODEL)
    await agent.memory.reflect_when(every_steps=1)
    await send(home, agent, "hello")
    release = threading.Event()
    endpoint.answers(Answer(text=("Slow", "."), hold=release), Answer(text=("Slow", "."), hold=release))
    handle = await home.runtime.start(request(agent, "hello"))
    assert await Looker(home.runtime).look() == []
    release.set()
    with anyio.fail_after(BOUND):
        await handle.wait()
    release.clear()
    assert len(await Looker(home.runtime).look()) == 1
    assert await Looker(home.runtime).look() == []
    with pytest.raises(Conflict, match="goes on"):
        await agent.memory.reflect()
    release.set()


async def test_of_several_programs_on_one_store_one_begins_it(tmp_path: Path):
    async with quiet(tmp_path) as home, quiet(tmp_path) as other, quiet(tmp_path) as third:
        agent = await filed(home)
        await agent.memory.reflect_when(every_steps=1, instructions=TEA)
        await send(home, agent, "SAY:Noted.")
        counts: list[int] = []

        async def count(opened: Home) -> None:
            counts.append(len(await look(opened)))

        async with anyio.create_task_group() as tasks:
            for opened in (home, other, third):
                tasks.start_soon(count, opened)
        assert sorted(counts) == [0, 0, 1]
        assert [one.outcome for one in await agent.memory.reflections()] == ["merged"]


async def test_of_many_agents_a_few_at_a_time(home: Home):
    for _ in range(MOST_AT_ONCE + 1):
        agent = await filed(home)
        await agent.memory.reflect_when(every_steps=1, instructions="SAY:Nothing.")
        await send(home, agent, "SAY:Noted.")
    assert [len(await look(home)) for _ in range(3)] == [MOST_AT_ONCE, 1, 0]


async def test_an_agent_whose_memory_is_blocks_is_left_alone(home: Home):
    agent = await filed(home)
    await agent.memory.reflect_when(every_steps=1, instructions="SAY:Nothing.")
    await send(home, agent, "SAY:Noted.")
    await agent.update(memory_kind="blocks")
    assert await look(home) == []
    await agent.update(memory_kind="git")
    assert len(await look(home)) == 1
    other = await home.create_agent(model="scripted/demo")
    with pytest.raises(Conflict, match="git-memory-enabled"):
        await other.memory.reflect_when(every_steps=1)


async def test_what_would_never_fire_or_names_no_model_is_refused(home: Home):
    agent = await filed(home)
    wrongs: tuple[dict[str, Any], ...] = ({}, {"every_steps": 0}, {"every_steps": 1, "instructions": "x" * 20_001})
    for wrong in wrongs:
        with pytest.raises(InvalidInput):
            await agent.memory.reflect_when(**wrong)
    with pytest.raises(NotFound):
        await agent.memory.reflect_when(every_steps=1, model="nowhere/x")
    assert await agent.memory.reflects_when() is None


async def test_a_damaged_repository_stops_nobody_else(home: Home):
    broken = await filed(home)
    agent = await filed(home)
    for one in (broken, agent):
        await one.memory.reflect_when(every_steps=1, instructions="SAY:Nothing.")
        await send(home, one, "SAY:Noted.")
    home.runtime.homes.path(broken.id).rename(home.runtime.homes.path(broken.id).with_name("away"))
    (done,) = await look(home)
    assert done.agent_id == agent.id


async def test_it_begins_while_the_block_runs_and_not_after(home: Home):
    agent = await filed(home)
    await agent.memory.reflect_when(every_steps=1, instructions=TEA)
    async with reflecting(home.runtime, every=0.01):
        await send(home, agent, "SAY:Noted.")
        with anyio.fail_after(BOUND):
            while not any(one.outcome for one in await agent.memory.reflections()):
                await anyio.lowlevel.checkpoint()
    await send(home, agent, "SAY:Noted.")
    await anyio.wait_all_tasks_blocked()
    assert [one.outcome for one in await agent.memory.reflections()] == ["merged"]
