"""Memory files by the Python door, with and without async, and what a look at them costs."""

from pathlib import Path
from time import perf_counter

import pytest

import eunoe
from eunoe.embedded import Home
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.state.errors import Conflict, StaleRevision

TAGS = ("git-memory-enabled",)
HUMAN = "system/human.md"


def test_memory_is_read_written_and_restored_without_async(tmp_path: Path):
    with eunoe.open_sync(tmp_path) as home:
        agent = home.create_agent(model="scripted/demo", tags=TAGS, memory={"human": "Likes maps."})
        base = agent.memory.files().commit
        change = agent.memory.write("notes/one.md", "one\n", why="To remember.")
        assert agent.memory.read("notes/one.md") == "one\n"
        assert agent.memory.show(change.commit).commit.message == "Write notes/one.md\n\nTo remember.\n"
        with pytest.raises(StaleRevision):
            agent.memory.delete("notes/one.md", expected=base)
        agent.memory.tag("one", message="With one note.")
        assert [one.id for one in agent.memory.log("notes")] == [change.commit]
        agent.memory.restore(base)
        assert [one.path for one in agent.memory.files().files] == [HUMAN]
        assert agent.memory.read("notes/one.md", "one") == "one\n"
        assert agent.memory.export(tmp_path / "out", "one") == 2
        agent.memory.branch("idea", "one")
        assert agent.memory.merge("idea").outcome == "nothing to do"
        assert [one.name for one in agent.memory.branches()] == ["idea", "main"]
        assert agent.memory.check().ok
        assert agent.memory.status().said == ()


@pytest.mark.anyio
async def test_a_step_of_an_agent_with_blocks_says_that_memory_was_blocks(home: Home):
    agent = await home.create_agent(model="scripted/demo", memory={"human": "Likes maps."})
    with pytest.raises(Conflict, match="is blocks, not files"):
        await agent.memory.log()


@pytest.mark.anyio
async def test_a_look_that_finds_nothing_new_costs_next_to_nothing(home: Home):
    agent = await home.create_agent(model="scripted/demo", tags=TAGS, memory={"human": "Likes maps."})
    plain = await home.create_agent(model="scripted/demo", memory={"human": "Likes maps."})

    async def fastest(agent_id: str) -> float:
        best = 1.0
        for _ in range(200):
            began = perf_counter()
            assert await follow_memory(home.runtime, agent_id) is False
            best = min(best, perf_counter() - began)
        return best

    assert await fastest(plain.id) < 0.000_05
    assert await fastest(agent.id) < 0.000_5
