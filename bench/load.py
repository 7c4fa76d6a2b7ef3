"""Many agents at once: turns per second, how long they take, what memory does, and whether health still answers.

Each of 200 agents is sent five turns at a time that wait for each other, over HTTP, with the scripted model. The load
and a probe of the health each run in a process of their own, beside the server, on the same cores.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from bench.client import Client, new_agent
from bench.connection import Connection
from bench.figures import Figure
from bench.processes import ROOT, Served, clean_environment, eunoe_serve, resident_mib, serving

AGENTS: Final = 200
CONCURRENT: Final = 5
HEALTH_MS: Final = 100.0
FLAT_TIMES: Final = 1.15
"""How much the resident memory may grow after the first quarter of the turns, in which caches fill."""
BUSY_WAIT: Final = "600"
BODY: Final = msgspec.json.encode(
    {"messages": [{"role": "user", "content": "Which map should I look at today?"}], "on_busy": "wait"}
)


class Load(Struct, kw_only=True):
    """What a load has done so far. ``took`` are seconds per turn; ``resident`` is in MiB, by turns done."""

    turns: int
    pid: int
    took: list[float] = []
    resident: list[tuple[int, float]] = []
    left: int = 0

    def take(self) -> bool:
        """Take one of the turns that are left, and say whether there was one."""
        self.left -= 1
        return self.left >= 0

    def done(self, seconds: float) -> None:
        """Record a turn, and the memory twenty times on the way."""
        self.took.append(seconds)
        if len(self.took) % max(1, self.turns // 20) == 0:
            self.resident.append((len(self.took), resident_mib(self.pid)))


def measure(turns: int) -> list[Figure]:
    """Run so many turns and return what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        with serving(eunoe_serve(home), {"EUNOE_BUSY_WAIT": BUSY_WAIT}) as served:
            client = Client(served.url)
            # Windows begin anew with each turn, so that turns cost the same from the first to the last.
            agents = [
                new_agent(client, "scripted/demo", message_buffer_autoclear=True, include_base_tools=False)
                for _ in range(AGENTS)
            ]
            load = Load(turns=turns, pid=served.pid, left=turns)
            probe = _probe(served)
            try:
                began = time.perf_counter()
                anyio.run(_drive, served.url, agents, load, backend_options={"use_uvloop": True})
                seconds = time.perf_counter() - began
            finally:
                health = _latencies(probe)
    return _figures(load, seconds, health)


async def _drive(url: str, agents: Sequence[str], load: Load) -> None:
    async with anyio.create_task_group() as tasks:
        for agent in agents:
            for _ in range(CONCURRENT):
                tasks.start_soon(_send, url, agent, load)


async def _send(url: str, agent: str, load: Load) -> None:
    async with await Connection.open(url) as connection:
        while load.take():
            began = time.perf_counter()
            await connection.post(f"/v1/agents/{agent}/messages", BODY)
            load.done(time.perf_counter() - began)


def _probe(served: Served) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.health_probe", served.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
        cwd=ROOT,
    )


def _latencies(probe: subprocess.Popen[bytes]) -> list[float]:
    """End the probe and return the seconds of each of its requests."""
    out, _ = probe.communicate(b"", timeout=60)
    return msgspec.json.decode(out, type=list[float])


def _figures(load: Load, seconds: float, health: Sequence[float]) -> list[Figure]:
    took = statistics.quantiles(load.took, n=100)
    settled = next(mib for done, mib in load.resident if done >= load.turns // 4)
    last = load.resident[-1][1]
    name = f"load of {load.turns:,} turns"
    return [
        Figure(name=f"{name}: turns per second", value=load.turns / seconds, unit="/s"),
        Figure(name=f"{name}: turn, p50", value=took[49] * 1e3, unit="ms", note="with the wait for turns before it"),
        Figure(name=f"{name}: turn, p99", value=took[98] * 1e3, unit="ms", note="with the wait for turns before it"),
        Figure(
            name=f"{name}: resident at the end (floor: after a quarter)",
            value=last,
            floor=settled,
            reach=settled * FLAT_TIMES,
            times=FLAT_TIMES,
            unit="MiB",
        ),
        Figure(
            name=f"{name}: health meanwhile, p99",
            value=statistics.quantiles(health, n=100)[98] * 1e3,
            reach=HEALTH_MS,
            unit="ms",
            note=f"of {len(health)} requests",
        ),
    ]
