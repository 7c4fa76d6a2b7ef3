"""``eunoe conversations``: list, fork and delete the conversations of an agent."""

from pathlib import Path

import click
from msgspec import Struct

from eunoe.cli.finding import find_agent, find_conversation
from eunoe.cli.opening import Door, home_option, json_option, opened
from eunoe.cli.tables import write_json, write_table
from eunoe.cli.terminal import moment, one_line
from eunoe.runtime.conversations import delete_conversation, fork_conversation
from eunoe.state.conversations import Conversation
from eunoe.store import approvals, messages
from eunoe.store import conversations as store
from eunoe.store.database import Transaction


class Listed(Struct, frozen=True, kw_only=True):
    """A conversation in a list. ``waiting`` says that it waits for an answer about tool calls."""

    conversation: Conversation
    messages: int
    waiting: bool


@click.group()
def conversations() -> None:
    """List, fork and delete conversations."""


@conversations.command("list")
@click.argument("agent")
@home_option
@json_option
def list_conversations(agent: str, home: Path | None, as_json: bool) -> None:
    """List the conversations of AGENT (id or name), the default one first."""
    with opened(home) as door:
        agent_id = door.read(lambda tx: find_agent(tx, agent)).id
        if as_json:
            write_json(door.read(lambda tx: _listed(tx, agent_id)))
        else:
            write_conversations(door, agent_id)


def write_conversations(door: Door, agent_id: str, here: str | None = None) -> None:
    """Write an agent's conversations as a table; ``here`` is the one that is marked."""
    rows = [
        (
            "*" if one.conversation.id == here else "",
            one.conversation.id,
            "default" if one.conversation.is_default else one_line(one.conversation.summary or "", 40),
            str(one.messages),
            moment(one.conversation.last_message_at),
            "waits for an answer" if one.waiting else "",
        )
        for one in door.read(lambda tx: _listed(tx, agent_id))
    ]
    write_table(("", "id", "about", ">messages", "last message", ""), rows)


def _listed(tx: Transaction, agent_id: str) -> list[Listed]:
    return [
        Listed(
            conversation=one,
            messages=messages.count(tx, agent_id, one.id),
            waiting=approvals.open_of(tx, one.id) is not None,
        )
        for one in store.of_agent(tx, agent_id)
    ]


@conversations.command()
@click.argument("agent")
@home_option
@click.option("--conversation", metavar="ID", help="Conversation to fork. Default: the agent's default one.")
@click.option("--at", "message_id", metavar="MESSAGE", help="Id of the last message to take. Default: all of them.")
def fork(agent: str, home: Path | None, conversation: str | None, message_id: str | None) -> None:
    """Begin a conversation of AGENT with the same messages, and print its id."""
    with opened(home) as door:
        agent_id = door.read(lambda tx: find_agent(tx, agent)).id
        click.echo(
            door.call(lambda runtime: fork_conversation(runtime, agent_id, conversation, at_message_id=message_id)).id
        )


@conversations.command()
@click.argument("agent")
@click.argument("conversation")
@home_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(agent: str, conversation: str, home: Path | None, yes: bool) -> None:
    """Delete CONVERSATION of AGENT, with the messages that no other conversation has, for good."""
    with opened(home) as door:
        found = door.read(lambda tx: find_conversation(tx, find_agent(tx, agent).id, conversation))
        if not yes:
            click.confirm(f"Delete conversation {found.id} with its messages?", abort=True, err=True)
        door.call(lambda runtime: delete_conversation(runtime, found.id))
    click.echo(f"Deleted {found.id}.", err=True)
