"""A client that costs next to nothing: one connection that is kept, blocking, from the standard library."""

import http.client
import time
from typing import Any
from urllib.parse import urlsplit

import msgspec

TIMEOUT = 60.0
"""Seconds that an answer may take."""


class Client:
    """One connection to a server on loopback."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT)

    def exchange(self, method: str, path: str, body: bytes | None = None) -> tuple[float, bytes]:
        """Ask, and return the seconds until the whole answer was there, and the answer."""
        began = time.perf_counter()
        self._connection.request(method, path, body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        took = time.perf_counter() - began
        if response.status != 200:
            raise RuntimeError(f"{method} {path} was answered with {response.status}: {answer.decode()[:500]}")
        return took, answer

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask with a JSON value and return the JSON value of the answer."""
        sent = None if body is None else msgspec.json.encode(body)
        return msgspec.json.decode(self.exchange(method, path, sent)[1])


def new_agent(client: Client, model: str, **fields: Any) -> str:
    """Make an agent with the two blocks that every figure is about, and return its id."""
    blocks = [{"label": "human", "value": "Likes maps and tea."}, {"label": "persona", "value": "I am careful."}]
    return str(client.call("POST", "/v1/agents/", {"model": model, "memory_blocks": blocks, **fields})["id"])
