"""Kill a process that reflects, wherever it writes: what is told of it is what became of its edits (G14)."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import anyio.to_thread
import pytest
from files_house import git
from runtime_rig import open_home, send

from eunoe.store import reflections

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

SAID = "SAY:I like tea."
TEA = 'TOOL:memory_replace {"label": "human", "old_string": "maps", "new_string": "tea"}\nTHEN:\nSAY:Done.'


def _reflect(folder: Path, **variables: str) -> tuple[int, str]:
    """Return how the process ended, and what it had to say."""
    script = Path(__file__).with_name("reflecting_dying.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder), TEA],
        env={**os.environ, **variables},
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


async def test_g14_a_reflection_that_is_killed_anywhere_tells_what_became_of_it(tmp_path: Path):
    async with open_home(tmp_path / "start") as home:
        agent = await home.create_agent(
            model="scripted/demo", name="Ada", tags=("git-memory-enabled",), memory={"human": "Likes maps."}
        )
        await send(home, agent, SAID)
    shutil.copytree(tmp_path / "start", tmp_path / "whole")
    counted = tmp_path / "counted.json"
    code, said = await anyio.to_thread.run_sync(lambda: _reflect(tmp_path / "whole", EUNOE_FAULT_COUNT=str(counted)))
    assert code == 0, said
    commits = json.loads(counted.read_bytes())["commit"]
    points = [f"{point}:{number}" for number in range(1, commits + 1) for point in ("before_commit", "commit")]
    assert len(points) > 16
    seen: set[str | None] = set()
    for point in points:
        folder = tmp_path / point.replace(":", "-")
        shutil.copytree(tmp_path / "start", folder)
        code, said = await anyio.to_thread.run_sync(
            lambda folder=folder, point=point: _reflect(folder, EUNOE_FAULT=point)
        )
        assert code == -signal.SIGKILL, (point, said)
        seen.add(await _check(folder, agent.id, point))
    assert seen == {None, "failed", "merged"}


async def _check(folder: Path, agent_id: str, point: str) -> str | None:
    """Open what a dead process left, hold what must be true, and return what is told of its reflection."""
    async with open_home(folder) as home:
        agent = await home.agent(agent_id)
        told = await agent.memory.reflections()
        outcome = told[0].outcome if told else None
        value = (await agent.block("system/human")).value
        assert (value == "Likes tea.") == (outcome == "merged"), point
        branch = told[0].branch if told else ""
        kept = [one for one in await agent.memory.branches() if one.name == branch]
        if outcome == "failed" and kept and kept[0].commit != told[0].base:
            assert (await agent.memory.accept(told[0].id)).outcome == "merged", point
        else:
            again = await agent.memory.reflect(instructions=TEA)
            assert again.outcome == ("nothing to do" if outcome == "merged" else "merged"), point
        assert (await agent.block("system/human")).value == "Likes tea."
        # What was going on when it died is over, and what nobody wants is gone.
        assert await home.runtime.db.read(lambda tx: reflections.going_on(tx, agent_id)) == []
        await send(home, agent, SAID)
        await agent.memory.reflect(instructions="SAY:Nothing.")
        assert [one.name for one in await agent.memory.branches()] == ["main"], point
        assert (await agent.verify()).ok
        assert git(home.runtime.homes.path(agent_id), "status", "--porcelain") == ""
        shutil.rmtree(folder)
        return outcome
