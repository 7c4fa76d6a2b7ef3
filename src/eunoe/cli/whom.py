"""Whom a person talks with: an agent that is there or a new one, in one of its conversations."""

import os

import click
from msgspec import Struct

from eunoe.cli.companion import NAME, choose_model, starting_blocks
from eunoe.cli.finding import find_agent, find_conversation, last_used
from eunoe.cli.opening import Door
from eunoe.cli.terminal import printable
from eunoe.runtime.agents import create_agent
from eunoe.state.agents import Agent, AgentSpec


class Whom(Struct, frozen=True, kw_only=True):
    """Who answers. ``conversation_id`` is ``None`` for the default conversation.

    ``model`` is the model that answers; ``override`` is the same where it is not the conversation's own.
    """

    agent: Agent
    conversation_id: str | None
    model: str
    override: str | None


def choose_whom(
    door: Door, name: str | None, model: str | None, conversation_id: str | None, *, new: bool = False
) -> Whom:
    """Return the agent that is named, else the one that was used last, else a new one; and what answers for it.

    ``model`` is that of a new agent; for one that exists it is made sure that there is such a model. Raises
    ``NotFound``, ``Conflict`` and ``InvalidInput``.
    """
    found = None if new else door.read(lambda tx: find_agent(tx, name) if name else last_used(tx))
    agent = found or _create(door, name or NAME, model)
    conversation = door.read(lambda tx: find_conversation(tx, agent.id, conversation_id))
    own = conversation.model or agent.model
    override = model if model != own else None
    if override is not None:
        door.call(lambda runtime: runtime.models.find(override))
    return Whom(agent=agent, conversation_id=conversation_id, model=override or own, override=override)


def _create(door: Door, name: str, model: str | None) -> Agent:
    choice = door.call(lambda runtime: choose_model(runtime.models, os.environ, model))
    if choice.notice:
        click.echo(choice.notice, err=True)
    spec = AgentSpec(name=name, model=choice.handle, memory_blocks=starting_blocks(None, None))
    created = door.call(lambda runtime: create_agent(runtime, spec)).agent
    click.echo(f"Created {printable(created.name)} ({created.id}) with model {created.model}.", err=True)
    return created
