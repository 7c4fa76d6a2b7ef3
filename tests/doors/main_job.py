"""The main job, whatever the door: what the agent is made of, what is said, and how requests are read."""

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, Self

import msgspec

PATIENCE: Final = 30.0
"""Seconds after which a process that does not do what is expected fails the test."""

HUMAN: Final = "用户希望回答短一点"
HUMAN_EDITED: Final = "用户希望先给结论\uff0c再展开细节"
PERSONA: Final = "I am careful."
PERSONA_AFTER: Final = f"{PERSONA}\n我喜欢地图"
EDIT: Final = 'TOOL:memory_insert {"label":"persona","new_string":"我喜欢地图","insert_line":-1}'
TOOLS: Final = {"conversation_search", "memory_insert", "memory_replace"}


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a door shows it. ``parts`` is the manifest: each part's kind, name, revision and hash."""

    agent_id: str
    blocks: dict[str, str]
    tools: set[str]
    identities: list[str]
    parts: list[Any]
    window: list[Any]
    prompt: str | None = None
    everything: Any = None
    """All else that the door tells, to be compared with itself."""


class Door(Protocol):
    """A way to an agent, through a process that can be killed."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def create(self, model: str) -> None:
        """Create the agent with the two blocks, and the default tools."""
        ...

    def say(self, text: str, answer: str) -> None:
        """Send a message, and wait for the end of a turn in which the agent says this."""
        ...

    def whole(self) -> Whole: ...

    def last_request(self) -> Any:
        """Return the body of the last request to the model, built again from the store."""
        ...

    def edit(self, label: str, **changes: Any) -> None:
        """Change the named fields of a block."""
        ...

    def kill(self) -> None:
        """Kill the process with SIGKILL, and start another one on the same store."""
        ...


def environment(home: Path, extra: dict[str, str]) -> dict[str, str]:
    """No variable of the person who runs the tests names a provider, a model or a store."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    own = {"HOME": str(home), "EUNOE_HOME": str(home / "store"), "PYTHONUTF8": "1", "EUNOE_SHUTDOWN_WAIT": "0"}
    return {**kept, **own, **extra}


def until(condition: Callable[[], object]) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "It did not happen in time"
        threading.Event().wait(0.01)


def parts_of(manifest: Any) -> list[Any]:
    """Return what must not change from one process to the next."""
    return [(part["kind"], part["id"], part["name"], part["revision"], part["hash"]) for part in manifest["parts"]]


def system_of(body: Any) -> str:
    """Return the system message of a request in any of the vendors' forms."""
    if "instructions" in body:
        return body["instructions"]
    if "system" in body:
        return "".join(part["text"] for part in body["system"])
    assert body["messages"][0]["role"] == "system"
    return body["messages"][0]["content"]


def said_in(body: Any) -> list[Any]:
    """Return the conversation of a request, without the marks that say how far a vendor shall cache."""
    if "input" in body:
        return body["input"]
    if "system" in body:
        return [_unmarked(message) for message in body["messages"]]
    return body["messages"][1:]


def all_else_in(body: Any) -> Any:
    """Return what is neither the system message nor the conversation: model, tools, settings."""
    return {key: value for key, value in body.items() if key not in {"messages", "input", "system", "instructions"}}


def without_section(label: str, system: str) -> str:
    """Return a system message with what stands in the section of a block cut out; it must have one."""
    cut, count = re.subn(rf"(?<=<{label}>\n).*?(?=</{label}>)", "", system, flags=re.DOTALL)
    assert count == 1, system
    return cut


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value
