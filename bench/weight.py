"""What Eunoe weighs before it does anything: start, memory at rest, imports, packages."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.client import Client
from bench.clock import median
from bench.figures import Figure, against
from bench.processes import EUNOE, ROOT, clean_environment, eunoe_serve, resident_mib, serving

STARTS: Final = 7
RUNS: Final = 15
READY_SECONDS: Final = 1.5
IDLE_MIB: Final = 80.0
CPU_TIMES: Final = 5.0
PACKAGES: Final = 20


def measure() -> list[Figure]:
    """Measure starts of the server, CPU time of short commands, and count packages."""
    return [*_starts(), *_commands(), _packages()]


def _starts() -> list[Figure]:
    samples = [_start() for _ in range(STARTS)]
    return [
        Figure(
            name="eunoe serve answers its health",
            value=median([ready for ready, _ in samples]),
            reach=READY_SECONDS,
            unit="s",
            note=f"median of {STARTS} starts, each with a store that is made first",
        ),
        Figure(
            name="eunoe serve at rest, resident",
            value=median([mib for _, mib in samples]),
            reach=IDLE_MIB,
            unit="MiB",
            note="after its health was asked once",
        ),
    ]


def _start() -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        with serving(eunoe_serve(Path(folder) / "home")) as served:
            client = Client(served.url)
            client.call("GET", "/v1/health/")
            return time.perf_counter() - began, resident_mib(served.pid)


def _commands() -> list[Figure]:
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import eunoe": [sys.executable, "-c", "import eunoe"],
        "eunoe --help": [str(EUNOE), "--help"],
    }
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            took[name].append(_cpu_seconds(command))
    floor = min(took.pop("python -c pass")) * 1e3
    note = f"user and system time, least of {RUNS}; the floor is python -c pass"
    return [against(f"{name}, CPU", min(samples) * 1e3, floor, CPU_TIMES, "ms", note) for name, samples in took.items()]


def _cpu_seconds(command: Sequence[str]) -> float:
    """Run a command to its end and return its CPU time: user and system."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=clean_environment(), cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _packages() -> Figure:
    return Figure(
        name="packages of the core, with eunoe",
        value=len(closure("eunoe")),
        reach=PACKAGES,
        unit="",
        note="what the metadata of the installed packages require on this machine, without extras",
    )


def closure(name: str) -> set[str]:
    """Return the names of a package and of all that it needs here, extras only where they are asked for.

    Raises ``RuntimeError`` for one that is needed and not installed.
    """
    found: set[str] = set()
    waiting: list[tuple[str, frozenset[str]]] = [(name, frozenset())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        found.add(canonicalize_name(wanted[0]))
        waiting += [(need.name, frozenset(need.extras)) for need in _needs(*wanted)]
    return found


def _needs(name: str, extras: frozenset[str]) -> list[Requirement]:
    try:
        listed = [Requirement(text) for text in requires(name) or ()]
    except PackageNotFoundError as error:
        raise RuntimeError(f"{name} is needed and is not installed") from error
    return [
        need
        for need in listed
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]
