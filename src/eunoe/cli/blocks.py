"""``eunoe blocks``: show and set the blocks of an agent."""

import sys
from pathlib import Path

import click

from eunoe.cli.finding import find_agent
from eunoe.cli.lines import read_stdin
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.tables import write_json
from eunoe.cli.terminal import printable
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.labelled import block_by_label, update_by_label
from eunoe.runtime.runtime import utc_now
from eunoe.state.blocks import Block, BlockChanges
from eunoe.store.database import Transaction


@click.group()
def blocks() -> None:
    """Show and set the blocks of an agent."""


@blocks.command()
@click.argument("agent")
@click.argument("label")
@home_option
@json_option
def show(agent: str, label: str, home: Path | None, as_json: bool) -> None:
    """Write the value of AGENT's block LABEL."""
    with opened(home) as door:
        agent_id = door.read(lambda tx: find_agent(tx, agent)).id
        door.call(lambda runtime: follow_memory(runtime, agent_id))
        block = door.read(lambda tx: block_by_label(tx, door.runtime.homes, agent_id, label))
    if as_json:
        write_json(block)
    else:
        click.echo(printable(block.value) if sys.stdout.isatty() else block.value)


@blocks.command("set")
@click.argument("agent")
@click.argument("label")
@click.argument("value", default="-")
@home_option
@click.option("--revision", type=int, help="Set it only if the block is at this revision.")
@click.option("--why", metavar="TEXT", default="", help="The reason, which the block's history keeps.")
def set_value(agent: str, label: str, value: str, home: Path | None, revision: int | None, why: str) -> None:
    """Replace the value of AGENT's block LABEL by VALUE, or by what stdin gives (-, the default)."""
    text = read_stdin("value") if value == "-" else value

    def replace(tx: Transaction) -> Block:
        changes = BlockChanges(value=text)
        homes = door.runtime.homes
        return update_by_label(tx, homes, agent_id, label, changes, expected_revision=revision, why=why, now=utc_now())

    with opened(home) as door:
        agent_id = door.read(lambda tx: find_agent(tx, agent)).id
        door.call(lambda runtime: follow_memory(runtime, agent_id))
        block = door.write(replace)
    click.echo(f"Block {block.label!r} is at revision {block.revision}.", err=True)
