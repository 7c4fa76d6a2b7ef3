"""The ``eunoe`` command as people run it: in this process, as a process, and in a terminal."""

import asyncio
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from click.testing import CliRunner, Result

from eunoe.cli.companion import starting_blocks
from eunoe.cli.group import root
from eunoe.runtime.agents import create_agent
from eunoe.runtime.runtime import Runtime, open_runtime
from eunoe.runtime.settings import Settings
from eunoe.runtime.turn import TurnRequest
from eunoe.state.agents import AgentSpec
from eunoe.state.messages import NewMessage, TextPart
from eunoe.state.rules import ApprovalRule
from eunoe.state.tools import ToolSchema

T = TypeVar("T")

LAMP = ToolSchema(name="lamp", description="Light.", parameters={"type": "object", "properties": {}})
"""A tool that only another program can run."""

PATIENCE = 30.0
"""Seconds after which a terminal that does not say what is expected fails the test."""

# The command runs in a session of its own; opening the terminal makes it the one whose Ctrl-C it gets.
_IN_TERMINAL = """
import os, sys
os.open(os.ttyname(0), os.O_RDWR)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """No variable of the person who runs the tests names a provider, a model or a store."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "EUNOE_HOME": str(home / "store"),
        "PYTHONUTF8": "1",
        "EUNOE_SHUTDOWN_WAIT": "0",
        **(extra or {}),
    }


def until(condition: Callable[[], object]) -> None:
    """Wait for what another process does to this one's servers."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


class Cli:
    """Runs commands on one store."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = home / "store"

    def run(self, *arguments: str, text: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Result:
        """Run in this process."""
        unset = dict.fromkeys((name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))), None)
        wanted = {**unset, **environment(self.home, env)}
        return CliRunner().invoke(root, arguments, input=text, env=wanted, prog_name="eunoe")

    def done(self, *arguments: str, text: str | None = None, env: Mapping[str, str] | None = None) -> str:
        """Run in this process, and return what it wrote to stdout if it did what it was asked."""
        result = self.run(*arguments, text=text, env=env)
        assert result.exit_code == 0, result.output
        return result.stdout

    def process(
        self, *arguments: str, text: str | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run as a process."""
        return subprocess.run(
            [sys.executable, "-m", "eunoe", *arguments],
            input=text,
            env=environment(self.home, env),
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            check=False,
        )

    def beside(self, work: Callable[[Runtime], Awaitable[T]], env: Mapping[str, str] | None = None) -> T:
        """Do what another program would do with the store."""

        async def opened() -> T:
            async with open_runtime(Settings(home=self.store, environment=env or {})) as runtime:
                return await work(runtime)

        return asyncio.run(opened())

    def asker(self, *tools: str) -> str:
        """Create an agent, named Ada, whose calls of these tools wait for a person; return its id."""
        rules = tuple(ApprovalRule(tool_name=name) for name in tools)
        blocks = starting_blocks(None, None)
        spec = AgentSpec(name="Ada", model="scripted/demo", memory_blocks=blocks, tool_rules=rules)
        return self.beside(lambda runtime: create_agent(runtime, spec)).agent.id

    def ask_beside(self, agent_id: str, text: str, *client_tools: ToolSchema) -> None:
        """Leave a question open, as another program would."""

        async def ask(runtime: Runtime) -> None:
            message = NewMessage(role="user", parts=(TextPart(text=text),))
            request = TurnRequest(agent_id=agent_id, messages=(message,), client_tools=client_tools)
            ended = await (await runtime.start(request)).wait()
            assert ended.stop_reason == "requires_approval"

        self.beside(ask)

    def terminal(self, *arguments: str, env: Mapping[str, str] | None = None) -> "Terminal":
        """Run as a process in a terminal."""
        return Terminal(arguments, environment(self.home, {"TERM": "xterm-256color", **(env or {})}))


class Terminal:
    """A pseudo-terminal with a command in it. Use it in a ``with`` statement."""

    def __init__(self, arguments: tuple[str, ...], env: dict[str, str]) -> None:
        self._mine, theirs = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _IN_TERMINAL, "-m", "eunoe", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            start_new_session=True,
        )
        os.close(theirs)
        self._unread = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)
        os.close(self._mine)

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._mine, text.encode())

    def expect(self, text: str) -> str:
        """Read until the screen says this, and return what it said up to there."""
        deadline = time.monotonic() + PATIENCE
        while text not in self._unread:
            if not self._read(deadline):
                raise AssertionError(f"The terminal does not say {text!r}; it says {self._unread!r}")
        before, _, self._unread = self._unread.partition(text)
        return before + text

    def press_until(self, key: str, text: str) -> None:
        """Press a key until the screen says this, as a person would.

        Python's line editing misses an interrupt that comes while it draws a character, until the next key.
        """
        deadline = time.monotonic() + PATIENCE
        while text not in self._unread:
            assert time.monotonic() < deadline, f"The terminal does not say {text!r}; it says {self._unread!r}"
            self.type(key)
            patience = time.monotonic() + 3
            while text not in self._unread and self._read(min(patience, deadline)):
                pass
        self._unread = self._unread.partition(text)[2]

    def leave(self) -> int:
        """Read to the end, and return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self._process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._mine], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            got = os.read(self._mine, 65_536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self._unread += got.decode(errors="replace")
        return bool(got)
