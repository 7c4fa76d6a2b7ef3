"""``eunoe steps``: what a model was asked, byte for byte."""

from pathlib import Path

import click
import msgspec

from eunoe.cli.errors import FAILED
from eunoe.cli.opening import home_option, opened
from eunoe.runtime.replay import step_request


@click.group()
def steps() -> None:
    """Look at what models were asked."""


@steps.command()
@click.argument("step_id")
@home_option
def request(step_id: str, home: Path | None) -> None:
    """Write the request of the step STEP_ID as JSON, built again from the store.

    Exit code 1 when the bytes are not those that were sent.
    """
    with opened(home) as door:
        found = door.call(lambda runtime: step_request(runtime, step_id))
    click.echo(f"{found.url} ({found.dialect}, SHA-256 {found.payload_hash})", err=True)
    click.echo(msgspec.json.format(found.body, indent=2))
    if not found.verified:
        click.echo(found.note or "These bytes differ from what was sent.", err=True)
        click.get_current_context().exit(FAILED)
