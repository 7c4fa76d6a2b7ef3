"""What a route is, and how a request reaches its handler.

One table of ``Route`` makes both the application and its OpenAPI document. Every path is served with and without a
trailing slash, and never by a redirect.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from eunoe.runtime.fresh_memory import follow_memory, follow_memory_of_block
from eunoe.runtime.runtime import Runtime
from eunoe.server.reading import body_bytes, body_value, path_values, query_values
from eunoe.server.wire.errors import UNKNOWN, Failure, failure
from eunoe.server.wire.requests import Nothing
from eunoe.state.errors import EunoeError

log: Final = logging.getLogger(__name__)

Q = TypeVar("Q", bound=Struct)
B = TypeVar("B", bound=Struct)

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of the server: bytes of a request body, and seconds of silence before a stream says that it lives."""

    body_bytes: int
    ping_seconds: float


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, B]):
    """A request that was read: path ids, query and body are checked and typed."""

    runtime: Runtime
    request: Request
    limits: Limits
    path: dict[str, str]
    query: Q
    body: B


Handler = Callable[[Call[Any, Any]], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Route:
    """A line of the table. ``answer`` says in words what comes back; ``summary`` what the call does.

    ``starts_turn`` says that the handler starts a turn, whose opening looks at the memory files itself.
    """

    method: Method
    path: str
    summary: str
    handler: Handler
    query: type[Struct]
    body: type[Struct]
    answer: str
    starts_turn: bool = False

    @property
    def tag(self) -> str:
        """The noun that the path is about."""
        segments = self.path.strip("/").split("/")
        return segments[1] if len(segments) > 1 else segments[0]


def route(
    method: Method,
    path: str,
    summary: str,
    handler: Callable[[Call[Q, B]], Awaitable[object]],
    *,
    query: type[Q],
    body: type[B],
    answer: str,
    starts_turn: bool = False,
) -> Route:
    """Return a line of the table; the handler's types must fit query and body."""
    return Route(method, path, summary, handler, query, body, answer, starts_turn)


def json_response(value: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer that is JSON."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def failure_response(found: Failure) -> Response:
    """Return the answer that says what went wrong."""
    return json_response(found.body, status=found.status, headers=found.headers)


def starlette_routes(table: Sequence[Route], limits: Limits) -> list[StarletteRoute]:
    """Return the routes of the application: fixed paths come before those with parameters."""
    by_path: dict[str, dict[str, Route]] = {}
    for line in table:
        by_path.setdefault(line.path, {})[line.method] = line
    routes: list[StarletteRoute] = []
    for path in sorted(by_path, key=_specificity):
        endpoint = _endpoint(by_path[path], limits)
        methods = list(by_path[path])
        routes.append(StarletteRoute(path, endpoint, methods=methods))
        if not path.endswith(":path}"):
            routes.append(StarletteRoute(f"{path}/", endpoint, methods=methods))
    return routes


def _specificity(path: str) -> tuple[tuple[bool, bool, str], ...]:
    return tuple((part.endswith(":path}"), part.startswith("{"), part) for part in path.split("/"))


def _endpoint(lines: dict[str, Route], limits: Limits) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        line = lines["GET" if request.method == "HEAD" else request.method]
        try:
            return await _serve(line, request, limits)
        except EunoeError as error:
            found = failure(error)
            if found.status >= 500:
                log.warning("%s %s: %s", request.method, line.path, error.message)
            return failure_response(found)
        except Exception:
            # The outermost boundary of a request: a bug is told to the log, and to the client without its innards.
            log.exception("%s %s failed", request.method, line.path)
            return json_response(UNKNOWN, status=500)

    return endpoint


async def _serve(line: Route, request: Request, limits: Limits) -> Response:
    path = path_values(request.path_params)
    query = query_values(request, line.query)
    raw = b"" if line.body is Nothing else await body_bytes(request, limits.body_bytes)
    body = body_value(raw, line.body)
    call: Call[Any, Any] = Call(request.app.state.runtime, request, limits, path, query, body)
    if line.method != "DELETE" and not line.starts_turn:
        await _follow_files(call.runtime, path)
    result = await line.handler(call)
    return result if isinstance(result, Response) else json_response(result)


async def _follow_files(runtime: Runtime, path: dict[str, str]) -> None:
    """Let what is asked about be as the memory files of the agent are now, whoever committed to them."""
    if "agent_id" in path:
        await follow_memory(runtime, path["agent_id"])
    elif "block_id" in path:
        await follow_memory_of_block(runtime, path["block_id"])
