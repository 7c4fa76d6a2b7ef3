"""Who may talk to the server."""

from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from eunoe.server.auth import Guard, check_binding
from eunoe.server.serve import Binding
from eunoe.state.errors import InvalidInput


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def status(guard: Guard, path: str = "/v1/agents", **headers: str) -> int:
    sent: list[Message] = []
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {"type": "http", "path": path, "method": "GET", "headers": pairs}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await guard(scope, receive, send)
    return int(sent[0]["status"])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        ({"authorization": "Bearer secret"}, 200),
        ({"authorization": "bearer secret"}, 200),
        ({"authorization": "Bearer secre"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": "Basic secret"}, 401),
        ({"authorization": "Bearer s\u00e9cret"}, 401),
        ({"x_bare_password": "password secret"}, 200),
        ({"x_bare_password": "secret"}, 401),
        ({"x_bare_password": "password wrong"}, 401),
    ],
)
async def test_a_token_must_be_shown(headers: dict[str, str], expected: int):
    assert await status(Guard(hello, token="secret"), host="agents.example:443", **headers) == expected


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/v1/health", "/v1/health/"])
async def test_anyone_may_ask_whether_the_server_is_up(path: str):
    assert await status(Guard(hello, token="secret"), path, host="x") == 200


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:8283", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8283", 200),
        ("[::1]:8283", 200),
        ("box.local:1", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:8283", 403),
        ("localhost.evil.example", 403),
        ("", 403),
    ],
)
async def test_a_rebound_name_is_refused_without_a_token(host: str, expected: int):
    assert await status(Guard(hello, token=None, hosts=["box.local"]), host=host) == expected


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8283", 200),
        ("https://app.example", 200),
        ("https://evil.example", 403),
        ("http://localhost:9999", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_a_page_of_another_origin_may_not_ask(origin: str, expected: int):
    guard = Guard(hello, token=None, origins=["https://app.example/"])
    assert await status(guard, host="localhost:8283", origin=origin) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "localhost", "127.1.2.3"])
def test_loopback_needs_no_token(host: str):
    check_binding(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com", ""])  # noqa: S104
def test_an_open_address_needs_a_token(host: str):
    with pytest.raises(InvalidInput, match="EUNOE_TOKEN"):
        check_binding(host, None)
    check_binding(host, "secret")


def test_a_binding_does_not_print_its_token():
    assert "secret" not in repr(Binding(token="secret"))
