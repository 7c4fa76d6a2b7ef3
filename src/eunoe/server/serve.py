"""Running the server: one process, until it is told to stop."""

import errno
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import anyio
import msgspec
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette

from eunoe.runtime.homes import API_KEY
from eunoe.server.app import PING_SECONDS, OpenRuntime, create_app
from eunoe.server.auth import check_binding
from eunoe.server.reading import DEFAULT_BODY_LIMIT
from eunoe.state.errors import EunoeError

DEFAULT_PORT: Final = 8283
"""Letta's port, so that its clients find the server."""

GOODBYE_SECONDS: Final = 10
"""Seconds that open connections are given to end when the server stops."""


class PortInUse(EunoeError):
    """Another program listens on the port."""

    code = "PORT_IN_USE"


class Binding(Struct, frozen=True, kw_only=True):
    """Where the server listens. ``token`` is what clients must show; never printed."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    token: str | None = None

    def __repr__(self) -> str:
        """Leave the token out (I14)."""
        return f"Binding(host={self.host!r}, port={self.port})"


class JsonLines(logging.Formatter):
    """Log records as one JSON object on a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's time, level, logger, message and traceback."""
        fields: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


def configure_logging(*, json_lines: bool, level: int = logging.INFO) -> None:
    """Send the log to standard error: as plain lines, or as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if json_lines else logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def listen(binding: Binding) -> socket.socket:
    """Return a listening socket. Raises ``PortInUse``, and ``InvalidInput`` for an address open to others."""
    check_binding(binding.host, binding.token)
    family = socket.AF_INET6 if ":" in binding.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((binding.host.strip("[]"), binding.port))
        opened.listen(2048)
    except OSError as error:
        opened.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"Port {binding.port} on {binding.host} is already in use. "
                "Stop the program that has it, or choose another with --port.",
                port=binding.port,
            ) from error
        raise PortInUse(
            f"Cannot listen on {binding.host}:{binding.port}: {error.strerror}. Choose another address or port.",
            port=binding.port,
        ) from error
    return opened


async def serve(
    open_runtime: OpenRuntime,
    binding: Binding,
    *,
    announce: Callable[[str], None],
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    body_limit: int = DEFAULT_BODY_LIMIT,
    ping_seconds: float = PING_SECONDS,
    log_requests: bool = False,
    stop: anyio.Event | None = None,
) -> None:
    """Serve until SIGINT, SIGTERM or ``stop``; then let open connections end for ``GOODBYE_SECONDS``.

    ``announce`` is told the address once the server listens. uvloop and httptools are used if they are installed.
    Raises ``PortInUse``, ``InvalidInput``, and what opening the store raises.
    """
    opened = listen(binding)
    host, port = opened.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    try:
        async with open_runtime() as runtime:
            if binding.token:
                runtime.homes.caller = API_KEY
            app = create_app(
                lambda: nullcontext(runtime),
                token=binding.token,
                hosts=hosts,
                origins=origins,
                body_limit=body_limit,
                ping_seconds=ping_seconds,
            )
            server = _Server(_configuration(app, log_requests), lambda: announce(f"http://{shown}:{port}"))
            await _until_told_to_stop(server, opened, stop)
    finally:
        opened.close()


def _configuration(app: Starlette, log_requests: bool) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=log_requests,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GOODBYE_SECONDS,
        lifespan="on",
    )


async def _until_told_to_stop(server: "_Server", opened: socket.socket, stop: anyio.Event | None) -> None:
    async with anyio.create_task_group() as tasks:
        if stop is not None:
            tasks.start_soon(_stop_on_event, server, stop)
        if threading.current_thread() is threading.main_thread():
            tasks.start_soon(_stop_on_signal, server)
        await server.serve(sockets=[opened])
        tasks.cancel_scope.cancel()


async def _stop_on_event(server: "_Server", stop: anyio.Event) -> None:
    await stop.wait()
    server.should_exit = True


async def _stop_on_signal(server: "_Server") -> None:
    """Stop in order at the first signal, and at once at the second."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            server.force_exit = server.should_exit
            server.should_exit = True


class _Server(uvicorn.Server):
    """A server that says when it listens, and leaves signals to us.

    uvicorn raises a signal again once it has stopped, which would end the process before the store is closed.
    """

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, then announce."""
        await super().startup(sockets)
        if not self.should_exit:
            self._announce()
