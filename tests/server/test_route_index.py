"""Finding a route through the index answers as trying the whole table in its order does."""

import itertools
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Message, Scope

from eunoe.server.route_index import RouteIndex
from eunoe.server.routes.table import ROUTES
from eunoe.server.routing import Limits, starlette_routes

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
VALUES: Final = ("agent-1", "", "blocks", "messages", "stream", "files", "a/b", "a//b/", "{agent_id}", "%2F", "é ")
"""What may stand for a parameter: other routes' fixed words too, and what a client's encoded slash becomes."""


def echo(path: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return JSONResponse({"route": path, "params": request.path_params})

    return endpoint


def table() -> list[Route]:
    """Every route of the server in its order, with an endpoint that says which one it is."""
    routes = starlette_routes(ROUTES, Limits(body_bytes=1, ping_seconds=1))
    return [Route(one.path, echo(one.path), methods=sorted(one.methods or ())) for one in routes]


def router(routes: Sequence[BaseRoute]) -> Router:
    return Router(routes, redirect_slashes=False)


PLAIN: Final = router(table())
INDEXED: Final = router([RouteIndex(table())])
SEGMENTS: Final = sorted({segment for one in ROUTES for segment in one.path.split("/") if "{" not in segment})


async def answer(app: Router, method: str, path: str) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Message] = []
    scope: Scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": [], "query_string": b""}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def paths_of(template: str) -> Iterator[str]:
    """Concrete paths of a route, and some that are nearly so."""
    parameters = re.findall(r"\{[^}]*\}", template)
    for values in itertools.product(VALUES, repeat=len(parameters)):
        path = template
        for parameter, value in zip(parameters, values, strict=True):
            path = path.replace(parameter, value, 1)
        yield from (path, f"{path}/", f"{path}//", f"/{path}", f"{path}/more", path.removeprefix("/v1"), path.upper())


@pytest.mark.anyio
@pytest.mark.parametrize("template", sorted({one.path for one in ROUTES}))
async def test_each_route_answers_as_without_the_index(template: str) -> None:
    found = 0
    for number, path in enumerate(paths_of(template)):
        method = METHODS[number % len(METHODS)]
        expected = await answer(PLAIN, method, path)
        assert await answer(INDEXED, method, path) == expected, (method, path)
        found += expected[0] == 200
    example = re.sub(r"\{[^}]*\}", "x", template)
    for method in METHODS:
        expected = await answer(PLAIN, method, example)
        assert await answer(INDEXED, method, example) == expected, (method, example)
        found += expected[0] == 200
    assert found


@pytest.mark.anyio
@given(
    method=st.sampled_from(METHODS),
    segments=st.lists(st.sampled_from([*SEGMENTS, *VALUES]) | st.text("abé/{}:%. ", max_size=4), max_size=9),
)
async def test_any_path_answers_as_without_the_index(method: str, segments: list[str]) -> None:
    path = "/" + "/".join(segments)
    assert await answer(INDEXED, method, path) == await answer(PLAIN, method, path)


@pytest.mark.anyio
async def test_a_line_break_after_a_path_makes_it_another_path() -> None:
    assert (await answer(INDEXED, "GET", "/v1/agents\n"))[0] == 404
