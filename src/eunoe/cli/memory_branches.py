"""``eunoe memory tag``, ``branch`` and ``merge``."""

from collections.abc import Sequence
from pathlib import Path

import click

from eunoe.cli.errors import BAD_INPUT, FAILED, Failure
from eunoe.cli.memory_changes import why_option, write_outcome
from eunoe.cli.memory_reading import agent_of
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.tables import write_json, write_table
from eunoe.cli.terminal import printable
from eunoe.memory.revisions import NamedCommit
from eunoe.runtime.memory_branches import (
    MergePolicy,
    create_memory_branch,
    create_memory_tag,
    delete_memory_branch,
    memory_branches,
    memory_tags,
    merge_memory,
)


@click.command()
@click.argument("agent")
@click.argument("name", required=False)
@click.argument("revision", required=False)
@home_option
@json_option
@click.option("--message", metavar="TEXT", default="", help="What the tag says. Default: its name.")
def tag(agent: str, name: str | None, revision: str | None, home: Path | None, as_json: bool, message: str) -> None:
    """Give REVISION of AGENT's memory (or memory as it is) the lasting name NAME; without NAME, list the tags."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        if name is None:
            _write_names(door.call(lambda runtime: memory_tags(runtime, agent_id)), "tag", as_json=as_json)
            return
        made = door.call(lambda runtime: create_memory_tag(runtime, agent_id, name, revision, message=message))
    _write_made(made, "Tag", as_json=as_json)


@click.command()
@click.argument("agent")
@click.argument("name", required=False)
@click.argument("revision", required=False)
@home_option
@json_option
@click.option("--delete", is_flag=True, help="Delete the branch NAME; what was merged stays.")
def branch(agent: str, name: str | None, revision: str | None, home: Path | None, as_json: bool, delete: bool) -> None:
    """Begin the branch NAME at REVISION of AGENT's memory (or memory as it is); without NAME, list the branches."""
    if delete and (name is None or revision is not None):
        raise Failure("--delete takes the name of a branch, and no revision.", BAD_INPUT)
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        if name is None:
            _write_names(door.call(lambda runtime: memory_branches(runtime, agent_id)), "branch", as_json=as_json)
            return
        if delete:
            door.call(lambda runtime: delete_memory_branch(runtime, agent_id, name))
            click.echo(f"Deleted branch {printable(name)}.", err=True)
            return
        made = door.call(lambda runtime: create_memory_branch(runtime, agent_id, name, revision))
    _write_made(made, "Branch", as_json=as_json)


@click.command()
@click.argument("agent")
@click.argument("revision")
@home_option
@json_option
@why_option
@click.option(
    "--policy",
    type=click.Choice(["abort", "ours", "theirs", "both"]),
    default="abort",
    show_default=True,
    help="Where both sides changed the same lines: merge nothing, keep one side's form, or both.",
)
def merge(agent: str, revision: str, home: Path | None, as_json: bool, why: str, policy: MergePolicy) -> None:
    """Merge REVISION (a branch, a tag or a commit) into AGENT's memory.

    Exit code 1 when the policy is to merge nothing and both sides changed the same lines.
    """
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: merge_memory(runtime, agent_id, revision, policy=policy, why=why))
    if as_json:
        write_json(found)
    else:
        write_outcome(found)
    if found.outcome == "conflict":
        click.get_current_context().exit(FAILED)


def _write_names(found: Sequence[NamedCommit], kind: str, *, as_json: bool) -> None:
    if as_json:
        write_json(found)
    else:
        write_table((kind, "commit"), [(one.name, one.commit[:10]) for one in found])


def _write_made(made: NamedCommit, kind: str, *, as_json: bool) -> None:
    if as_json:
        write_json(made)
    else:
        click.echo(f"{kind} {printable(made.name)} is at {made.commit[:10]}.", err=True)
