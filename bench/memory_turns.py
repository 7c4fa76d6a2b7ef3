"""What memory files add to a turn: the rows follow the newest commit, and the prompt is compiled or reused (I6, I7).

Measured inside the transaction that opens a turn: following the newest commit, and compiling the system message or
reading it. Reading the agent with its blocks is told with it where the name says so; it is what any agent of as much
memory costs, as are the rest of an opening and the commit of its transaction.
"""

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from bench.clock import quiet
from bench.figures import Figure
from bench.memory_files import CHANGED_MS, COLD_MS, SAME_MS, SIZES, write_example_files
from bench.processes import ROOT
from eunoe.memory.git_library import open_handle
from eunoe.prompt.compile import fingerprint
from eunoe.runtime.agents import create_agent
from eunoe.runtime.following import follow
from eunoe.runtime.opening import state_in
from eunoe.runtime.prompts import conversation_model, current_facts, prompt_inputs, refresh_prompt
from eunoe.runtime.runtime import Runtime, open_runtime, utc_now
from eunoe.runtime.settings import Settings
from eunoe.state.agents import AgentSpec
from eunoe.store.database import Transaction

CHANGES: Final = 15
SAME_ROUNDS: Final = 300
COLD_ROUNDS: Final = 5


def measure() -> list[Figure]:
    """Measure turns of agents with memories of several sizes."""
    return anyio.run(_measure)


async def _measure() -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            home = Path(folder) / str(size)
            async with open_runtime(Settings(home=home)) as runtime:
                agent_id = await agent_with_files(runtime, size)
                warm = await _turns(runtime, agent_id)
            cold = [_in_new_process(home, agent_id) for _ in range(COLD_ROUNDS)]
            figures += _told(size, warm, cold)
    return figures


class _Took(Struct, frozen=True, kw_only=True):
    """Seconds of the check for changes, of following and compiling, and of both with the reading of the agent."""

    check: float
    compiled: float
    whole: float


class _Warm(Struct, frozen=True, kw_only=True):
    """What turns took in a process that has had others."""

    taken_in: _Took
    same: list[_Took]
    changed: list[_Took]
    added: list[_Took]


def _told(size: int, warm: _Warm, cold: list[float]) -> list[Figure]:
    files = f"turn, {size:,} memory files"
    largest = size == SIZES[-1]
    same, commits = f"lower quartile of {SAME_ROUNDS}", f"lower quartile of {CHANGES} commits by git"
    figures = [
        (f"{files}, check that nothing has changed", _quiet(warm.same, "check"), SAME_MS, same),
        (f"{files}, nothing has changed, with the agent", _quiet(warm.same, "whole"), None, same),
        (f"{files}, one has changed", _quiet(warm.changed, "compiled"), CHANGED_MS, commits),
        (f"{files}, one has changed, with the agent", _quiet(warm.changed, "whole"), None, commits),
        (f"{files}, one is new, with the agent", _quiet(warm.added, "whole"), None, commits),
        (f"{files}, cold, with the agent", quiet(cold), COLD_MS if largest else None, "the first of a process"),
        (f"{files}, all of them new", warm.taken_in.whole, None, "one commit by git added them; once"),
    ]
    return [
        Figure(name=name, value=took * 1e3, reach=reach, unit="ms", note=note) for name, took, reach, note in figures
    ]


def _quiet(turns: list[_Took], part: str) -> float:
    return quiet([getattr(took, part) for took in turns])


async def _turns(runtime: Runtime, agent_id: str) -> _Warm:
    tree = runtime.homes.path(agent_id)

    async def opening() -> _Took:
        return await runtime.db.write(partial(_opening, runtime=runtime, agent_id=agent_id))

    async def after(path: str, number: int) -> _Took:
        _commit(tree, path, number)
        return await opening()

    return _Warm(
        taken_in=await opening(),
        same=[await opening() for _ in range(SAME_ROUNDS)],
        changed=[await after("system/0000.md", number) for number in range(CHANGES)],
        added=[await after(f"notes/new-{number}.md", number) for number in range(CHANGES)],
    )


def _opening(tx: Transaction, *, runtime: Runtime, agent_id: str, afresh: bool = False) -> _Took:
    """Do what an opening does about memory."""
    now = utc_now()
    began = time.perf_counter()
    follow(tx, runtime.homes, agent_id, now)
    followed = time.perf_counter() - began
    state, conversation = state_in(tx, agent_id, None)
    model = conversation_model(runtime.models, state, conversation)
    facts = conversation.compiled.facts if conversation.compiled else current_facts(tx, conversation, now)
    before = time.perf_counter()
    fingerprint(prompt_inputs(state, conversation, model, facts))
    compared = time.perf_counter() - before
    refresh_prompt(tx, state, conversation, model, now, renew_facts=afresh, policy="recompile")
    ended = time.perf_counter()
    compiled = followed + ended - before - compared
    return _Took(check=followed + compared, compiled=compiled, whole=ended - began - compared)


def _in_new_process(home: Path, agent_id: str) -> float:
    command = [sys.executable, "-m", "bench.memory_turns", str(home), agent_id]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout)


async def _first_of_process(home: Path, agent_id: str) -> None:
    async with open_runtime(Settings(home=home)) as runtime:
        open_handle(runtime.homes.path(agent_id))  # the import of the git library is what a process pays once
        print((await runtime.db.write(partial(_opening, runtime=runtime, agent_id=agent_id, afresh=True))).whole)


async def agent_with_files(runtime: Runtime, size: int) -> str:
    """Make an agent with so many memory files, which its store has not taken in yet."""
    spec = AgentSpec(model="scripted/demo", include_base_tools=False, tags=("git-memory-enabled",))
    agent_id = (await create_agent(runtime, spec)).agent.id
    tree = runtime.homes.path(agent_id)
    write_example_files(tree, size)
    _git(tree, "add", "-A")
    _git(tree, "commit", "-q", "--no-verify", "-m", "Files")
    _git(tree, "gc", "--quiet")
    return agent_id


def _commit(tree: Path, path: str, number: int) -> None:
    (tree / path).parent.mkdir(exist_ok=True)
    (tree / path).write_text(f"---\ndescription: Changed\n---\nTo {number}.\n", "utf-8")
    _git(tree, "add", path)
    _git(tree, "commit", "-q", "--no-verify", "-m", "Change")


def _git(path: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "gc.auto=0", "-C", str(path), *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    anyio.run(_first_of_process, Path(sys.argv[1]), sys.argv[2])
