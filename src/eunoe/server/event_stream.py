"""A run told over server-sent events. The run goes on when the client leaves."""

import logging
from datetime import UTC, datetime
from typing import Final

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from eunoe.runtime.handles import RunHandle
from eunoe.server.routing import failure_response
from eunoe.server.wire.errors import run_failure
from eunoe.server.wire.stream import DONE, Narrator, error_body, frame, ping
from eunoe.state.events import Event, RunEnded
from eunoe.state.runs import RunError

log: Final = logging.getLogger(__name__)

_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

_OWN_FAULT: Final = RunError(type="internal_error", message="An unknown error occurred")


class EventStream(Response):
    """The answer that tells a run while it goes on.

    Nothing is sent before the run has something to show, so that a failure before that is a plain HTTP error; but
    after ``ping_seconds`` of silence the stream begins with a ping. With ``at_once`` it begins at once.
    """

    def __init__(
        self, handle: RunHandle, narrator: Narrator, *, pings: bool, ping_seconds: float, at_once: bool = False
    ) -> None:
        super().__init__()
        self._handle = handle
        self._narrator = narrator
        self._pings = pings
        self._ping_seconds = ping_seconds
        self._at_once = at_once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell the run until it ends or the client is gone."""
        async with anyio.create_task_group() as group:

            async def leave_with_client() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()

            group.start_soon(leave_with_client)
            await self._tell(scope, receive, send)
            group.cancel_scope.cancel()

    async def _tell(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = self._at_once
        if begun:
            await self._begin(send)
        index = 0
        while True:
            event = await self._next(index)
            now = datetime.now(UTC)
            if event is None:
                if begun and self._pings:
                    await _send(send, frame(ping(self._handle.run_id, now)))
                elif not begun:
                    await self._begin(send)
                    begun = True
                continue
            index += 1
            try:
                bodies = self._narrator.tell(event, now)
            except Exception:
                # A bug in telling must not leave the client with a stream that never ends.
                log.exception("run %s cannot be told", self._handle.run_id)
                if not begun:
                    raise
                await _send(send, frame(error_body(self._handle.run_id, _OWN_FAULT)), DONE, last=True)
                return
            ended = isinstance(event, RunEnded)
            if ended and event.error is not None and not begun:
                await failure_response(run_failure(event.error))(scope, receive, send)
                return
            if (bodies or ended) and not begun:
                await self._begin(send)
                begun = True
            await _send(send, *(frame(body) for body in bodies), *([DONE] if ended else []), last=ended)
            if ended:
                return

    async def _next(self, index: int) -> Event | None:
        """Return event number ``index``, or ``None`` after a while of silence."""
        with anyio.move_on_after(self._ping_seconds):
            async for event in self._handle.events(index):
                return event
        return None

    async def _begin(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if self._pings:
            await _send(send, frame(ping(self._handle.run_id, datetime.now(UTC))))


async def _send(send: Send, *frames: bytes, last: bool = False) -> None:
    if frames or last:
        await send({"type": "http.response.body", "body": b"".join(frames), "more_body": not last})
