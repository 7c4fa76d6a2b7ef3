"""Through Python: a program of ours that imports ``eunoe``, as a process of its own."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
from main_job import HUMAN, PATIENCE, PERSONA, Whole, environment, parts_of

CHILD = Path(__file__).with_name("python_child.py")


class PythonDoor:
    def __init__(self, home: Path, env: dict[str, str], form: Literal["async", "sync"]) -> None:
        self._env = environment(home, env)
        self._store = home / "store"
        self._form = form

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(CHILD), self._form, str(self._store)],
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _stop(self) -> None:
        self._child.kill()
        self._child.communicate(timeout=PATIENCE)

    def _ask(self, do: str, given: Any = None) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(msgspec.json.encode([do, given]) + b"\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        assert line, "The program has ended; its own words are on stderr"
        return msgspec.json.decode(line)

    def create(self, model: str, **fields: Any) -> None:
        memory = {"human": HUMAN, "persona": PERSONA}
        self._ask("create", {"model": model, "memory": memory, "tags": ["kept"], **fields})

    def say(self, text: str, answer: str) -> None:
        texts, ends = self._ask("say", text)
        assert (texts[-1], ends) == (answer, ["end_turn"])

    def hear(self, text: str) -> str:
        """Send a message and return the last words of the answer, whatever they are and however they end."""
        texts, _ = self._ask("say", text)
        return texts[-1]

    def whole(self) -> Whole:
        state, manifest, window, prompt = self._ask("whole")
        return Whole(
            agent_id=state["agent"]["id"],
            blocks={block["label"]: block["value"] for block in state["blocks"]},
            tools={tool["name"] for tool in state["tools"]},
            identities=[identity["name"] for identity in state["identities"]],
            parts=parts_of(manifest),
            window=window,
            prompt=prompt,
            everything=state,
        )

    def last_request(self) -> Any:
        found = self._ask("last_request")
        assert found["verified"]
        return found["body"]

    def edit(self, label: str, **changes: Any) -> None:
        self._ask("edit", [label, changes])

    def kill(self) -> None:
        self._stop()
        self._start()
