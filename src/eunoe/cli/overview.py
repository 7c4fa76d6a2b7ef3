"""What the ``eunoe`` command offers, told without importing any of it."""

from collections.abc import Iterable
from typing import Final, NamedTuple

PROGRAM: Final = "eunoe"
WIDTH: Final = 78
"""Columns that the overview takes: what click takes on a terminal of 80 or more."""

ABOUT: Final = """\
Run agents that stop and come back whole.

Everything that an agent is lives in one folder, ~/.eunoe; EUNOE_HOME or
--home names another."""

OPTIONS: Final = (
    ("--version", "Show the version and exit."),
    ("-h, --help", "Show this message and exit."),
)


class Entry(NamedTuple):
    """Where a command is (module and name in it), and what the list of commands says of it."""

    module: str
    name: str
    short_help: str


COMMANDS: Final = {
    "agents": Entry("eunoe.cli.agents", "agents", "List, create, show, check and delete agents."),
    "blocks": Entry("eunoe.cli.blocks", "blocks", "Show and set the blocks of an agent."),
    "chat": Entry("eunoe.cli.chat", "chat", "Talk with an agent in the terminal."),
    "conversations": Entry("eunoe.cli.conversations", "conversations", "List, fork and delete conversations."),
    "doctor": Entry("eunoe.cli.doctor", "doctor", "Check this machine, the store and the models."),
    "mcp": Entry("eunoe.cli.mcp", "mcp", "Add, list, refresh and remove MCP servers."),
    "memory": Entry("eunoe.cli.memory", "memory", "Look at memory files and their history, and change them."),
    "run": Entry("eunoe.cli.run", "run", "Send one message with nobody there, and print the answer."),
    "runs": Entry("eunoe.cli.runs", "runs", "List runs, and cancel one."),
    "serve": Entry("eunoe.cli.serve", "serve", "Serve agents over HTTP."),
    "skills": Entry("eunoe.cli.skills", "skills", "List, show, install and remove the skills of an agent."),
    "steps": Entry("eunoe.cli.steps", "steps", "Look at what models were asked."),
}


def overview() -> str:
    """Return the help of ``eunoe`` itself, as click would lay it out in ``WIDTH`` columns."""
    about = "\n".join(f"  {line}" if line else "" for line in ABOUT.splitlines())
    listed = _columns((name, entry.short_help) for name, entry in COMMANDS.items())
    return (
        f"Usage: {PROGRAM} [OPTIONS] COMMAND [ARGS]...\n\n{about}\n\n"
        f"Options:\n{_columns(OPTIONS)}\n\nCommands:\n{listed}\n"
    )


def _columns(rows: Iterable[tuple[str, str]]) -> str:
    listed = list(rows)
    width = max(len(name) for name, _ in listed)
    return "\n".join(f"  {name:<{width}}  {said}" for name, said in listed)
