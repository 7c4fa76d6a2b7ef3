"""Whom a person talks with: an agent that is there, or a new one."""

import os

import click

from eunoe.cli.companion import NAME, choose_model, starting_blocks
from eunoe.cli.finding import find_agent, last_used
from eunoe.cli.opening import Door
from eunoe.cli.terminal import printable
from eunoe.runtime.agents import create_agent
from eunoe.state.agents import Agent, AgentSpec


def choose_agent(door: Door, name: str | None, model: str | None, *, new: bool = False) -> Agent:
    """Return the agent that is named, else the one that was used last, else a new one.

    ``model`` is that of a new agent; for one that exists it is only made sure that there is such a model. Raises
    ``NotFound``, ``Conflict`` and ``InvalidInput``.
    """
    found = None
    if not new:
        found = door.read(lambda tx: find_agent(tx, name) if name else last_used(tx))
    if found is None:
        return _create(door, name or NAME, model)
    if model is not None and model != found.model:
        door.call(lambda runtime: runtime.models.find(model))
    return found


def _create(door: Door, name: str, model: str | None) -> Agent:
    choice = door.call(lambda runtime: choose_model(runtime.models, os.environ, model))
    if choice.notice:
        click.echo(choice.notice, err=True)
    spec = AgentSpec(name=name, model=choice.handle, memory_blocks=starting_blocks(None, None))
    created = door.call(lambda runtime: create_agent(runtime, spec)).agent
    click.echo(f"Created {printable(created.name)} ({created.id}) with model {created.model}.", err=True)
    return created
