"""``eunoe memory``: the memory files of an agent, their history, and changing them."""

import click

from eunoe.cli.memory_branches import branch, merge, tag
from eunoe.cli.memory_changes import convert, restore, take_in
from eunoe.cli.memory_reading import blame, check, diff, export, log, show, status
from eunoe.cli.mirrors import mirror
from eunoe.cli.reflections import reflect_command, reflect_when, review


@click.group()
def memory() -> None:
    """Look at memory files and their history, and change them."""


for command in (
    status,
    log,
    show,
    diff,
    blame,
    check,
    export,
    restore,
    take_in,
    tag,
    branch,
    merge,
    convert,
    reflect_command,
    reflect_when,
    review,
    mirror,
):
    memory.add_command(command)
