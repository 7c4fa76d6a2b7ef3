"""A real server on a free port, in a thread of its own, with the scripted model."""

import concurrent.futures
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.from_thread import start_blocking_portal
from letta_client import Letta

from eunoe.runtime.runtime import open_runtime
from eunoe.runtime.settings import Settings
from eunoe.server.serve import Binding, serve

START_BOUND = 20
"""Seconds that a server may take to start or to stop."""

Served = Callable[..., Any]


@contextmanager
def serving(home: Path, *, token: str | None = None, **options: Any) -> Generator[str, None, None]:
    """Serve the store in ``home`` and give the address. ``settings`` among the options are those of the store."""
    settings = Settings(home=home, **options.pop("settings", {}))
    address: concurrent.futures.Future[str] = concurrent.futures.Future()
    with start_blocking_portal() as portal:
        stop = portal.call(anyio.Event)

        async def run() -> None:
            await serve(
                lambda: open_runtime(settings),
                Binding(port=0, token=token),
                announce=address.set_result,
                stop=stop,
                **options,
            )

        task = portal.start_task_soon(run)
        try:
            both: set[concurrent.futures.Future[Any]] = {address, task}
            concurrent.futures.wait(both, START_BOUND, concurrent.futures.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield address.result(0)
        finally:
            portal.call(stop.set)
            task.result(START_BOUND)


@pytest.fixture(scope="session")
def serve_home() -> Served:
    """``with serve_home(folder) as url`` serves a store of the test's own."""
    return serving


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that the tests share; each works on agents of its own."""
    with serving(tmp_path_factory.mktemp("home"), body_limit=200_000) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[Letta]:
    """The official client."""
    with Letta(base_url=url, api_key="none", max_retries=0, timeout=20) as opened:
        yield opened


@pytest.fixture
def http(url: str) -> Iterator[httpx2.Client]:
    """A plain HTTP client that presents itself as a client of the 1.x format."""
    with httpx2.Client(base_url=url, headers={"user-agent": "letta-client/1.12.1"}, timeout=20) as opened:
        yield opened


@pytest.fixture
def agent_id(http: httpx2.Client) -> str:
    """A fresh agent with two blocks."""
    body = {
        "model": "scripted/demo",
        "name": "wire example",
        "tags": ["example"],
        "memory_blocks": [
            {"label": "human", "value": "Likes maps."},
            {"label": "persona", "value": "I am careful."},
        ],
    }
    answer = http.post("/v1/agents/", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])
