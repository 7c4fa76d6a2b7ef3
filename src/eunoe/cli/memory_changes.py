"""``eunoe memory restore``, ``import`` and ``convert``."""

from pathlib import Path

import click

from eunoe.cli.errors import FAILED
from eunoe.cli.memory_reading import agent_of
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.tables import write_json
from eunoe.cli.terminal import printable
from eunoe.runtime.agents import update_agent
from eunoe.runtime.memory_branches import MergeOutcome, MergePolicy
from eunoe.runtime.memory_edits import restore_files
from eunoe.runtime.memory_transfer import import_memory
from eunoe.state.agents import AgentChanges
from eunoe.state.memory import MemoryKind

why_option = click.option("--why", metavar="TEXT", default="", help="What the commit says of the reason.")


@click.command()
@click.argument("agent")
@click.argument("revision")
@click.argument("paths", nargs=-1)
@home_option
@json_option
@why_option
@click.option("--expected", metavar="COMMIT", help="Only if the files have not changed since this commit.")
def restore(
    agent: str,
    revision: str,
    paths: tuple[str, ...],
    home: Path | None,
    as_json: bool,
    why: str,
    expected: str | None,
) -> None:
    """Make AGENT's memory files as they were at REVISION, in a new commit: all of them, or PATHS."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: restore_files(runtime, agent_id, revision, paths, expected=expected, why=why))
    if as_json:
        write_json(found)
        return
    for one in found.files:
        click.echo(printable(f"{one.change}: {one.path}"))
    for left in found.not_restored:
        click.echo(printable(f"not restored: {left.path}. {left.why}"), err=True)
    click.echo("Nothing to do." if found.commit == found.previous else f"Memory is at {found.commit[:10]}.", err=True)


@click.command("import")
@click.argument("agent")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@home_option
@json_option
@why_option
@click.option(
    "--policy",
    type=click.Choice(["both", "ours", "theirs", "abort"]),
    default="both",
    show_default=True,
    help="Where both sides have a file with different text: keep both forms, one, or merge nothing.",
)
def take_in(agent: str, source: Path, home: Path | None, as_json: bool, why: str, policy: MergePolicy) -> None:
    """Merge SOURCE (a folder, a clone or a git bundle) into AGENT's memory; nothing is written over.

    Exit code 1 when the policy is to merge nothing and both sides have something different.
    """
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: import_memory(runtime, agent_id, source, policy=policy, why=why))
    if as_json:
        write_json(found)
    else:
        write_outcome(found)
    if found.outcome == "conflict":
        click.get_current_context().exit(FAILED)


def write_outcome(found: MergeOutcome) -> None:
    """Write what a merge did, for a person."""
    for one in found.files:
        click.echo(printable(f"{one.change}: {one.path}"))
    for path in found.conflicts:
        click.echo(printable(f"both sides have: {path}"), err=True)
    click.echo(f"{found.outcome.capitalize()}. Memory is at {found.commit[:10]}.", err=True)


@click.command()
@click.argument("agent")
@home_option
@click.option("--to", "kind", type=click.Choice(["git", "blocks"]), required=True, help="Files in git, or blocks.")
def convert(agent: str, home: Path | None, kind: MemoryKind) -> None:
    """Keep AGENT's memory as files in git, or as blocks; what is there and its history stay."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        state = door.call(lambda runtime: update_agent(runtime, agent_id, AgentChanges(memory_kind=kind)))
        folder = door.runtime.homes.path(agent_id)
    where = f"files in {printable(str(folder))}" if state.memory is not None else "blocks"
    click.echo(f"The memory of {printable(state.agent.name)} is {where}.", err=True)
