"""The ``eunoe`` command: a table of commands, each imported only when it is asked for."""

import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any, Final, NamedTuple, NoReturn

import click

from eunoe.cli.errors import Failure, failure
from eunoe.state.errors import EunoeError
from eunoe.version import __version__


class Entry(NamedTuple):
    """Where a command is (module and name in it), and what the list of commands says of it."""

    module: str
    name: str
    short_help: str


COMMANDS: Final = {
    "agents": Entry("eunoe.cli.agents", "agents", "List, create, show and delete agents."),
    "blocks": Entry("eunoe.cli.blocks", "blocks", "Show and set the blocks of an agent."),
    "chat": Entry("eunoe.cli.chat", "chat", "Talk with an agent in the terminal."),
    "doctor": Entry("eunoe.cli.doctor", "doctor", "Check this machine, the store and the models."),
    "serve": Entry("eunoe.cli.serve", "serve", "Serve agents over HTTP."),
    "steps": Entry("eunoe.cli.steps", "steps", "Look at what models were asked."),
}


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


def _end(ctx: click.Context, failed: Failure) -> NoReturn:
    from eunoe.cli.terminal import printable

    click.echo(f"Error: {printable(failed.message)}", err=True)
    ctx.exit(failed.exit_code)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="eunoe")
def main() -> None:
    """Run agents that stop and come back whole.

    Everything that an agent is lives in one folder, ~/.eunoe; EUNOE_HOME or --home names another.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What a terminal's encoding cannot say is shown as an escape; it must not end the program.
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
