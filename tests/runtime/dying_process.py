"""A process whose children open a store, send one message, and may be killed at a point that is named."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime_rig import BOUND


class Dying:
    """The process of ``crash_child``, which sends messages in children of its own that may be killed."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def send(self, folder: Path, text: str, **variables: str) -> int:
        """Let a child open the store and send the message; return how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), variables, text]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def dying_process() -> Iterator[Dying]:
    """Run ``crash_child`` until the block ends."""
    script = Path(__file__).with_name("crash_child.py")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Dying(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(BOUND) == 0
