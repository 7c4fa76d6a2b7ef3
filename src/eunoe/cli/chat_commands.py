"""What a line that begins with a slash does in a chat."""

from collections.abc import Callable
from typing import Final, NamedTuple

import click

from eunoe.cli.conversations import write_conversations
from eunoe.cli.finding import find_conversation
from eunoe.cli.opening import Door
from eunoe.cli.terminal import Style, printable
from eunoe.cli.whom import Whom
from eunoe.runtime.compaction_call import compact_conversation
from eunoe.store import agents, blocks


class Place(NamedTuple):
    """Where a command is given, and how to write."""

    door: Door
    whom: Whom
    style: Style


def obey(command: str, place: Place) -> None:
    """Do what the command says, or tell that there is none of this name. Raises ``EunoeError``."""
    found = _COMMANDS.get(command)
    if found is None:
        click.echo(f"There is no command {printable(command)}. /help shows those there are.", err=True)
    else:
        found.work(place)


def _help(place: Place) -> None:
    del place
    listed = [(name, entry.said) for name, entry in _COMMANDS.items()] + [("/exit", "leave (as Ctrl-D does)")]
    for name, said in listed:
        click.echo(f"{name:<16}{said}")
    click.echo("Anything else is a message. A line that ends in \\ goes on in the next one. Ctrl-C ends an answer.")


def _blocks(place: Place) -> None:
    for block in place.door.read(lambda tx: blocks.of_agent(tx, place.whom.agent.id)):
        heading = f"{printable(block.label)} ({len(block.value)} of {block.limit} characters)"
        click.echo(f"{place.style.bold(heading)}\n{printable(block.value) or '(empty)'}\n")


def _agent(place: Place) -> None:
    agent = place.door.read(lambda tx: agents.get(tx, place.whom.agent.id))
    click.echo(f"{printable(agent.name)}\n{agent.id}\nmodel {place.whom.model}")


def _compact(place: Place) -> None:
    click.echo(place.style.dim("Compacting …"))
    done = place.door.call(
        lambda runtime: compact_conversation(runtime, place.whom.agent.id, place.whom.conversation_id)
    )
    click.echo(
        f"{done.num_messages_before} messages became {done.num_messages_after}; all of them stay in the store.\n"
        f"{place.style.dim(printable(done.summary))}"
    )
    for note in done.notes:
        click.echo(printable(note.detail), err=True)


def _conversations(place: Place) -> None:
    here = place.door.read(lambda tx: find_conversation(tx, place.whom.agent.id, place.whom.conversation_id)).id
    write_conversations(place.door, place.whom.agent.id, here=here)


class _Entry(NamedTuple):
    work: Callable[[Place], None]
    said: str


_COMMANDS: Final = {
    "/help": _Entry(_help, "this list"),
    "/blocks": _Entry(_blocks, "what the agent holds in memory"),
    "/agent": _Entry(_agent, "which agent this is"),
    "/compact": _Entry(_compact, "replace the oldest messages in view by a summary"),
    "/conversations": _Entry(_conversations, "the agent's conversations"),
}
