"""Servers in processes of their own, started as people start them."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

START_BOUND: Final = 30.0
"""Seconds that a server may take to say that it listens."""
STOP_BOUND: Final = 20.0
ROOT: Final = Path(__file__).parent.parent
EUNOE: Final = Path(sys.executable).with_name("eunoe")


class Served(Struct, frozen=True, kw_only=True):
    """A server that runs: its address and its process."""

    url: str
    pid: int


def clean_environment(**added: str) -> dict[str, str]:
    """Return an environment in which no model endpoint and no store of the user's is named."""
    kept = {name: value for name in ("PATH", "HOME", "LANG") if (value := os.environ.get(name)) is not None}
    return {**kept, **added}


def eunoe_serve(home: Path) -> list[str]:
    """Return the command that serves a store on a free port, with the log level that leaves the disk alone."""
    return [str(EUNOE), "serve", "--port", "0", "--home", str(home), "--log-level", "warning"]


@contextmanager
def serving(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Run a server that announces its address as the last word of a line with "listens on"; stop it afterwards.

    Raises ``RuntimeError`` when it ends, or says nothing for ``START_BOUND`` seconds.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=clean_environment(**(environment or {})), cwd=ROOT
    )
    try:
        yield Served(url=_announced(process), pid=process.pid)
    finally:
        process.terminate()
        try:
            process.wait(STOP_BOUND)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_BOUND)
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()


def _announced(process: subprocess.Popen[str]) -> str:
    stdout = process.stdout
    assert stdout is not None
    limit = threading.Timer(START_BOUND, process.kill)
    limit.start()
    try:
        return _address(stdout)
    finally:
        limit.cancel()


def _address(stdout: IO[str]) -> str:
    for line in stdout:
        if "listens on" in line:
            return line.split()[-1]
    raise RuntimeError(f"the server ended, or did not listen within {START_BOUND:g} s")


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB. Reads ``/proc``, so it works on Linux only."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid}/status does not tell the resident memory")
