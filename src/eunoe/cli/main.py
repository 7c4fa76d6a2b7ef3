"""The ``eunoe`` program: what it offers is told at once; anything else goes to click, which takes longer to import."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from eunoe.cli.overview import PROGRAM, WIDTH, overview
from eunoe.version import __version__

_USAGE_ERROR: Final = 2
_EDGE: Final = 2
"""Columns of a terminal that click leaves free at the right."""


def main() -> None:
    """Do what the command line of this process asks. Raises ``SystemExit`` unless it was told at once."""
    arguments = sys.argv[1:]
    told = told_at_once(arguments, os.environ)
    if told is None:
        from eunoe.cli.group import root

        root(prog_name=PROGRAM)
    elif arguments:
        _write(told)
    else:
        # No command is a usage error, as it is with click.
        sys.stderr.write(told)
        sys.exit(_USAGE_ERROR)


def told_at_once(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the answer to a command line that asks only what there is, or ``None`` for any other.

    A terminal narrower than the overview, and a shell that asks for completions, are click's too.
    """
    if "_EUNOE_COMPLETE" in environment:
        return None
    if list(arguments) == ["--version"]:
        return f"{PROGRAM}, version {__version__}\n"
    if list(arguments) in ([], ["--help"], ["-h"]) and _columns(environment) >= WIDTH + _EDGE:
        return overview()
    return None


def _columns(environment: Mapping[str, str]) -> int:
    # As shutil.get_terminal_size has it, which takes longer to import than all the rest of this.
    named = environment.get("COLUMNS", "")
    if named.isdecimal() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(1).columns or WIDTH + _EDGE
    except OSError:
        return WIDTH + _EDGE


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has had enough. Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


if __name__ == "__main__":
    main()
