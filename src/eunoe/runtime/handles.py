"""A run as its watchers see it: a log of events that outlives any connection."""

from collections.abc import AsyncIterator, Callable, Sequence

import anyio

from eunoe.state.agents import AgentType
from eunoe.state.events import Event, RunEnded
from eunoe.state.runs import Run


class RunHandle:
    """A run that was started. It goes on when its watchers leave; ``cancel`` ends it.

    ``run`` is the run as it was opened and ``agent_type`` that of its agent, for one that goes on in this process.
    ``prepare`` is called with all events and the last of them while the commit is made that they wait for: whoever
    waits for the end alone can prepare an answer there, which counts if that very end is published.
    """

    def __init__(self, run_id: str, agent_id: str, cancel: Callable[[], None]) -> None:
        self.run_id = run_id
        self.agent_id = agent_id
        self.run: Run | None = None
        self.agent_type: AgentType | None = None
        self.prepare: Callable[[Sequence[Event], RunEnded], object] | None = None
        self._cancel = cancel
        self._log: list[Event] = []
        self._ended: RunEnded | None = None
        # Made by the first watcher that waits: most events of a quick answer come while nobody does.
        self._grown: anyio.Event | None = None
        self._over = anyio.Event()

    @property
    def ended(self) -> RunEnded | None:
        """The terminal event, once the run is over."""
        return self._ended

    def publish(self, event: Event) -> None:
        """Add an event and wake the watchers. For the runtime only."""
        self._log.append(event)
        if isinstance(event, RunEnded):
            self._ended = event
            self._over.set()
        if self._grown is not None:
            self._grown.set()
            self._grown = None

    def foresee(self, events: Sequence[Event], ended: RunEnded) -> None:
        """Let a watcher prepare for these events and the end, which are published if a commit succeeds."""
        if self.prepare is not None:
            self.prepare((*self._log, *events), ended)

    def told(self) -> Sequence[Event]:
        """Return the events so far."""
        return tuple(self._log)

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Tell the events from number ``after`` on (0 is the first), then those to come, to the ``RunEnded``."""
        index = after
        while True:
            while index < len(self._log):
                yield self._log[index]
                index += 1
            if self._ended is not None:
                return
            if self._grown is None:
                self._grown = anyio.Event()
            await self._grown.wait()

    async def wait(self) -> RunEnded:
        """Wait until the run is over, and return its terminal event."""
        await self._over.wait()
        if self._ended is None:
            raise AssertionError("a run is over only when its terminal event was published")
        return self._ended

    def cancel(self) -> None:
        """Ask the run to end as cancelled. The store stays consistent; watch for the ``RunEnded``."""
        self._cancel()
