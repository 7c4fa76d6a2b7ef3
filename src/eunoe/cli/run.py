"""``eunoe run``: one message with nobody there, for scripts and timers."""

import sys
import time
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from eunoe.cli.errors import OUT_OF_TIME
from eunoe.cli.lines import read_stdin
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.questions import UNATTENDED, Policy, check_names
from eunoe.cli.render import call_line, exit_code_of, failure_sentence, said_by
from eunoe.cli.tables import write_json
from eunoe.cli.talk import request_for
from eunoe.cli.terminal import printable
from eunoe.cli.unattended import Unattended, take_unattended
from eunoe.cli.whom import choose_whom
from eunoe.state.events import Event, MessageStored, RunEnded, RunStarted
from eunoe.state.messages import Message, ToolCallPart
from eunoe.state.runs import RunError, Usage
from eunoe.store import tools


class Outcome(Struct, frozen=True, kw_only=True):
    """What ``--json`` writes.

    ``run_id`` is the last run; a call that waited for approval ends one run and begins another, and ``run_ids`` has
    them all, in order. ``messages`` are those that they stored, ``usage`` and ``steps`` their sums, ``denied`` the
    calls that were not allowed.
    """

    agent_id: str
    conversation_id: str
    run_id: str
    run_ids: tuple[str, ...]
    stop_reason: str
    timed_out: bool
    answer: str
    messages: tuple[Message, ...]
    denied: tuple[ToolCallPart, ...]
    usage: Usage
    steps: int
    error: RunError | None


@click.command()
@click.argument("agent", required=False)
@home_option
@json_option
@click.option("-p", "--prompt", metavar="TEXT", required=True, help="The message; - reads it from the input.")
@click.option("--model", metavar="HANDLE", help="Model as provider/name, for this message only.")
@click.option("--conversation", metavar="ID", help="Conversation to talk in. Default: the agent's default one.")
@click.option("--approve", metavar="NAME", multiple=True, help="Allow calls of this tool; may be repeated.")
@click.option("--deny", metavar="NAME", multiple=True, help="Deny calls of this tool, whatever else is allowed.")
@click.option("--approve-all", is_flag=True, help="Allow calls of every tool that --deny does not name.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Cancel what takes longer.")
def run(
    agent: str | None,
    home: Path | None,
    as_json: bool,
    prompt: str,
    model: str | None,
    conversation: str | None,
    approve: tuple[str, ...],
    deny: tuple[str, ...],
    approve_all: bool,
    timeout: float | None,
) -> None:
    """Send one message with nobody there, and print the answer.

    AGENT is an id or a name. Without it: the agent that was used last, or a new one named "companion" when there is
    none.

    Nothing is waited for: a call that needs approval is allowed when it is named so, else denied, and the agent goes
    on with that. A question from before is denied. --approve, --deny and --approve-all speak of such calls only;
    other calls need nobody.

    Exit codes: 0 answered, also when calls were denied; 1 failed; 2 bad input; 3 the store; 4 the model; 124 out of
    time; 130 interrupted.
    """
    policy = Policy(approve=frozenset(approve), deny=frozenset(deny), everything=approve_all)
    text = read_stdin("prompt") if prompt == "-" else prompt
    with opened(home) as door:
        until = None if timeout is None else time.monotonic() + timeout
        whom = choose_whom(door, agent, model, conversation)
        check_names(policy, door.read(lambda tx: frozenset(tool.name for tool in tools.of_agent(tx, whom.agent.id))))
        record = Record()
        done = take_unattended(door, request_for(whom, text), record.note, policy, until)
    timed_out = done.ended.stop_reason == "cancelled" and until is not None and time.monotonic() >= until
    if as_json:
        write_json(record.outcome(whom.agent.id, done, timed_out=timed_out))
    else:
        _write(record, done)
    failure = f"The time limit of {timeout:g} seconds is over." if timed_out else failure_sentence(done.ended)
    if failure:
        click.echo(f"Error: {printable(failure)}", err=True)
    click.get_current_context().exit(OUT_OF_TIME if timed_out else exit_code_of(done.ended))


def _write(record: "Record", done: Unattended) -> None:
    for call in done.denied:
        click.echo(f"Denied ({UNATTENDED}): {call_line(call)}", err=True)
    answer = record.answer
    if answer:
        click.echo(printable(answer) if sys.stdout.isatty() else answer)


class Record:
    """What is kept of the runs that come of one message."""

    def __init__(self) -> None:
        self._started: Final[list[RunStarted]] = []
        self._messages: Final[list[Message]] = []
        self._ended: Final[list[RunEnded]] = []

    def note(self, event: Event) -> None:
        """Keep what this event adds."""
        match event:
            case RunStarted():
                self._started.append(event)
            case MessageStored(message=message):
                self._messages.append(message)
            case RunEnded():
                self._ended.append(event)
            case _:
                pass

    @property
    def answer(self) -> str:
        """What the last message that says something says to the user; empty when none does."""
        return next((said for message in reversed(self._messages) if (said := _said_in(message))), "")

    def outcome(self, agent_id: str, done: Unattended, *, timed_out: bool) -> Outcome:
        """Return everything in one object."""
        usage = Usage()
        for ended in self._ended:
            usage = usage.plus(ended.usage)
        return Outcome(
            agent_id=agent_id,
            conversation_id=self._started[-1].conversation_id,
            run_id=done.ended.run_id,
            run_ids=tuple(started.run_id for started in self._started),
            stop_reason=done.ended.stop_reason,
            timed_out=timed_out,
            answer=self.answer,
            messages=tuple(self._messages),
            denied=done.denied,
            usage=usage,
            steps=sum(ended.step_count for ended in self._ended),
            error=done.ended.error,
        )


def _said_in(message: Message) -> str:
    if message.role != "assistant":
        return ""
    spoken = [said for call in message.tool_calls if (said := said_by(call))]
    return "\n".join([message.text, *spoken] if message.text.strip() else spoken)
