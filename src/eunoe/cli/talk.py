"""Turns from the terminal: start one, show what comes, answer its questions, and let Ctrl-C end it as cancelled."""

import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from msgspec import structs

from eunoe.cli.opening import Door
from eunoe.cli.questions import Question, open_question
from eunoe.cli.whereabouts import working_folder
from eunoe.cli.whom import Whom
from eunoe.memory.verdict import check_text
from eunoe.runtime.approvals import Reply
from eunoe.runtime.handles import RunHandle
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.runtime.turn import TurnRequest
from eunoe.state.approvals import Answer
from eunoe.state.events import Event, RunEnded
from eunoe.state.messages import NewMessage, TextPart

Show = Callable[[Event], object]
"""What is done with each event of a run, in order."""

Decide = Callable[[Question], tuple[Answer, ...] | None]
"""Who answers questions about tool calls; ``None`` leaves a question open."""


def request_to(whom: Whom) -> TurnRequest:
    """Return a request to this agent that says nothing yet."""
    return TurnRequest(
        agent_id=whom.agent.id,
        conversation_id=whom.conversation_id,
        override_model=whom.override,
        on_busy="wait",
        project=working_folder(),
    )


def request_for(whom: Whom, text: str) -> TurnRequest:
    """Return the turn that this text asks for. Raises ``InvalidInput`` for text that cannot be stored."""
    check_text(text, "message")
    message = NewMessage(role="user", parts=(TextPart(text=text),))
    return structs.replace(request_to(whom), messages=(message,))


def answering(request: TurnRequest, answers: tuple[Answer, ...]) -> TurnRequest:
    """Return the request that answers a question first; the messages that it has come after the calls' returns."""
    return structs.replace(request, reply=Reply(answers=answers))


def take_turns(door: Door, request: TurnRequest, show: Show, decide: Decide, until: float | None = None) -> RunEnded:
    """Run a turn, and go on from each question that it ends with; return how the last run ended.

    It ends with stop reason ``requires_approval`` only when ``decide`` left a question open. ``until`` is as in
    ``take_turn``.
    """
    ended = take_turn(door, request, show, until)
    while ended.stop_reason == "requires_approval":
        question = door.read(lambda tx: open_question(tx, request.agent_id, request.conversation_id, utc_now()))
        answers = decide(question) if question else None
        if answers is None:
            break
        ended = take_turn(door, answering(structs.replace(request, messages=()), answers), show, until)
    return ended


def take_turn(door: Door, request: TurnRequest, show: Show, until: float | None = None) -> RunEnded:
    """Run a turn and show its events. Raises what ``Runtime.start`` raises; then nothing is stored.

    Ctrl-C asks the run to end as cancelled, and so does the moment ``until`` (in seconds of ``time.monotonic``); this
    returns when it has ended.
    """
    turn = _Turn(door)
    with _interrupts_to(turn.cancel):
        return turn.run(request, show, until)


class _Turn:
    """A run that is watched from the main thread: the loop's thread hands its events over."""

    def __init__(self, door: Door) -> None:
        self._door: Final = door
        self._events: Final[SimpleQueue[Event | None]] = SimpleQueue()
        self._handle: RunHandle | None = None
        self._cancelled = False
        self._out_of_time = False

    def run(self, request: TurnRequest, show: Show, until: float | None) -> RunEnded:
        async def follow(runtime: Runtime) -> RunEnded:
            try:
                handle = await runtime.start(request)
                self._handle = handle
                if self._cancelled:
                    handle.cancel()
                async for event in handle.events():
                    self._events.put(event)
                return await handle.wait()
            finally:
                self._events.put(None)

        following = self._door.portal.start_task_soon(follow, self._door.runtime)
        while (event := self._next(until)) is not None:
            show(event)
        return following.result()

    def _next(self, until: float | None) -> Event | None:
        """Return the next event, or ``None`` after the last; cancel the run when its time is over."""
        if until is not None and not self._out_of_time:
            try:
                return self._events.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                self._out_of_time = True
                self.cancel()
        return self._events.get()

    def cancel(self) -> None:
        """Ask for the end of the run, from a signal handler in the main thread."""
        self._door.portal.start_task_soon(self._cancel)

    def _cancel(self) -> None:
        # In the loop's thread, as ``follow`` is: the run is either seen here or sees the mark.
        self._cancelled = True
        if self._handle is not None:
            self._handle.cancel()


@contextmanager
def _interrupts_to(action: Callable[[], None]) -> Generator[None]:
    def interrupted(number: int, frame: FrameType | None) -> None:
        del number, frame
        action()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
