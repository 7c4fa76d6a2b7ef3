"""Turns as tests of the runtime send and watch them, and the store as another program sees it."""

import sqlite3
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec import Struct

import eunoe
from eunoe.embedded import Agent, Home
from eunoe.runtime.handles import RunHandle
from eunoe.runtime.turn import TurnRequest
from eunoe.state.events import Event, MessageStored, RunEnded, TextDelta
from eunoe.state.messages import Message, NewMessage, TextPart, ToolReturnPart
from eunoe.state.runs import Run, Step, status_for
from eunoe.store import agents, runs, steps

BOUND: Final = 15.0
"""Seconds that any wait of a test may take."""

INSERT: Final = 'TOOL:memory_insert {"label": "human", "new_string": "Likes tea."}'
"""A line for the scripted model: it adds a line to the block ``human``."""


class Told(Struct, frozen=True, kw_only=True):
    """What a turn told, from its first event to its end."""

    events: tuple[Event, ...]

    @property
    def ended(self) -> RunEnded:
        last = self.events[-1]
        assert isinstance(last, RunEnded)
        return last

    @property
    def messages(self) -> list[Message]:
        return [event.message for event in self.events if isinstance(event, MessageStored)]

    @property
    def returns(self) -> list[ToolReturnPart]:
        return [part for message in self.messages for part in message.tool_returns]


def request(agent: Agent, text: str, **fields: Any) -> TurnRequest:
    return TurnRequest(agent_id=agent.id, messages=(NewMessage(role="user", parts=(TextPart(text=text),)),), **fields)


async def watch(handle: RunHandle) -> Told:
    with anyio.fail_after(BOUND):
        return Told(events=tuple([event async for event in handle.events()]))


async def first_delta(handle: RunHandle) -> TextDelta:
    """Wait until the model has said something."""
    with anyio.fail_after(BOUND):
        async for event in handle.events():
            if isinstance(event, TextDelta):
                return event
    raise AssertionError("the turn ended before the model said anything")


async def send(home: Home, agent: Agent, text: str, **fields: Any) -> Told:
    return await watch(await home.runtime.start(request(agent, text, **fields)))


async def run_of(home: Home, told: Told) -> Run:
    return await home.runtime.db.read(lambda tx: runs.get(tx, told.ended.run_id))


async def steps_of(home: Home, told: Told) -> list[Step]:
    return await home.runtime.db.read(lambda tx: steps.of_run(tx, told.ended.run_id))


@asynccontextmanager
async def open_home(
    folder: Path, environment: Mapping[str, str] | None = None, **settings: str
) -> AsyncGenerator[Home, None]:
    """Open a store that sees no environment but this one, and whose turns are cancelled at once when it closes."""
    named = {"EUNOE_SHUTDOWN_WAIT": "0", **(environment or {}), **settings}
    async with eunoe.open(folder, environment=named) as home:
        yield home


@asynccontextmanager
async def busy_readers(home: Home) -> AsyncGenerator[None, None]:
    """Keep both readers of the store busy until the block ends, so that a tool that searches has to wait that long."""
    release = threading.Event()
    taken = [threading.Event(), threading.Event()]
    async with anyio.create_task_group() as group:
        try:
            for one in taken:
                group.start_soon(home.runtime.db.read, lambda _tx, one=one: (one.set(), release.wait(BOUND)))
            for one in taken:
                assert await anyio.to_thread.run_sync(one.wait, BOUND)
            yield
        finally:
            release.set()


async def first_message(handle: RunHandle) -> None:
    """Wait until a message of the turn is stored: after one with calls, its tools run."""
    with anyio.fail_after(BOUND):
        async for event in handle.events():
            if isinstance(event, MessageStored):
                return
    raise AssertionError("the turn ended without a message")


def rows(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, as a connection of another program sees them: what is committed."""
    with closing(sqlite3.connect(folder / "eunoe.db")) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}  # noqa: S608 - names of our own tables


def contents(message: Message) -> tuple[str, object]:
    """Return what a message says, without what differs from one run to the next (ids and times)."""
    said = [(call.name, call.arguments) for call in message.tool_calls]
    came = [(part.name, part.status, part.content) for part in message.tool_returns]
    return message.role, tuple(said or came) or message.text


def assert_paired(window: tuple[Message, ...] | list[Message]) -> None:
    """Every call has exactly one return, directly after the message that asked, and no return is without its call."""
    open_calls: list[str] = []
    for message in window:
        if message.role == "tool":
            for part in message.tool_returns:
                assert part.tool_call_id in open_calls
                open_calls.remove(part.tool_call_id)
            continue
        assert open_calls == []
        open_calls = [call.id for call in message.tool_calls]
    assert open_calls == []


async def assert_ended(home: Home, told: Told, reason: str, *, step_count: int) -> None:
    """The event, the stored run and the agent agree on the end, and the conversation is free."""
    run = await run_of(home, told)
    assert (told.ended.stop_reason, told.ended.step_count) == (reason, step_count)
    assert (run.stop_reason, run.step_count, run.status) == (reason, step_count, status_for(told.ended.stop_reason))
    assert run.error == told.ended.error
    assert run.usage == told.ended.usage
    assert run.completed_at is not None
    state = await home.runtime.db.read(lambda tx: agents.state(tx, run.agent_id))
    assert state.agent.last_stop_reason == reason
    assert state.conversation.lease_run_id is None
