"""A model endpoint for tests of the runtime: it speaks OpenAI's chat completions over real HTTP on loopback.

A test says beforehand what it answers, request by request; what it received is kept byte for byte. An answer can wait
in the middle until the test lets it go on, so that a test never has to guess how far a turn has come.
"""

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from msgspec import Struct

MODEL: Final = "openai/gpt-test"
_HOLD_BOUND: Final = 20.0
"""Seconds after which a held answer goes on by itself."""


class Asked(Struct, frozen=True):
    """A tool call in an answer, with the id that the model gives it."""

    id: str
    name: str
    arguments: str = "{}"


class Answer(Struct, frozen=True, kw_only=True):
    """What the endpoint answers to one request.

    The pieces of ``text`` are sent one by one; with ``hold`` the answer then waits for that event. With ``cut`` the
    connection ends before the answer does. A ``status`` other than 200 is an error with ``message``.
    """

    text: tuple[str, ...] = ()
    calls: tuple[Asked, ...] = ()
    finish: str = "stop"
    hold: threading.Event | None = None
    cut: bool = False
    status: int = 200
    message: str = ""
    raw: bytes | None = None
    """These bytes as they are, instead of all else."""


def insert(call_id: str, text: str, label: str = "human") -> Asked:
    """Return a call that adds a line to a block."""
    return Asked(call_id, "memory_insert", json.dumps({"label": label, "new_string": text}))


class ChatEndpoint:
    """The running endpoint. ``received`` holds the bodies of the chat requests, in order; ``asked``: there is one."""

    def __init__(self, base_url: str) -> None:
        self.environment: Final = {"OPENAI_BASE_URL": base_url}
        self.received: Final[list[bytes]] = []
        self.asked: Final = threading.Event()
        self._answers: Final[deque[Answer]] = deque()
        self._gate: Final = threading.Lock()

    def answers(self, *answers: Answer) -> None:
        """Add answers for the requests to come; when none is left, the endpoint says "Fine."."""
        self._answers.extend(answers)

    def take(self, body: bytes) -> Answer:
        """Keep a request's body and return what to answer."""
        with self._gate:
            self.received.append(body)
            self.asked.set()
            return self._answers.popleft() if self._answers else Answer(text=("Fine.",))

    def requests(self) -> list[dict[str, Any]]:
        """Return the bodies of the chat requests as values."""
        return [json.loads(body) for body in self.received]


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _chunks(answer: Answer) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": call.arguments}
        yield _chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
    yield _chunk({}, "tool_calls" if answer.calls else answer.finish)
    yield {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint: Final = ChatEndpoint(f"http://127.0.0.1:{self.server_address[1]}/v1")


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        """Say nothing on standard error."""

    def do_GET(self) -> None:
        self._send_json(200, {"data": [{"id": MODEL.partition("/")[2], "object": "model"}]})

    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        answer = self.server.endpoint.take(self.rfile.read(int(self.headers["content-length"])))
        if answer.status != 200:
            self._send_json(answer.status, {"error": {"message": answer.message}})
            return
        try:
            self._stream(answer)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client has left, as a cancelled turn does

    def _send_json(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, answer: Answer) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if answer.raw is not None:
            self.wfile.write(answer.raw)
            return
        for piece in answer.text:
            self._event(_chunk({"content": piece}))
        if answer.hold is not None:
            answer.hold.wait(_HOLD_BOUND)
        if answer.cut:
            return
        for chunk in _chunks(answer):
            self._event(chunk)
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, value: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()


@contextmanager
def chat_endpoint() -> Iterator[ChatEndpoint]:
    """Run an endpoint on a free port of loopback."""
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.endpoint
        finally:
            server.shutdown()
            thread.join()
