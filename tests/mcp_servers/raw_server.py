"""An MCP server on loopback that misbehaves as it is told: in SSE form at ``/sse``, over streamable HTTP at ``/mcp``.

It speaks just enough of the protocol to be believed, and writes its answers itself, so that they can be cut.
"""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT = 30.0
MODERN = "2026-07-28"
STAMP: Any = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
ECHO: Any = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


class RawMcp(ThreadingHTTPServer):
    """What tests hold. ``tools`` is what it lists; ``behave`` says what a method gets instead of a good answer.

    Behaviours: ``cut`` (JSON that stops in the middle of a string, then silence), ``cut-end`` (the same, and the
    connection ends), ``hang``, ``end`` (the connection ends without an answer), or a status of HTTP, with what the
    server says after a colon. Calls wait for each other at the ``meeting``, if there is one. A ``modern`` server knows
    no handshake (protocol of 2026-07-28).
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tools: list[Any] = [ECHO]
        self.behave: dict[str, str] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.session = "one"
        self.modern = False
        self.meeting: threading.Barrier | None = None
        self.page: int | None = None
        self.streams: dict[str, queue.Queue[bytes | None]] = {}
        self.released = threading.Event()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def result(self, method: str, params: Any) -> Any:
        """Return the good answer."""
        if method == "server/discover":
            return {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, **STAMP}
        if self.modern and method == "tools/list":
            return {**self._listed(0), **STAMP}
        if method == "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            }
        if method == "tools/list":
            return self._listed(int((params or {}).get("cursor") or 0))
        kind = {"resultType": "complete"} if self.modern else {}
        return {"content": [{"type": "text", "text": params["arguments"].get("text", "")}], **kind}

    def _listed(self, begin: int) -> Any:
        if self.page is None:
            return {"tools": self.tools}
        end = begin + self.page
        more = {"nextCursor": str(end)} if end < len(self.tools) else {}
        return {"tools": self.tools[begin:end], **more}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away: that is what tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def raw(self) -> RawMcp:
        assert isinstance(self.server, RawMcp)
        return self.server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Say nothing."""

    def _begin(self, kind: str, *, length: int | None = None, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        if length is None:
            self.close_connection = True
            self.send_header("connection", "close")
        else:
            self.send_header("content-length", str(length))
        self.send_header("mcp-session-id", self.raw.session)
        self.end_headers()

    def _plain(self, status: int, body: bytes = b"") -> None:
        self._begin("text/plain", length=len(body), status=status)
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path != "/sse":
            self._plain(405)
            return
        if (status := self.raw.behave.get("connect", "")).isdigit():
            self._plain(int(status))
            return
        name = str(len(self.raw.streams))
        stream = self.raw.streams[name] = queue.Queue[bytes | None]()
        self._begin("text/event-stream")
        if self.raw.behave.get("connect") != "hang":
            self.wfile.write(f"event: endpoint\ndata: /messages?stream={name}\n\n".encode())
        while (piece := stream.get(timeout=WAIT)) is not None:
            self.wfile.write(piece)
            self.wfile.flush()

    def do_DELETE(self) -> None:
        self._plain(200)

    def _outcome(self, method: str, params: Any) -> dict[str, Any]:
        if self.raw.modern and method == "initialize":
            data = {"supported": [MODERN], "requested": params["protocolVersion"]}
            return {"error": {"code": -32022, "message": "Unsupported protocol version", "data": data}}
        if not self.raw.modern and method == "server/discover":
            return {"error": {"code": -32601, "message": "Method not found"}}
        return {"result": self.raw.result(method, params)}

    def _refuse(self, status: int, words: str) -> None:
        told = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": words}}
        text = json.dumps(told).encode() if words else b""
        self._begin("application/json" if words else "text/plain", length=len(text), status=status)
        self.wfile.write(text)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = body["method"]
        self.raw.asked.append(method)
        self.raw.headers.append({name.lower(): value for name, value in self.headers.items()})
        given = self.headers.get("mcp-session-id")
        if given not in (None, self.raw.session):
            self._plain(404)
            return
        if "id" not in body:
            self._plain(202)
            return
        if method == "tools/call" and self.raw.meeting is not None:
            self.raw.meeting.wait()
        how = self.raw.behave.get(method, "")
        if how[:3].isdigit():
            self._refuse(int(how[:3]), how[4:])
            return
        answer = {"jsonrpc": "2.0", "id": body["id"], **self._outcome(method, body.get("params"))}
        text = json.dumps(answer)
        if how.startswith("cut"):
            text = text[: text.rindex('"') - 2]
        event = f"event: message\ndata: {text}\n\n".encode()
        if self.path.startswith("/messages"):
            self._plain(202)
            stream = self.raw.streams[self.path.partition("stream=")[2]]
            if how not in ("hang", "end"):
                stream.put(event)
            if how in ("cut-end", "end"):
                stream.put(None)
            return
        if how == "hang":
            self.raw.released.wait(WAIT)
        self._begin("text/event-stream")
        if how != "end":
            self.wfile.write(event)
        self.wfile.flush()
        if how == "cut":
            self.raw.released.wait(WAIT)


@contextmanager
def raw_mcp() -> Iterator[RawMcp]:
    """Serve for as long as the block lasts."""
    with RawMcp() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            for stream in server.streams.values():
                stream.put(None)
            server.shutdown()
            thread.join(WAIT)
