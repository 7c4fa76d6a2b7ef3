"""One request over a session, and the library's dispatcher as it is used here.

Imported with the library.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar, cast

import anyio
from anyio.abc import TaskStatus
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from eunoe.state.errors import McpError

T = TypeVar("T")


class Job(Generic[T]):
    """One request that goes on: what it asks, and how it ended."""

    def __init__(self, work: Callable[[ClientSession], Awaitable[T]]) -> None:
        self.work: Final = work
        self.done: Final = anyio.Event()
        self.scope: Final = anyio.CancelScope()
        self.listed: Final = list[Any]()
        self.status: int | None = None
        self.outcome: T | McpError | None = None

    def end(self, outcome: T | McpError) -> None:
        """Set how it ended, if it has not ended yet."""
        if not self.done.is_set():
            self.outcome = outcome
            self.done.set()


JOB: Final[ContextVar[Job[Any] | None]] = ContextVar("eunoe_mcp_job", default=None)
"""The job that a request belongs to; the library hands contexts on to the tasks that send."""


class Dispatcher(JSONRPCDispatcher[Any]):
    """The library's, which also says when the connection ended, and keeps tools that the library would not read."""

    def __init__(self, read: Any, write: Any, on_end: Callable[[], None]) -> None:
        super().__init__(read, write)
        self._on_end = on_end

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Receive until the connection ends."""
        await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        self._on_end()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: Any = None,
    ) -> dict[str, Any]:
        """Send a request. A list of tools is taken away as it came: one bad tool would spoil the whole list."""
        answer = await super().send_raw_request(method, params, opts, _related_request_id=_related_request_id)
        job = JOB.get()
        tools = answer.get("tools")
        if method == "tools/list" and job is not None and isinstance(tools, list):
            job.listed.extend(cast("list[Any]", tools))
            answer["tools"] = []
        return answer
