"""Tables for people; programs get JSON."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import click
import msgspec

from eunoe.cli.terminal import printable, wants_colour

_WIDE: Final = 1_000
"""Columns where no terminal says how many it has: nothing is cut in a file or pipe."""


def write_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Write a table to stdout. A column whose name starts with ``>`` is aligned to the right.

    Ids are kept on one line, so that they can be copied.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        justify = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=justify, overflow="fold", no_wrap=name == "id")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    colour = wants_colour(sys.stdout, os.environ)
    width = None if sys.stdout.isatty() else _WIDE
    console = Console(
        file=sys.stdout,
        width=width,
        color_system="auto" if colour else None,
        highlight=False,
    )
    console.print(table)


def write_json(value: object) -> None:
    """Write a value as indented JSON to stdout."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
