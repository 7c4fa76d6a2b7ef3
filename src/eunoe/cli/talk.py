"""One turn from the terminal: start it, show what comes, and let Ctrl-C end it as cancelled."""

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import Final

from eunoe.cli.opening import Door
from eunoe.cli.render import Renderer
from eunoe.memory.verdict import check_text
from eunoe.runtime.handles import RunHandle
from eunoe.runtime.runtime import Runtime
from eunoe.runtime.turn import TurnRequest
from eunoe.state.events import Event, RunEnded
from eunoe.state.messages import NewMessage, TextPart


def request_for(agent_id: str, text: str, model: str | None) -> TurnRequest:
    """Return the turn that this text asks for; ``model`` answers instead of the agent's own.

    Raises ``InvalidInput`` for text that cannot be stored.
    """
    check_text(text, "message")
    message = NewMessage(role="user", parts=(TextPart(text=text),))
    return TurnRequest(agent_id=agent_id, messages=(message,), override_model=model)


def take_turn(door: Door, request: TurnRequest, renderer: Renderer) -> RunEnded:
    """Run a turn and show its events. Raises what ``Runtime.start`` raises; then nothing is stored.

    Ctrl-C asks the run to end as cancelled, and this returns when it has.
    """
    turn = _Turn(door)
    with _interrupts_to(turn.cancel):
        return turn.run(request, renderer)


class _Turn:
    """A run that is watched from the main thread: the loop's thread hands its events over."""

    def __init__(self, door: Door) -> None:
        self._door: Final = door
        self._events: Final[SimpleQueue[Event | None]] = SimpleQueue()
        self._handle: RunHandle | None = None
        self._cancelled = False

    def run(self, request: TurnRequest, renderer: Renderer) -> RunEnded:
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
        while (event := self._events.get()) is not None:
            renderer.show(event)
        return following.result()

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
