"""``eunoe memory status``, ``log``, ``show``, ``diff``, ``blame``, ``check`` and ``export``."""

from pathlib import Path
from typing import Final

import click

from eunoe.cli.errors import FAILED
from eunoe.cli.finding import find_agent
from eunoe.cli.opening import Door, home_option, json_option, opened
from eunoe.cli.tables import write_json, write_table
from eunoe.cli.terminal import moment, one_line, printable
from eunoe.runtime import memory_history
from eunoe.runtime.memory_history import MemoryCommit
from eunoe.runtime.memory_status import memory_check, memory_status
from eunoe.runtime.memory_transfer import export_bundle, export_folder
from eunoe.runtime.mirrors import MirrorStatus

_ID: Final = 10
"""Digits of a commit's id that are shown; --json has them all."""

revision_option = click.option(
    "--revision", metavar="REVISION", help="A commit, tag or branch. Default: memory as it is."
)


def agent_of(door: Door, agent: str) -> str:
    """Return the id of the agent that a person names."""
    return door.read(lambda tx: find_agent(tx, agent)).id


def mirror_line(found: MirrorStatus) -> str:
    """Return how a mirror stands, in a line."""
    if found.said is not None:
        later = f" Tries again at {moment(found.next_at)}." if found.next_at else ""
        return f"{found.said}{later}"
    if found.state == "due":
        return f"The mirror {found.url} is behind; a push is due."
    return f"The mirror {found.url} has everything up to {(found.pushed or '')[:_ID]}."


@click.command()
@click.argument("agent")
@home_option
@json_option
def status(agent: str, home: Path | None, as_json: bool) -> None:
    """Show which commit AGENT's memory is at, and what somebody should know."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: memory_status(runtime, agent_id))
    if as_json:
        write_json(found)
        return
    click.echo(f"{printable(found.folder)} at {found.head[:_ID]}")
    for sentence in found.said:
        click.echo(printable(sentence))
    if found.stale:
        shown = f" of {found.compiled_from[:_ID]}" if found.compiled_from else ""
        click.echo(f"The prompt shows memory as it was{shown}; a later run shows it as it is.")
    if found.mirror is not None and found.mirror.state != "needs a person":
        click.echo(printable(mirror_line(found.mirror)))
    if not found.said:
        click.echo("Everything is committed.")


@click.command()
@click.argument("agent")
@click.argument("paths", nargs=-1)
@home_option
@json_option
@click.option(
    "--limit",
    type=click.IntRange(1, memory_history.MOST_COMMITS),
    default=20,
    show_default=True,
    help="At most so many.",
)
@click.option("--before", metavar="COMMIT", help="Go on after this commit.")
def log(agent: str, paths: tuple[str, ...], home: Path | None, as_json: bool, limit: int, before: str | None) -> None:
    """List the commits of AGENT's memory, newest first; with PATHS, those that changed one of them."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(
            lambda runtime: memory_history.memory_log(runtime, agent_id, paths=paths, limit=limit, before=before)
        )
    if as_json:
        write_json(found)
        return
    rows = [
        (one.id[:_ID], moment(one.when), one_line(one.author.name, 30), one.run_id or "", one_line(one.subject, 80))
        for one in found
    ]
    write_table(("commit", "when", "who", "run", "what"), rows)


@click.command()
@click.argument("agent")
@click.argument("revision", default="main")
@home_option
@json_option
def show(agent: str, revision: str, home: Path | None, as_json: bool) -> None:
    """Show a commit of AGENT's memory and what it changed; the newest one when no REVISION is named."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: memory_history.memory_show(runtime, agent_id, revision))
    if as_json:
        write_json(found)
        return
    click.echo(f"commit {found.commit.id}\nby {_by(found.commit)}, {moment(found.commit.when)}\n")
    click.echo(printable(found.commit.message))
    click.echo(printable(found.diff), nl=False)


@click.command()
@click.argument("agent")
@click.argument("old")
@click.argument("new", required=False)
@home_option
@json_option
@click.option("--path", "paths", metavar="PATH", multiple=True, help="This file or folder only; may be repeated.")
def diff(agent: str, old: str, new: str | None, home: Path | None, as_json: bool, paths: tuple[str, ...]) -> None:
    """Compare two revisions of AGENT's memory; "nothing" is before the first commit. Without NEW: memory as it is."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: memory_history.memory_diff(runtime, agent_id, old, new, paths=paths))
    if as_json:
        write_json(found)
    else:
        click.echo(printable(found.diff), nl=False)


@click.command()
@click.argument("agent")
@click.argument("path")
@home_option
@json_option
@revision_option
def blame(agent: str, path: str, home: Path | None, as_json: bool, revision: str | None) -> None:
    """Say of each line of PATH in AGENT's memory who wrote it, when, and in which run."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: memory_history.memory_blame(runtime, agent_id, path, revision))
    if as_json:
        write_json(found)
        return
    rows = [
        (
            line.commit.id[:_ID],
            moment(line.commit.when),
            one_line(_by(line.commit), 40),
            line.commit.run_id or "",
            str(line.number),
            line.text,
        )
        for line in found
    ]
    write_table(("commit", "when", "who", "run", ">line", "text"), rows)


def _by(commit: MemoryCommit) -> str:
    return f"{commit.author.name} with {commit.model}" if commit.model else commit.author.name


@click.command()
@click.argument("agent")
@home_option
@json_option
def check(agent: str, home: Path | None, as_json: bool) -> None:
    """Judge every file of AGENT's memory, committed or not. Exit code 1 when one may not be as it is."""
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        found = door.call(lambda runtime: memory_check(runtime, agent_id))
    if as_json:
        write_json(found)
    else:
        for one in found.problems:
            place = f"{one.path!r}, line {one.line}" if one.line else repr(one.path)
            click.echo(printable(f"{one.where}: {place}: {one.message} (rule: {one.rule})"))
        if found.ok:
            click.echo("All files are as they must be.")
    if not found.ok:
        click.get_current_context().exit(FAILED)


@click.command()
@click.argument("agent")
@click.argument("target", type=click.Path(path_type=Path))
@home_option
@revision_option
@click.option("--history", is_flag=True, help="Write everything with its history, as a git bundle.")
def export(agent: str, target: Path, home: Path | None, revision: str | None, history: bool) -> None:
    """Write AGENT's memory files to the folder TARGET, or with their history to the file TARGET."""
    if history and revision is not None:
        raise click.UsageError("--history takes everything; leave out --revision.")
    with opened(home) as door:
        agent_id = agent_of(door, agent)
        if history:
            door.call(lambda runtime: export_bundle(runtime, agent_id, target))
            click.echo(f"Wrote {printable(str(target))}.", err=True)
        else:
            count = door.call(lambda runtime: export_folder(runtime, agent_id, target, revision))
            click.echo(f"Wrote {count} files to {printable(str(target))}.", err=True)
