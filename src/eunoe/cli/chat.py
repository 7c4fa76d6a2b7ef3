"""``eunoe chat``: talk with an agent, with no server in between."""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from eunoe.cli.companion import NAME, choose_model, starting_blocks
from eunoe.cli.errors import BAD_INPUT, Failure
from eunoe.cli.finding import find_agent, last_used
from eunoe.cli.lines import ask, is_terminal, messages_in, use_line_editing
from eunoe.cli.opening import Door, home_option, opened
from eunoe.cli.render import Renderer, exit_code_of, failure_sentence
from eunoe.cli.talk import request_for, take_turn
from eunoe.cli.terminal import Style, printable, wants_colour
from eunoe.runtime.agents import create_agent
from eunoe.state.agents import Agent, AgentSpec
from eunoe.state.errors import EunoeError
from eunoe.state.events import RunEnded
from eunoe.store import agents, blocks

HELP: Final = """\
/help     this list
/blocks   what the agent holds in memory
/agent    which agent this is
/exit     leave (as Ctrl-D does)
Anything else is a message. A line that ends in \\ goes on in the next one. Ctrl-C ends an answer."""

_COMMAND: Final = re.compile(r"/[a-z]*")
"""A line that is a command of the chat; a path or a fraction is talk."""


@click.command()
@click.argument("agent", required=False)
@home_option
@click.option(
    "--model", metavar="HANDLE", help="Model as provider/name; an agent that exists keeps its own for other chats."
)
@click.option("--new", is_flag=True, help="Create an agent, named AGENT if that is given.")
@click.option("-m", "--message", metavar="TEXT", help="Send this one message and leave.")
def chat(agent: str | None, home: Path | None, model: str | None, new: bool, message: str | None) -> None:
    """Talk with an agent in the terminal.

    AGENT is an id or a name. Without it: the agent that was used last, or a new one named "companion" when there is
    none. Its model is --model, EUNOE_MODEL, or the first that a configured provider has.

    When the input is no terminal, each line of it is one message; the first turn that fails ends the program with an
    exit code that is not 0.
    """
    with opened(home) as door:
        whom = _choose(door, agent, model, new=new)
        sitting = Sitting(door, whom, model if model != whom.model else None)
        if message is not None:
            sitting.send_all([message])
        elif is_terminal():
            sitting.converse()
        else:
            sitting.send_all(messages_in(sys.stdin))


def _choose(door: Door, name: str | None, model: str | None, *, new: bool) -> Agent:
    found = None
    if not new:
        found = door.read(lambda tx: find_agent(tx, name) if name else last_used(tx))
    if found is None:
        return _create(door, name or NAME, model)
    if model is not None and model != found.model:
        door.call(lambda runtime: runtime.models.find(model))
    return found


def _create(door: Door, name: str, model: str | None) -> Agent:
    choice = door.call(lambda runtime: choose_model(runtime.models, os.environ, model))
    if choice.notice:
        click.echo(choice.notice, err=True)
    spec = AgentSpec(name=name, model=choice.handle, memory_blocks=starting_blocks(None, None))
    created = door.call(lambda runtime: create_agent(runtime, spec)).agent
    click.echo(f"Created {printable(created.name)} ({created.id}) with model {created.model}.", err=True)
    return created


class Sitting:
    """A person, or a program, and an agent: messages in, turns shown on stdout, failures told on stderr."""

    def __init__(self, door: Door, agent: Agent, model: str | None) -> None:
        self._door: Final = door
        self._agent: Final = agent
        self._model: Final = model
        self._style: Final = Style(colour=wants_colour(sys.stdout, os.environ))
        self._renderer: Final = Renderer(sys.stdout, self._style)

    def send_all(self, messages: Iterable[str]) -> None:
        """Send messages one after the other. Raises ``Failure`` and ``EunoeError`` for the first that fails."""
        try:
            for message in messages:
                ended = self._send(message)
                code = exit_code_of(ended)
                if code:
                    raise Failure(failure_sentence(ended) or "The turn was cancelled.", code)
        except UnicodeDecodeError as error:
            raise Failure(f"The input is not UTF-8 text: {error.reason}. Convert it first.", BAD_INPUT) from error

    def converse(self) -> None:
        """Ask for messages until the person leaves. A failed turn is told, and the talk goes on."""
        use_line_editing()
        model = self._model or self._agent.model
        self._notice(f"Talking with {printable(self._agent.name)} ({model}). /help shows what you can do.")
        asked_to_leave = False
        while True:
            try:
                text = ask()
                asked_to_leave = False
                if text == "/exit":
                    return
                if text:
                    self._answer(text)
            except EOFError:
                click.echo()
                return
            except KeyboardInterrupt:
                click.echo()
                if asked_to_leave:
                    return
                asked_to_leave = True
                self._notice("Press Ctrl-C again to leave.")

    def _answer(self, text: str) -> None:
        try:
            if _COMMAND.fullmatch(text):
                self._command(text)
                return
            sentence = failure_sentence(self._send(text))
        except EunoeError as error:
            sentence = error.message
        if sentence:
            click.echo(self._style.red(f"Error: {printable(sentence)}"), err=True)

    def _send(self, text: str) -> RunEnded:
        return take_turn(self._door, request_for(self._agent.id, text, self._model), self._renderer)

    def _command(self, text: str) -> None:
        match text:
            case "/help":
                click.echo(HELP)
            case "/blocks":
                for block in self._door.read(lambda tx: blocks.of_agent(tx, self._agent.id)):
                    heading = f"{printable(block.label)} ({len(block.value)} of {block.limit} characters)"
                    click.echo(f"{self._style.bold(heading)}\n{printable(block.value) or '(empty)'}\n")
            case "/agent":
                agent = self._door.read(lambda tx: agents.get(tx, self._agent.id))
                click.echo(f"{printable(agent.name)}\n{agent.id}\nmodel {self._model or agent.model}")
            case _:
                click.echo(f"There is no command {printable(text)}. /help shows those there are.", err=True)

    def _notice(self, text: str) -> None:
        click.echo(self._style.dim(text))
