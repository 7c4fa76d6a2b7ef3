"""A model server for tests: real HTTP on loopback, in a thread or as a process of its own.

It records what it is sent, checks the history as strictly as the vendor does, and can be told to misbehave.
"""

import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

HANG_SECONDS = 30.0
JOIN_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What one request gets instead of a good answer."""

    status: int | None = None
    error: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    raw: str | None = None
    """These server-sent events, as they are."""
    whole: bool = False
    """One JSON answer although a stream was asked for."""
    garbage: bool = False
    """Something that is neither."""
    cut_after: int | None = None
    """Only so many events of the answer."""
    cut: Literal["clean", "abrupt"] = "clean"
    hang: bool = False
    """Silence until ``release``, before anything is sent."""
    hang_after: int | None = None
    """Silence until ``release``, after so many events of the answer."""


class Cut(Exception):
    """Tears the connection down in the middle of an answer."""


class ModelServer:
    """The object that tests hold: where the server is, what it was sent, and how it behaves."""

    def __init__(self, routes: Callable[["ModelServer"], list[Route]], base_path: str) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.ports: list[int] = []
        """The ports that requests came from: one port is one connection."""
        self.models: list[dict[str, Any]] = []
        self.pages: dict[str, Any] = {}
        """JSON answers by path, for what servers of one kind have of their own."""
        self.seen: list[str] = []
        """The paths of all requests."""
        self.key: str | None = None
        self._base_path = base_path
        self._behaviours: deque[Behaviour] = deque()
        self._released = threading.Event()
        self.app = Starlette(
            routes=[
                *routes(self),
                Route("/requests", self._show_requests),
                Route("/{path:path}", self._page, methods=["GET", "POST"]),
            ]
        )
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def root(self) -> str:
        assert self._socket is not None
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def base_url(self) -> str:
        return self.root + self._base_path

    def start(self) -> None:
        # The socket listens before the thread starts, so that a client never comes too early.
        self._socket = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(self.app, log_level="critical", lifespan="off", ws="none", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        assert self._server is not None
        assert self._thread is not None
        self.release()
        self._server.should_exit = True
        self._thread.join(JOIN_SECONDS)
        assert not self._thread.is_alive()

    def reset(self) -> None:
        self.release()
        self._released.clear()
        self._behaviours.clear()
        self.requests.clear()
        self.headers.clear()
        self.ports.clear()
        self.seen.clear()
        self.models.clear()
        self.pages.clear()
        self.key = None

    def behave(self, behaviour: Behaviour | None = None, *, times: int = 1, **fields: Any) -> None:
        """Let the next ``times`` requests get this."""
        self._behaviours.extend([behaviour or Behaviour(**fields)] * times)

    def release(self) -> None:
        """Let the requests that hang go on."""
        self._released.set()

    async def take(self, request: Request) -> tuple[dict[str, Any], Behaviour]:
        """Record a request, and wait if it is to hang."""
        self.seen.append(request.url.path)
        body = msgspec.json.decode(await request.body())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        self.ports.append(request.client.port if request.client else 0)
        behaviour = self._behaviours.popleft() if self._behaviours else Behaviour()
        if behaviour.hang:
            await self._silence()
        return body, behaviour

    async def _silence(self) -> None:
        await anyio.to_thread.run_sync(self._released.wait, HANG_SECONDS, abandon_on_cancel=True)

    def stream(self, events: Iterable[str], behaviour: Behaviour) -> Response:
        """Send events, as far as the behaviour lets them pass."""

        async def send() -> AsyncIterator[str]:
            for index, text in enumerate(events):
                if index == behaviour.hang_after:
                    await self._silence()
                if index == behaviour.cut_after:
                    if behaviour.cut == "abrupt":
                        raise Cut
                    return
                yield text
            if behaviour.hang_after is not None:
                await self._silence()

        return StreamingResponse(send(), media_type="text/event-stream")

    def authorised(self, given: str) -> bool:
        return self.key is None or given == self.key

    async def _show_requests(self, _request: Request) -> Response:
        return json_response(self.requests)

    async def _page(self, request: Request) -> Response:
        self.seen.append(request.url.path)
        page = self.pages.get(request.url.path)
        if callable(page) and not isinstance(page, Response):
            body = await request.body()
            page = page(msgspec.json.decode(body) if body else None)
        if isinstance(page, Response):
            return page
        return json_response({"error": "not found"}, 404) if page is None else json_response(page)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def event(data: Any, name: str | None = None) -> str:
    """Write one server-sent event."""
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"


def misbehave(behaviour: Behaviour) -> Response | None:
    """Return what stands in the place of an answer, if anything does."""
    if behaviour.status is not None:
        error = behaviour.error if behaviour.error is not None else {"error": {"message": "told to fail"}}
        if isinstance(error, str):
            return Response(error, behaviour.status, behaviour.headers)
        return json_response(error, behaviour.status, behaviour.headers)
    if behaviour.garbage:
        return Response("<html>It works!</html>", media_type="text/html")
    if behaviour.raw is not None:
        return Response(behaviour.raw, media_type="text/event-stream")
    return None


def run_as_process(server: ModelServer, port: int) -> None:
    """Serve in the foreground until the process is told to end."""
    uvicorn.run(server.app, host="127.0.0.1", port=port, log_level="warning", lifespan="off", ws="none")
