"""An agent's memory files over git's own protocol: clone, fetch and push with any git client."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio.to_thread
from starlette.responses import PlainTextResponse, Response

from eunoe.memory.push_hook import push_hooks
from eunoe.runtime.git_clients import repository_for_clients, take_push
from eunoe.server.git_backend import GitAnswer, GitRequest, Service
from eunoe.server.routing import Call, Method, Route, route
from eunoe.server.wire.errors import failure
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import Nothing
from eunoe.state.errors import EunoeError

_SERVICES: Final[tuple[Service, ...]] = ("git-upload-pack", "git-receive-pack")


async def advertise(call: Call[NoQuery, Nothing]) -> object:
    """Tell a client which branches and tags there are."""
    if call.request.query_params.get("service") not in _SERVICES:
        return PlainTextResponse(
            "This server speaks git's smart protocol only; use a git client of 1.6.6 or newer.", 403
        )
    return await _answer(call, "info/refs")


async def fetch(call: Call[NoQuery, Nothing]) -> object:
    """Give a client what it lacks."""
    return await _answer(call, "git-upload-pack")


async def push(call: Call[NoQuery, Nothing]) -> object:
    """Take what a client has, if it may be memory."""
    return await _answer(call, "git-receive-pack", partial(take_push, call.runtime, call.path["agent_id"]))


async def _answer(
    call: Call[NoQuery, Nothing], path: str, after: Callable[[], Awaitable[None]] | None = None
) -> Response:
    most = call.limits.body_bytes
    declared = call.request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        return PlainTextResponse(f"This server takes at most {most} bytes in one push.\n", 413)
    try:
        repository = await repository_for_clients(call.runtime, call.path["agent_id"])
        hooks: Path = await anyio.to_thread.run_sync(push_hooks, call.runtime.homes.folder)
    except EunoeError as error:
        # Git clients show the text of a failure to people if it is plain.
        found = failure(error)
        return PlainTextResponse(f"{error.message}\n", found.status, found.headers)
    asked = GitRequest(
        folder=repository.path,
        hooks=hooks,
        method=call.request.method,
        path=path,
        query=call.request.url.query,
        most_bytes=most,
    )
    return GitAnswer(asked, after)


def _line(
    method: Method, path: str, summary: str, handler: Callable[[Call[NoQuery, Nothing]], Awaitable[object]], answer: str
) -> Route:
    place = f"/v1/git/{{agent_id}}/state.git/{path}"
    return route(method, place, summary, handler, query=NoQuery, body=Nothing, answer=answer)


ROUTES: Final = (
    _line("GET", "info/refs", "Begin a clone, fetch or push of memory files", advertise, "git's list of references"),
    _line("POST", "git-upload-pack", "Fetch memory files with a git client", fetch, "git's pack of objects"),
    _line("POST", "git-receive-pack", "Push memory files with a git client", push, "git's report of the push"),
)
