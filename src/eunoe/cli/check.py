"""``eunoe agents check``: what is wrong with an agent's stored state, and healing it."""

from pathlib import Path

import click

from eunoe.cli.errors import FAILED
from eunoe.cli.finding import find_agent
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.tables import write_json
from eunoe.cli.terminal import printable
from eunoe.runtime.integrity import IntegrityReport, integrity, repair


@click.command()
@click.argument("agent")
@home_option
@json_option
@click.option("--repair", "mending", is_flag=True, help="Heal what can be healed by adding; history is never dropped.")
def check(agent: str, home: Path | None, as_json: bool, mending: bool) -> None:
    """Check what is stored of AGENT (id or name): pairs, prompts, runs and leases.

    Exit code 1 when something is wrong, or still wrong after a repair.
    """
    with opened(home) as door:
        agent_id = door.read(lambda tx: find_agent(tx, agent)).id
        work = repair if mending else integrity
        report = door.call(lambda runtime: work(runtime, agent_id))
    if as_json:
        write_json(report)
    else:
        _write(report)
    if not report.ok:
        click.get_current_context().exit(FAILED)


def _write(report: IntegrityReport) -> None:
    for sentence in report.healed:
        click.echo(f"healed: {printable(sentence)}")
    for violation in report.violations:
        click.echo(f"{violation.invariant} {printable(violation.subject)}: {printable(violation.what)}")
    if report.ok:
        click.echo("All is as it must be.")
