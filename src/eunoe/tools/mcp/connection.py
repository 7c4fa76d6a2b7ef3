"""A session with one MCP server, in a task of its own, and the requests that go on over it.

Whoever asks waits for nothing but an event: a server that hangs, or a library that is slow to let go, keeps nobody.
This module imports the library, which costs most of a second; ``sessions`` imports it when the first server is asked.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar, cast

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from eunoe.state.errors import McpError
from eunoe.tools.mcp.asking import agree, call_tool, list_tools
from eunoe.tools.mcp.dispatch import JOB, Dispatcher, Job
from eunoe.tools.mcp.failures import ended, explain, failed, is_closed, refused, unreadable
from eunoe.tools.mcp.http import LONGEST_BODY, client_for
from eunoe.tools.mcp.limits import McpLimits
from eunoe.tools.mcp.offer import ToolList
from eunoe.tools.mcp.stderr import LastWords, error_stream
from eunoe.tools.mcp.target import Target
from eunoe.tools.protocol import ToolResult
from eunoe.version import __version__

T = TypeVar("T")

CLOSE_SECONDS: Final = 2.0
"""Seconds in which a session says goodbye."""

_LEAST_WAIT: Final = 1.0
_FAILURE: Final = 400
"""The statuses of HTTP from which on an answer is a refusal."""

_log: Final = logging.getLogger(__name__)

# What goes wrong is told by our own errors; these would repeat answers, and addresses with the keys in them (I14).
for _name, _level in (("mcp", logging.CRITICAL), ("client", logging.CRITICAL), ("httpx2", logging.WARNING)):
    logging.getLogger(_name).setLevel(_level)


class Connection:
    """A session that is being opened, open, or over."""

    def __init__(self, target: Target, limits: McpLimits) -> None:
        self.target: Final = target
        self.answered: bool = False
        self._limits = limits
        self._ready = anyio.Event()
        self._done_with = anyio.Event()
        self._failure: McpError | None = None
        self._retired = False
        self._scope = anyio.CancelScope()
        self._users = 0
        self.used_at = anyio.current_time()
        """The time of the last request, by the clock of the event loop."""
        self._jobs = set[Job[Any]]()
        self._open: tuple[ClientSession, TaskGroup] | None = None
        self._words: LastWords | None = None
        self._status: int | None = None
        self._garbage = 0
        self._is_over = False

    @property
    def usable(self) -> bool:
        """Whether it takes requests."""
        return self._failure is None and not self._retired

    @property
    def in_use(self) -> bool:
        """Whether a request goes on."""
        return self._users > 0

    async def tools(self, seconds: float) -> ToolList:
        """Return what the server offers. Raises ``McpError``."""
        return await self._ask(list_tools, seconds)

    async def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> ToolResult:
        """Call a tool. Raises ``McpError``; a tool that fails is a result."""
        return await self._ask(partial(call_tool, name=name, arguments=arguments), seconds)

    def close(self) -> None:
        """End the session; whoever waits for an answer is told that it ended."""
        self._fail(ended(self.target))

    def retire(self) -> None:
        """Take no more requests, and end once those that go on are answered."""
        self._retired = True
        if not self._users:
            self._done_with.set()

    async def _ask(self, work: Callable[[ClientSession], Awaitable[T]], seconds: float) -> T:
        self._users += 1
        job = Job(work)
        try:
            with anyio.move_on_after(self._limits.connect):
                await self._ready.wait()
            if self._open is None:
                self._fail(self._late())
            if self._failure is not None or self._open is None:
                raise self._failure or self._late()
            session, group = self._open
            self._jobs.add(job)
            group.start_soon(self._do, session, job)
            with anyio.move_on_after(seconds):
                await job.done.wait()
            if isinstance(job.outcome, McpError):
                raise job.outcome
            if not job.done.is_set():
                self._retired = True  # the next request shall not wait for it too
                raise failed(self.target, "timeout", f"did not answer in {seconds:g} s.{self._unread()}")
            self.answered = True
            return cast("T", job.outcome)
        finally:
            job.scope.cancel()
            self._jobs.discard(job)
            self._users -= 1
            self.used_at = anyio.current_time()
            if self._retired:
                self.retire()

    def _late(self) -> McpError:
        return failed(self.target, "timeout", f"did not open a session in {self._limits.connect:g} s.{self._unread()}")

    def _unread(self) -> str:
        return f" It wrote {self._garbage} lines that are no JSON messages." if self._garbage else ""

    async def _do(self, session: ClientSession, job: Job[Any]) -> None:
        JOB.set(job)
        with job.scope:
            try:
                job.end(await job.work(session))
            except Exception as error:  # noqa: BLE001 - the boundary of the library: what it raises is the job's end
                if self.target.kind == "sse" and is_closed(error) and not job.status:
                    return  # the stream ends, and its end says why
                meaning = refused(self.target, job.status, error) if job.status else self._meaning(error)
                self._retired = self._retired or meaning.kind in ("ended", "unreachable")
                job.end(meaning)

    def _meaning(self, error: BaseException) -> McpError:
        found = self._failure or explain(self.target, error, self._words.text() if self._words else "")
        if found is None:
            _log.warning("the session with MCP server %s broke: %s", self.target.name, type(error).__name__)
            found = failed(self.target, "ended", f"cannot be talked with ({type(error).__name__}).")
        return found

    def _fail(self, error: McpError) -> None:
        """End the session for this reason, unless it has ended."""
        if self._failure is None:
            self._failure = error
        self._ready.set()
        for job in self._jobs:
            job.end(self._failure)
        self._scope.cancel()

    async def run(self) -> None:
        """Open the session and keep it until it fails, is closed, or was idle for long enough."""
        self._scope.deadline = anyio.current_time() + self._limits.connect
        try:
            with self._scope:
                await self._live()
            if self._scope.cancelled_caught and self._failure is None:
                self._fail(ended(self.target) if self._is_over else self._late())
        except Exception as error:  # noqa: BLE001 - the boundary of the library: a session that breaks ends itself alone
            status = self._status
            self._fail(refused(self.target, status) if status and self._open is None else self._meaning(error))
        finally:
            self._fail(ended(self.target))

    async def _live(self) -> None:
        async with (
            self._streams() as (read, write),
            ClientSession(
                dispatcher=Dispatcher(read, write, self._over),
                message_handler=self._hear,
                client_info=Implementation(name="eunoe", version=__version__),
            ) as session,
        ):
            await agree(session)
            async with anyio.create_task_group() as group:
                self._open = session, group
                self._scope.deadline = float("inf")
                self._ready.set()
                await self._until_idle()
                self.retire()
                self._scope.deadline = anyio.current_time() + CLOSE_SECONDS

    async def _until_idle(self) -> None:
        while self._users or self._left() > 0:
            with anyio.move_on_after(max(self._left(), _LEAST_WAIT)):
                await self._done_with.wait()
                return

    def _left(self) -> float:
        return self.used_at + self._limits.idle - anyio.current_time()

    def _over(self) -> None:
        """Take note that the other side ended the connection.

        Of a stream of events, what broke it comes to light when it is left.
        """
        if self.target.kind == "sse":
            self._is_over = True
            self._scope.cancel()
            return
        self._fail(ended(self.target, self._words.text() if self._words else ""))

    async def _hear(self, message: IncomingMessage) -> None:
        """Take note of what cannot be read.

        Over SSE it may have been the answer that someone waits for. Programs write other lines among their answers, and
        over streamable HTTP each answer comes to its own request.
        """
        if not isinstance(message, Exception):
            return
        if self.target.kind == "sse":
            garbled = isinstance(message, ValueError)
            self._fail(unreadable(self.target) if garbled else self._meaning(message))
        else:
            self._garbage += 1

    def _note(self, request: httpx2.Request, status: int) -> None:
        """Take note of how a request was answered.

        Over SSE, a refused request gets no other answer and the library sends nothing more; otherwise the library says
        itself that the request failed, and not with which status. A stream of notices may be refused.
        """
        job = JOB.get()
        if status < _FAILURE or (request.method != "POST" and self.target.kind != "sse"):
            return
        if job is None:
            self._status = status
        else:
            job.status = status
            if self.target.kind == "sse":
                job.end(refused(self.target, status))
        if self.target.kind == "sse" and request.method == "POST":
            self._fail(ended(self.target) if job else refused(self.target, status))

    @asynccontextmanager
    async def _streams(self) -> AsyncGenerator[tuple[Any, Any], None]:
        """Open the way on which messages go, and close it."""
        target = self.target
        if target.kind == "stdio":
            program = StdioServerParameters(command=target.command, args=list(target.args), env=dict(target.env))
            async with error_stream() as (file, self._words), stdio_client(program, errlog=file) as streams:
                yield streams
            return
        client = client_for(target, connect_seconds=self._limits.connect, private=self._limits.private, note=self._note)
        if target.kind == "sse":

            def the_client(
                headers: dict[str, str] | None = None,
                timeout: httpx2.Timeout | None = None,
                auth: httpx2.Auth | None = None,
            ) -> httpx2.AsyncClient:
                del headers, timeout, auth
                return client

            async with sse_client(target.url, httpx_client_factory=the_client) as streams:
                yield streams
            return
        async with (
            client,
            streamable_http_client(target.url, http_client=client, max_sse_event_size=LONGEST_BODY) as streams,
        ):
            yield streams
