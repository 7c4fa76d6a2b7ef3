"""The application: routes, guard, and a runtime that is open for as long as it serves."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from eunoe.runtime.reflecting import reflecting
from eunoe.runtime.runtime import Runtime
from eunoe.server.auth import Guard
from eunoe.server.docs_page import docs_response
from eunoe.server.openapi import document
from eunoe.server.reading import DEFAULT_BODY_LIMIT
from eunoe.server.route_index import RouteIndex
from eunoe.server.routes.table import ROUTES
from eunoe.server.routing import Limits, json_response, starlette_routes

PING_SECONDS: Final = 20.0
"""Seconds of silence after which a stream says that it lives (Letta v1's interval)."""

OpenRuntime = Callable[[], AbstractAsyncContextManager[Runtime]]


def create_app(
    open_runtime: OpenRuntime,
    *,
    token: str | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    body_limit: int = DEFAULT_BODY_LIMIT,
    ping_seconds: float = PING_SECONDS,
) -> Starlette:
    """Return the application. It opens the runtime when it starts and closes it when it stops.

    ``token`` is what clients must show; without one only requests that ask for this machine by a loopback name (or
    one of ``hosts``) are served. ``origins`` are the web origins whose pages may ask. ``body_limit`` is in bytes.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        async with open_runtime() as runtime, reflecting(runtime):
            app.state.runtime = runtime
            yield

    described = document(ROUTES)

    async def openapi(request: Request) -> Response:
        del request
        return json_response(described)

    async def docs(request: Request) -> Response:
        del request
        return docs_response(ROUTES, described)

    limits = Limits(body_bytes=body_limit, ping_seconds=ping_seconds)
    app = Starlette(
        routes=[
            RouteIndex(starlette_routes(ROUTES, limits)),
            StarletteRoute("/openapi.json", openapi),
            *(StarletteRoute(path, docs) for path in ("/docs", "/docs/")),
        ],
        middleware=[Middleware(Guard, token=token, hosts=hosts, origins=origins)],
        exception_handlers={HTTPException: _plain},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


async def _plain(request: Request, error: Exception) -> Response:
    """Answer unknown paths and methods in JSON."""
    del request
    if not isinstance(error, HTTPException):
        raise error
    return json_response(
        {"detail": error.detail}, status=error.status_code, headers=dict(error.headers) if error.headers else None
    )
