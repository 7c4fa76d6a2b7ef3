"""How many commits of memory files four writers make in a second, by the product's own way: API, rows and files.

Each commit is one file of 1,000, judged, durable in the repository and in the store, and in the working tree when it is
answered. Beside it the same commits by git alone, which judges nothing and has no rows to bring along: by the library
(objects and reference on the disk, no working tree), and by a ``git add`` and a ``git commit`` process for each.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import anyio

from bench.figures import Figure
from bench.memory_files import commit_by_library, example_repository
from bench.memory_turns import agent_with_files
from bench.processes import ROOT
from eunoe.runtime.memory_edits import write_files
from eunoe.runtime.runtime import Runtime, open_runtime
from eunoe.runtime.settings import Settings

WRITERS: Final = 4
COMMITS: Final = 40
FILES: Final = 1_000
_READY: Final = "ready"


def measure() -> list[Figure]:
    """Measure both, and writers in one process and in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        agent_id, together = anyio.run(_in_one_process, home)
        apart = _in_processes(home, agent_id)
        library, processes = _by_git(Path(folder) / "alone")
    of_files = f"commits of one file of {FILES:,}"
    each = f"{COMMITS} each; floor: the library alone, one after another"
    return [
        _rate(f"{WRITERS} writers in one process, {of_files}", together, library, each),
        _rate(f"{WRITERS} writers in {WRITERS} processes, {of_files}", apart, library, each),
        _rate(f"git processes, {of_files}", processes, library, "`git add` and `git commit`, one after another"),
    ]


def _rate(name: str, value: float, floor: float, note: str) -> Figure:
    return Figure(name=name, value=value, floor=floor, unit="/s", note=note)


async def _in_one_process(home: Path) -> tuple[str, float]:
    async with open_runtime(Settings(home=home)) as runtime:
        agent_id = await agent_with_files(runtime, FILES)
        await _write(runtime, agent_id, "warm", 1)
        began = time.perf_counter()
        async with anyio.create_task_group() as writers:
            for number in range(WRITERS):
                writers.start_soon(_write, runtime, agent_id, f"task-{number}", COMMITS)
        return agent_id, WRITERS * COMMITS / (time.perf_counter() - began)


async def _write(runtime: Runtime, agent_id: str, name: str, commits: int) -> None:
    for number in range(commits):
        await write_files(runtime, agent_id, {f"notes/{name}.md": b"To %d.\n" % number}, why="To measure it.")


def _in_processes(home: Path, agent_id: str) -> float:
    commands = [[sys.executable, "-m", "bench.memory_writers", str(home), agent_id, str(n)] for n in range(WRITERS)]
    writers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for command in commands
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline().strip() == _READY
    began = time.perf_counter()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    codes = [writer.wait(timeout=120) for writer in writers]
    took = time.perf_counter() - began
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    assert codes == [0] * WRITERS
    return WRITERS * COMMITS / took


async def _as_one_of_them(home: Path, agent_id: str, name: str) -> None:
    async with open_runtime(Settings(home=home)) as runtime:
        await _write(runtime, agent_id, f"warm-{name}", 1)
        print(_READY, flush=True)
        sys.stdin.read()
        await _write(runtime, agent_id, f"process-{name}", COMMITS)


def _by_git(path: Path) -> tuple[float, float]:
    """Return the commits a second of the library alone, and of processes."""
    repository = example_repository(path, FILES)
    total = WRITERS * COMMITS
    began = time.perf_counter()
    for number in range(total):
        head = repository.head()
        repository.move_head(head, commit_by_library(repository, head, f"notes/{number % WRITERS}.md", number))
    library = total / (time.perf_counter() - began)
    subprocess.run(["git", "-C", str(path), "reset", "-q", "--hard"], check=True)
    began = time.perf_counter()
    for number in range(COMMITS):
        (path / "notes" / "process.md").write_text(f"To {number}.\n", "utf-8")
        for words in (["add", "notes/process.md"], ["commit", "-q", "--no-verify", "-m", "Change"]):
            subprocess.run(["git", "-c", "gc.auto=0", "-C", str(path), *words], check=True)
    return library, COMMITS / (time.perf_counter() - began)


if __name__ == "__main__":
    anyio.run(_as_one_of_them, Path(sys.argv[1]), sys.argv[2], sys.argv[3])
