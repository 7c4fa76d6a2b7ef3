"""``eunoe skills``: the skills of an agent, and installing and removing its own."""

from pathlib import Path

import click

from eunoe.cli.finding import find_agent
from eunoe.cli.opening import Door, home_option, json_option, opened
from eunoe.cli.tables import write_json, write_table
from eunoe.cli.terminal import one_line, printable
from eunoe.cli.whereabouts import working_folder
from eunoe.runtime.skills import install_skill, list_skills, remove_skill, show_skill

_ABOUT = 70
"""Characters of a description in the list."""


@click.group()
def skills() -> None:
    """List, show, install and remove the skills of an agent."""


def _agent(door: Door, agent: str) -> str:
    return door.read(lambda tx: find_agent(tx, agent)).id


@skills.command("list")
@click.argument("agent")
@home_option
@json_option
def list_all(agent: str, home: Path | None, as_json: bool) -> None:
    """List the skills that AGENT has in this folder: the folder's, its own, and the global ones."""
    with opened(home) as door:
        agent_id = _agent(door, agent)
        found = door.call(lambda runtime: list_skills(runtime, agent_id, project=working_folder()))
    if as_json:
        write_json(found)
        return
    rows = [
        (one.name, one.source, "people only" if one.disabled else "", one_line(one.description, _ABOUT))
        for one in found.skills
    ]
    write_table(("skill", "from", "", "what it is for"), rows)
    for unread in found.unread:
        click.echo(printable(f"{unread.path} cannot be read: {unread.reason}"), err=True)


@skills.command()
@click.argument("agent")
@click.argument("name")
@home_option
@json_option
def show(agent: str, name: str, home: Path | None, as_json: bool) -> None:
    """Write the text of AGENT's skill NAME, and where it and its other files are."""
    with opened(home) as door:
        agent_id = _agent(door, agent)
        found = door.call(lambda runtime: show_skill(runtime, agent_id, name, project=working_folder()))
    if as_json:
        write_json(found)
        return
    click.echo(printable(found.text))
    click.echo(printable(f"{found.skill.location} ({found.skill.source})"), err=True)
    for path in found.files:
        click.echo(printable(f"- {path}"), err=True)


@skills.command()
@click.argument("agent")
@click.argument("source")
@home_option
@json_option
@click.option("--name", metavar="NAME", help="What the skill shall be called. Default: as its folder.")
@click.option("--path", metavar="FOLDER", help="The skill's folder in SOURCE, where that holds several.")
@click.option("--revision", metavar="NAME", help="A branch or tag of the repository.")
@click.option("--replace", is_flag=True, help="Put it in place of a skill of that name.")
def install(
    agent: str,
    source: str,
    home: Path | None,
    as_json: bool,
    name: str | None,
    path: str | None,
    revision: str | None,
    replace: bool,
) -> None:
    """Put a skill from SOURCE (a folder, or an https, ssh or file git address) into AGENT's memory."""
    with opened(home) as door:
        agent_id = _agent(door, agent)
        done = door.call(
            lambda runtime: install_skill(
                runtime, agent_id, source, name=name, path=path, revision=revision, replace=replace
            )
        )
    if as_json:
        write_json(done)
        return
    if done.change.commit == done.change.previous:
        click.echo(f"Skill {done.name} is there as it is in the source.", err=True)
    else:
        click.echo(f"Skill {done.name} is in commit {done.change.commit[:10]}.", err=True)


@skills.command()
@click.argument("agent")
@click.argument("name")
@home_option
def remove(agent: str, name: str, home: Path | None) -> None:
    """Remove the skill NAME from AGENT's memory; it stays in the history."""
    with opened(home) as door:
        agent_id = _agent(door, agent)
        done = door.call(lambda runtime: remove_skill(runtime, agent_id, name))
    click.echo(f"Removed {printable(name)} in commit {done.commit[:10]}.", err=True)
