"""Through the terminal: ``eunoe`` commands, and ``eunoe chat`` as a process that is talked to through pipes."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import msgspec
from main_job import HUMAN, PATIENCE, PERSONA, Whole, environment, parts_of, until

import eunoe

NAME = "keeper"


class TerminalDoor:
    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self._env = environment(home, env)
        self._store = home / "store"
        self._chat: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._chat is not None:
            self._chat.kill()
            self._chat.communicate(timeout=PATIENCE)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "eunoe", *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, model: str) -> None:
        self.run("agents", "create", "--name", NAME, "--model", model, "--human", HUMAN, "--persona", PERSONA)

    def say(self, text: str, answer: str) -> None:
        if self._chat is None:
            self._chat = subprocess.Popen(
                [sys.executable, "-m", "eunoe", "chat", NAME],
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        assert self._chat.stdin is not None
        assert self._chat.stdout is not None
        with eunoe.open_sync(self._store, environment=self._env) as home:
            agent = home.agent(NAME)
            before = agent.state().agent.last_run_completion
            self._chat.stdin.write(text.replace("\n", "\\\n").encode() + b"\n")
            self._chat.stdin.flush()
            while answer not in self._chat.stdout.readline().decode():
                assert self._chat.poll() is None, "The chat has ended; its own words are on stderr"
            # The words are on the screen while the turn still goes on.
            until(lambda: agent.state().agent.last_run_completion != before)

    def whole(self) -> Whole:
        shown = msgspec.json.decode(self.run("agents", "show", NAME, "--json"))["agent"]
        manifest = msgspec.json.decode(self.run("agents", "show", NAME, "--manifest", "--json"))["manifest"]
        state = shown["state"]
        return Whole(
            agent_id=state["agent"]["id"],
            blocks={block["label"]: block["value"] for block in state["blocks"]},
            tools={tool["name"] for tool in state["tools"]},
            identities=[identity["name"] for identity in state["identities"]],
            parts=parts_of(manifest),
            window=[shown["window_messages"], shown["stored_messages"]],
            everything=state,
        )

    def last_request(self) -> Any:
        with eunoe.open_sync(self._store, environment=self._env) as home:
            step_id = home.agent(NAME).window()[-1].step_id
        return msgspec.json.decode(self.run("steps", "request", step_id))

    def edit(self, label: str, **changes: Any) -> None:
        if set(changes) == {"value"}:
            self.run("blocks", "set", NAME, label, changes["value"])
            return
        # The terminal sets values only; the rest is changed by a program on the same store.
        with eunoe.open_sync(self._store, environment=self._env) as home:
            home.agent(NAME).update_block(label, **changes)

    def kill(self) -> None:
        assert self._chat is not None
        self._chat.kill()
        self._chat.communicate(timeout=PATIENCE)
        self._chat = None
