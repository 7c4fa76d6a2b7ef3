"""``eunoe agents``: list, create, show, check and delete agents."""

import os
from pathlib import Path

import click

from eunoe.cli.check import check
from eunoe.cli.companion import choose_model, starting_blocks
from eunoe.cli.finding import find_agent
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.show import show
from eunoe.cli.tables import write_json, write_table
from eunoe.cli.terminal import moment, one_line, printable
from eunoe.runtime.agents import create_agent, delete_agent
from eunoe.state.agents import AgentSpec
from eunoe.state.errors import InvalidInput
from eunoe.store import agents as store
from eunoe.store.agents import AgentQuery


@click.group()
def agents() -> None:
    """List, create, show, check and delete agents."""


agents.add_command(show)
agents.add_command(check)


@agents.command("list")
@home_option
@json_option
@click.option("--all", "everyone", is_flag=True, help="Hidden agents too.")
def list_agents(home: Path | None, as_json: bool, everyone: bool) -> None:
    """List the agents of the store, the newest first."""
    with opened(home) as door:
        found = door.read(lambda tx: store.page(tx, AgentQuery(limit=None, show_hidden=everyone)))
    if as_json:
        write_json(found)
    elif found:
        rows = [
            (
                one_line(agent.name, 40),
                agent.id,
                agent.model,
                moment(agent.created_at),
                moment(agent.last_run_completion),
                one_line(", ".join(agent.tags), 60),
            )
            for agent in found
        ]
        write_table(("name", "id", "model", "created", "last run", "tags"), rows)
    else:
        click.echo("There are no agents. `eunoe chat` or `eunoe agents create` makes one.", err=True)


@agents.command()
@home_option
@click.option("--name", help="Name; need not be unique. Default: a piece of the id.")
@click.option("--model", metavar="HANDLE", help="Model as provider/name. Default: EUNOE_MODEL, or a provider's first.")
@click.option("--human", metavar="TEXT", help="Value of the block about the person. Default: empty.")
@click.option("--persona", metavar="TEXT", help="Value of the block about the agent itself. Default: a short text.")
@click.option("--block", "others", metavar="LABEL=TEXT", multiple=True, help="Another block; may be repeated.")
@click.option(
    "--system",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with the system text. Default: that of the agent's type.",
)
@click.option("--tool", "tools", metavar="NAME", multiple=True, help="Attach a tool; may be repeated.")
@click.option("--no-base-tools", is_flag=True, help="Leave out the tools that an agent has by default.")
def create(
    home: Path | None,
    name: str | None,
    model: str | None,
    human: str | None,
    persona: str | None,
    others: tuple[str, ...],
    system: Path | None,
    tools: tuple[str, ...],
    no_base_tools: bool,
) -> None:
    """Create an agent and print its id."""
    blocks = starting_blocks(human, persona, others)
    text = None if system is None else _text_of(system)
    with opened(home) as door:
        choice = door.call(lambda runtime: choose_model(runtime.models, os.environ, model))
        if choice.notice:
            click.echo(choice.notice, err=True)
        spec = AgentSpec(
            name=name,
            model=choice.handle,
            memory_blocks=blocks,
            system=text,
            tools=tools,
            include_base_tools=not no_base_tools,
        )
        click.echo(door.call(lambda runtime: create_agent(runtime, spec)).agent.id)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"The file {path} cannot be read: {error.strerror}.", field="system") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"The file {path} is not UTF-8 text. Convert it first.", field="system") from error


@agents.command()
@click.argument("agent")
@home_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(agent: str, home: Path | None, yes: bool) -> None:
    """Delete AGENT (id or name) with its messages, for good. Its blocks stay in the store."""
    with opened(home) as door:
        found = door.read(lambda tx: find_agent(tx, agent))
        if not yes:
            click.confirm(f"Delete {printable(found.name)} ({found.id}) with all its messages?", abort=True, err=True)
        door.call(lambda runtime: delete_agent(runtime, found.id))
    click.echo(f"Deleted {found.id}.", err=True)
