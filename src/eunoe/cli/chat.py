"""``eunoe chat``: talk with an agent, with no server in between."""

import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import click

from eunoe.cli.asking import ask_person
from eunoe.cli.chat_commands import Place, obey
from eunoe.cli.errors import BAD_INPUT, Failure
from eunoe.cli.lines import ask, is_terminal, messages_in, use_line_editing
from eunoe.cli.opening import Door, home_option, opened
from eunoe.cli.questions import DENY_ALL, Question, open_question
from eunoe.cli.render import Renderer, exit_code_of, failure_sentence
from eunoe.cli.talk import answering, request_for, request_to, take_turns
from eunoe.cli.terminal import Style, printable, wants_colour
from eunoe.cli.unattended import take_unattended
from eunoe.cli.whom import Whom, choose_whom
from eunoe.runtime.reflecting import reflecting
from eunoe.runtime.runtime import utc_now
from eunoe.runtime.turn import TurnRequest
from eunoe.state.approvals import Answer
from eunoe.state.errors import EunoeError
from eunoe.state.events import RunEnded

_COMMAND: Final = re.compile(r"/[a-z]*")
"""A line that is a command of the chat; a path or a fraction is talk."""


@click.command()
@click.argument("agent", required=False)
@home_option
@click.option(
    "--model", metavar="HANDLE", help="Model as provider/name; an agent that exists keeps its own for other chats."
)
@click.option("--new", is_flag=True, help="Create an agent, named AGENT if that is given.")
@click.option("--conversation", metavar="ID", help="Conversation to talk in. Default: the agent's default one.")
@click.option("-m", "--message", metavar="TEXT", help="Send this one message and leave.")
def chat(
    agent: str | None, home: Path | None, model: str | None, new: bool, conversation: str | None, message: str | None
) -> None:
    """Talk with an agent in the terminal.

    AGENT is an id or a name. Without it: the agent that was used last, or a new one named "companion" when there is
    none. Its model is --model, EUNOE_MODEL, or the first that a configured provider has.

    When the agent wants to call a tool that needs approval, you are asked; a question from before is asked at the
    start.

    When the input is no terminal, each line of it is one message, and calls that need approval are denied; the first
    turn that fails ends the program with an exit code that is not 0.
    """
    with opened(home) as door:
        sitting = Sitting(door, choose_whom(door, agent, model, conversation, new=new))
        if message is not None:
            sitting.send_all([message])
        elif is_terminal():
            with door.portal.wrap_async_context_manager(reflecting(door.runtime)):
                sitting.converse()
        else:
            sitting.send_all(messages_in(sys.stdin))


class Sitting:
    """A person, or a program, and an agent: messages in, turns shown on stdout, failures told on stderr."""

    def __init__(self, door: Door, whom: Whom) -> None:
        self._door: Final = door
        self._whom: Final = whom
        self._style: Final = Style(colour=wants_colour(sys.stdout, os.environ))
        self._renderer: Final = Renderer(sys.stdout, self._style)

    def send_all(self, messages: Iterable[str]) -> None:
        """Send messages one after the other. Raises ``Failure`` and ``EunoeError`` for the first that fails."""
        try:
            for message in messages:
                ended = self._send(message)
                if ended is None:
                    raise Failure("The message was not sent: a question waits for an answer.", BAD_INPUT)
                code = exit_code_of(ended)
                if code:
                    raise Failure(failure_sentence(ended) or "The turn was cancelled.", code)
        except UnicodeDecodeError as error:
            raise Failure(f"The input is not UTF-8 text: {error.reason}. Convert it first.", BAD_INPUT) from error

    def converse(self) -> None:
        """Ask for messages until the person leaves. A failed turn is told, and the talk goes on."""
        use_line_editing()
        self._notice(
            f"Talking with {printable(self._whom.agent.name)} ({self._whom.model}). /help shows what you can do."
        )
        self._telling(self._settle)
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
        if _COMMAND.fullmatch(text):
            place = Place(self._door, self._whom, self._style)
            self._telling(lambda: obey(text, place))
        else:
            self._telling(lambda: self._send(text))

    def _telling(self, work: Callable[[], RunEnded | None]) -> None:
        """Do this, and tell what fails."""
        try:
            ended = work()
            sentence = failure_sentence(ended) if ended else None
        except EunoeError as error:
            sentence = error.message
        if sentence:
            click.echo(self._style.red(f"Error: {printable(sentence)}"), err=True)

    def _send(self, text: str) -> RunEnded | None:
        """Send a message, after the answer to a question that waits; ``None`` when that question stays open."""
        request = request_for(self._whom, text)
        if not is_terminal():
            return take_unattended(self._door, request, self._renderer.show, DENY_ALL).ended
        return self._after_question(request)

    def _settle(self) -> RunEnded | None:
        """Ask the question that waits, if one does, and go on from the answer."""
        return self._after_question(request_to(self._whom))

    def _after_question(self, request: TurnRequest) -> RunEnded | None:
        waiting = self._door.read(lambda tx: open_question(tx, request.agent_id, request.conversation_id, utc_now()))
        if waiting is not None:
            answers = self._ask(waiting)
            if answers is None:
                return None
            request = answering(request, answers)
        if not request.messages and request.reply is None:
            return None
        return take_turns(self._door, request, self._renderer.show, self._ask)

    def _ask(self, question: Question) -> tuple[Answer, ...] | None:
        return ask_person(question, self._style)

    def _notice(self, text: str) -> None:
        click.echo(self._style.dim(text))
