"""``eunoe memory mirror``: a git remote that follows an agent's memory."""

from pathlib import Path

import click

from eunoe.cli.errors import FAILED
from eunoe.cli.memory_reading import agent_of, mirror_line
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.tables import write_json
from eunoe.cli.terminal import printable
from eunoe.memory.mirror_address import absolute_address
from eunoe.runtime.mirrors import MirrorStatus, mirror_status, push_mirror, remove_mirror, set_mirror


def _write(found: MirrorStatus, *, as_json: bool, failing: bool) -> None:
    if as_json:
        write_json(found)
    else:
        click.echo(printable(mirror_line(found)))
    if failing and found.state != "up to date":
        click.get_current_context().exit(FAILED)


@click.group()
def mirror() -> None:
    """Keep a copy of memory files in a git remote."""


@mirror.command()
@click.argument("agent")
@home_option
@json_option
def show(agent: str, home: Path | None, as_json: bool) -> None:
    """Show where AGENT's memory is mirrored, and what is wrong with it."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: mirror_status(runtime, agent_id))
    _write(found, as_json=as_json, failing=False)


@mirror.command("set")
@click.argument("agent")
@click.argument("url")
@home_option
@json_option
def set_address(agent: str, url: str, home: Path | None, as_json: bool) -> None:
    """Mirror AGENT's memory at URL, and try it.

    URL is any address that git pushes to by https, http or ssh, or a path; without a password in it. Exit code 1 when
    the first push failed; the address is kept.
    """
    address = absolute_address(url)
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        door.call(lambda runtime: set_mirror(runtime, agent_id, address))
        found = door.call(lambda runtime: push_mirror(runtime, agent_id))
    _write(found, as_json=as_json, failing=True)


@mirror.command()
@click.argument("agent")
@home_option
@json_option
def push(agent: str, home: Path | None, as_json: bool) -> None:
    """Push AGENT's memory to its mirror now. Exit code 1 when that failed."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: push_mirror(runtime, agent_id))
    _write(found, as_json=as_json, failing=True)


@mirror.command()
@click.argument("agent")
@home_option
def remove(agent: str, home: Path | None) -> None:
    """Mirror AGENT's memory no more; what the mirror has stays there."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        door.call(lambda runtime: remove_mirror(runtime, agent_id))
    click.echo("Mirrored no more.", err=True)
