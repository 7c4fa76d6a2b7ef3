"""Stores and model endpoints for tests of the runtime."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from chat_endpoint import MODEL, ChatEndpoint, chat_endpoint
from dying_process import Dying, dying_process
from runtime_rig import open_home

from eunoe.embedded import Agent, Home


@pytest.fixture(scope="module")
def dying() -> Iterator[Dying]:
    with dying_process() as running:
        yield running


@pytest.fixture
def endpoint() -> Iterator[ChatEndpoint]:
    with chat_endpoint() as running:
        yield running


@pytest.fixture
async def home(anyio_backend: str, tmp_path: Path, endpoint: ChatEndpoint) -> AsyncIterator[Home]:
    del anyio_backend
    async with open_home(tmp_path, endpoint.environment) as opened:
        yield opened


@pytest.fixture
async def agent(home: Home) -> Agent:
    """An agent that asks the test's endpoint."""
    return await home.create_agent(model=MODEL, memory={"human": "Likes maps.", "persona": "Kind."})


@pytest.fixture
async def scripted(home: Home) -> Agent:
    """An agent whose model does what the message says."""
    return await home.create_agent(model="scripted/demo", memory={"human": "Likes maps.", "persona": "Kind."})
