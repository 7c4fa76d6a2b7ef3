"""``eunoe runs``: list runs, and cancel one."""

from pathlib import Path

import click

from eunoe.cli.errors import Failure
from eunoe.cli.finding import find_agent
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.tables import write_json, write_table
from eunoe.cli.terminal import moment
from eunoe.state.runs import UNFINISHED, Run
from eunoe.store import runs as store
from eunoe.store.database import Transaction
from eunoe.store.runs import RunQuery


@click.group()
def runs() -> None:
    """List runs, and cancel one."""


@runs.command("list")
@click.argument("agent", required=False)
@home_option
@json_option
@click.option("--active", is_flag=True, help="Only those that have not ended.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many.")
def list_runs(agent: str | None, home: Path | None, as_json: bool, active: bool, limit: int) -> None:
    """List the runs of AGENT (id or name), or of all agents, the newest first."""

    def read(tx: Transaction) -> list[Run]:
        agent_id = find_agent(tx, agent).id if agent else None
        return store.page(tx, RunQuery(agent_id=agent_id, active=active, limit=limit))

    with opened(home) as door:
        found = door.read(read)
    if as_json:
        write_json(found)
    elif found:
        rows = [
            (run.id, run.agent_id, run.status, run.stop_reason or "", moment(run.created_at), str(run.step_count))
            for run in found
        ]
        write_table(("id", "agent", "status", "stop reason", "created", ">steps"), rows)
    else:
        click.echo("There are no such runs.", err=True)


@runs.command()
@click.argument("run_id")
@home_option
def cancel(run_id: str, home: Path | None) -> None:
    """Cancel the run RUN_ID, whichever process carries it. One that is over stays as it is."""
    with opened(home) as door:
        was_running = door.call(lambda runtime: runtime.cancel(run_id))
        run = door.read(lambda tx: store.get(tx, run_id))
    if run.status in UNFINISHED:
        raise Failure(f"Run {run_id} was asked to end and has not ended yet. `eunoe runs list` says when it has.")
    said = "ended" if was_running else "was over before"
    click.echo(f"Run {run_id} {said}: {run.status}.", err=True)
