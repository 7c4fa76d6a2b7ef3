"""What all tests share."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from model_servers.anthropic_server import anthropic_server as make_anthropic_server
from model_servers.control import ModelServer
from model_servers.openai_server import openai_server as make_openai_server

# How long an example takes depends on what else the machine does; pytest's own timeout bounds the whole.
settings.register_profile("eunoe", deadline=None)
settings.load_profile("eunoe")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of the property tests here, so that each run can tell it."""
    if config.option.hypothesis_seed is None:
        given = getattr(config, "workerinput", {}).get("hypothesis_seed")
        config.option.hypothesis_seed = given or str(secrets.randbelow(2**32))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give the seed to each worker of a parallel run."""
    node.workerinput["hypothesis_seed"] = node.config.option.hypothesis_seed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell the seed, whatever the outcome."""
    terminalreporter.write_line(f"Property tests: repeat with --hypothesis-seed={config.option.hypothesis_seed}")


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, as the program does."""
    return "asyncio"


@pytest.fixture(scope="session")
def running_openai_server() -> Iterator[ModelServer]:
    server = make_openai_server()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def running_anthropic_server() -> Iterator[ModelServer]:
    server = make_anthropic_server()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def openai_server(running_openai_server: ModelServer) -> Iterator[ModelServer]:
    """A model server in OpenAI's form, on loopback, with nothing in its memory."""
    running_openai_server.reset()
    yield running_openai_server
    running_openai_server.release()


@pytest.fixture
def anthropic_server(running_anthropic_server: ModelServer) -> Iterator[ModelServer]:
    """A model server in Anthropic's form, on loopback, with nothing in its memory."""
    running_anthropic_server.reset()
    yield running_anthropic_server
    running_anthropic_server.release()
