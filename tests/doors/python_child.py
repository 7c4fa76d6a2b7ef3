"""A program that uses Eunoe as a library, told line by line what to do: ``python_child.py async|sync STORE``."""

import sys
from typing import Any

import anyio
import msgspec

import eunoe
from eunoe.state.events import MessageStored, RunEnded

NAME = "keeper"


async def asynchronously(store: str) -> None:
    async with eunoe.open(store) as home:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            do, given = msgspec.json.decode(line)
            match do:
                case "create":
                    tell((await home.create_agent(name=NAME, **given)).id)
                case "say":
                    agent, texts, ends = await home.agent(NAME), [], []
                    async for event in agent.send(given):
                        note(event, texts, ends)
                    tell([texts, ends])
                case "whole":
                    agent = await home.agent(NAME)
                    tell([await agent.state(), await agent.manifest(), await agent.window(), await agent.prompt()])
                case "last_request":
                    agent = await home.agent(NAME)
                    step_id = (await agent.window())[-1].step_id
                    assert step_id is not None
                    tell(await agent.request_of(step_id))
                case "edit":
                    label, changes = given
                    tell(await (await home.agent(NAME)).update_block(label, **changes))


def synchronously(store: str) -> None:
    with eunoe.open_sync(store) as home:
        while line := sys.stdin.readline():
            do, given = msgspec.json.decode(line)
            match do:
                case "create":
                    tell(home.create_agent(name=NAME, **given).id)
                case "say":
                    texts, ends = [], []
                    for event in home.agent(NAME).send(given):
                        note(event, texts, ends)
                    tell([texts, ends])
                case "whole":
                    agent = home.agent(NAME)
                    tell([agent.state(), agent.manifest(), agent.window(), agent.prompt()])
                case "last_request":
                    agent = home.agent(NAME)
                    tell(agent.request_of(agent.window()[-1].step_id))
                case "edit":
                    label, changes = given
                    tell(home.agent(NAME).update_block(label, **changes))


def note(event: Any, texts: list[str], ends: list[str]) -> None:
    if isinstance(event, MessageStored) and event.message.role == "assistant":
        texts.append(event.message.text)
    if isinstance(event, RunEnded):
        assert event.error is None, event.error
        ends.append(event.stop_reason)


def tell(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    if sys.argv[1] == "sync":
        synchronously(sys.argv[2])
    else:
        anyio.run(asynchronously, sys.argv[2])
