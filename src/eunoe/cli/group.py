"""The ``eunoe`` command as click runs it: each subcommand is imported only when it is asked for."""

import errno
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from eunoe.cli.errors import INTERRUPTED, Failure, failure
from eunoe.cli.overview import ABOUT, COMMANDS, PROGRAM
from eunoe.cli.terminal import printable
from eunoe.state.errors import EunoeError
from eunoe.version import __version__


class LazyGroup(click.Group):
    """A group that shows its list of commands without importing any of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it."""
        del ctx
        entry = COMMANDS.get(cmd_name)
        return getattr(import_module(entry.module), entry.name) if entry else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; tell an error that Eunoe raised on purpose in a sentence."""
        try:
            return super().invoke(ctx)
        except EunoeError as error:
            _end(ctx, failure(error))
        except Failure as failed:
            _end(ctx, failed)
        except KeyboardInterrupt:
            # A turn that goes on handles its own; this one came before or after it.
            ctx.exit(INTERRUPTED)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            _end(ctx, Failure(f"{error.filename or 'The output'} cannot be written: {error.strerror}."))


def _end(ctx: click.Context, failed: Failure) -> NoReturn:
    click.echo(f"Error: {printable(failed.message)}", err=True)
    ctx.exit(failed.exit_code)


@click.group(cls=LazyGroup, help=ABOUT, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PROGRAM)
def root() -> None:
    """Prepare the streams for every subcommand."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What a terminal's encoding cannot say is shown as an escape; it must not end the program.
            stream.reconfigure(errors="backslashreplace")
