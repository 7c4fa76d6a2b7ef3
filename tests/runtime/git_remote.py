"""Git remotes as mirrors meet them: bare repositories on the disk, and an HTTP server that does what it is told."""

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal, cast

Mood = Literal["git", "password", "broken", "silent"]

NAME, PASSWORD = "ada", "s3cr3t-pass"


def bare(folder: Path) -> Path:
    """Make an empty repository."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(folder)], check=True, timeout=60)
    subprocess.run(["git", "-C", str(folder), "config", "http.receivepack", "true"], check=True, timeout=60)
    return folder


class GitServer(ThreadingHTTPServer):
    """Serves the repositories of a folder by ``git http-backend``, in one of several moods."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder = folder
        self.mood: Mood = "git"
        self.release = threading.Event()
        self.asked = threading.Event()
        super().__init__(("127.0.0.1", port), _Handler)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the library calls it by
        del format, args

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        server = cast("GitServer", self.server)
        server.asked.set()
        if server.mood == "silent":
            server.release.wait(60)
            self.close_connection = True
        elif server.mood == "broken":
            self.send_error(503)
        elif server.mood == "password" and not self._knows_password():
            self.send_response(401)
            self.send_header("www-authenticate", 'Basic realm="git"')
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            self._git(server.folder)

    def _knows_password(self) -> bool:
        expected = base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
        return self.headers.get("authorization") == f"Basic {expected}"

    def _git(self, folder: Path) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": str(folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, timeout=60, check=False
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        fields = [line.partition(b": ")[::2] for line in head.split(b"\r\n")]
        status = next((int(value.split()[0]) for name, value in fields if name.lower() == b"status"), 200)
        self.send_response(status)
        for name, value in fields:
            self.send_header(name.decode(), value.decode())
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@contextmanager
def git_server(folder: Path, port: int = 0) -> Iterator[GitServer]:
    """Serve the repositories of a folder until the block ends."""
    server = GitServer(folder, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join(20)
