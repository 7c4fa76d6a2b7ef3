"""A model endpoint in OpenAI's form that answers at once and knows how long it took itself.

It runs in a thread of the bench, which waits for the turn anyway, and speaks just enough HTTP for one client.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

MODEL: Final = "openai/bench"


def _event(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


_TEXT: Final = "Maps it is. What would you like to look at first?"
_BODY: Final = b"".join(
    (
        _event({"choices": [{"index": 0, "delta": {"content": _TEXT}, "finish_reason": None}]}),
        _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        _event({"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 14}}),
        b"data: [DONE]\n\n",
    )
)
_ANSWER: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: " + str(len(_BODY)).encode() + b"\r\n\r\n"
) + _BODY
_LISTED: Final = msgspec.json.encode({"data": [{"id": MODEL.partition("/")[2], "object": "model"}]})
_LIST: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
    + str(len(_LISTED)).encode()
    + b"\r\n\r\n"
    + _LISTED
)


class ModelEndpoint:
    """The running endpoint. ``took`` is its own time for its last answer, in seconds."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.base_url: Final = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"
        self.took = 0.0

    def serve(self) -> None:
        """Answer connection after connection until the endpoint is closed."""
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return  # closed: the bench is over
            threading.Thread(target=self._answer_all, args=(connection,), daemon=True).start()

    def _answer_all(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while head_and_body := _request(connection):
                began = time.perf_counter()
                connection.sendall(_LIST if head_and_body.startswith(b"GET") else _ANSWER)
                self.took = time.perf_counter() - began

    def close(self) -> None:
        """Take no more connections."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


def _request(connection: socket.socket) -> bytes:
    """Read one request with its body; nothing when the client has left."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = connection.recv(65_536)
        if not piece:
            return b""
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def model_endpoint() -> Iterator[ModelEndpoint]:
    """Run an endpoint on a free port of loopback."""
    endpoint = ModelEndpoint()
    thread = threading.Thread(target=endpoint.serve, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.close()
        thread.join(5)
