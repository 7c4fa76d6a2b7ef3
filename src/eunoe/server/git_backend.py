"""Serving one repository to a git client: ``git http-backend`` as a CGI program, streamed both ways.

The program sees an environment made here and nothing of the server's: no keys, no settings of the user or the machine,
no hooks but ours. It can reach the one repository, and of that branches and tags only.
"""

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from eunoe.state.errors import EunoeError

log: Final = logging.getLogger(__name__)

Service = Literal["git-upload-pack", "git-receive-pack"]
"""What a client wants: to fetch, or to push."""

SECONDS: Final = 600.0
"""How long one request of a git client may take."""

_TALK: Final = 1024 * 1024
"""Bytes that a client may say beside the pack of a push: which references, and what it has."""

_MOST_HEADERS: Final = 16 * 1024
_PROTOCOL: Final = re.compile(r"version=[0-9]")

_CONFIGURATION: Final = (
    ("safe.directory", "*"),
    ("http.receivepack", "true"),
    ("http.getanyfile", "false"),
    ("uploadpack.allowFilter", "true"),
    ("transfer.hideRefs", "refs"),
    ("transfer.hideRefs", "!refs/heads"),
    ("transfer.hideRefs", "!refs/tags"),
    ("transfer.fsckObjects", "true"),
    ("receive.denyNonFastForwards", "true"),
    ("receive.denyDeleteCurrent", "refuse"),
    ("receive.denyCurrentBranch", "ignore"),
    ("receive.autogc", "false"),
    ("core.fsync", "committed,reference"),
)
"""The working tree follows main after the push, so git need not refuse a push to the branch that is checked out."""


class GitRequest(Struct, frozen=True, kw_only=True):
    """One request of a git client. ``hooks`` is the folder of the hooks to run; ``most_bytes`` bounds the body."""

    folder: Path
    hooks: Path
    method: str
    path: str
    query: str
    most_bytes: int


def environment(request: GitRequest, headers: Headers) -> dict[str, str]:
    """Return the environment of the CGI program (RFC 3875)."""
    settings = (*_CONFIGURATION, ("core.hooksPath", str(request.hooks)), ("receive.maxInputSize", request.most_bytes))
    variables = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C.UTF-8",
        "HOME": str(request.hooks),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_PROJECT_ROOT": str(request.folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "MEMORY_PYTHON": sys.executable,
        "PATH_INFO": f"/.git/{request.path}",
        "QUERY_STRING": request.query,
        "REQUEST_METHOD": request.method,
        "REMOTE_USER": "eunoe",
        "GIT_COMMITTER_NAME": "Eunoe",
        "GIT_COMMITTER_EMAIL": "eunoe@eunoe.local",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for number, (key, value) in enumerate(settings):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = str(value)
    for variable, name in (
        ("CONTENT_TYPE", "content-type"),
        ("CONTENT_LENGTH", "content-length"),
        ("HTTP_CONTENT_ENCODING", "content-encoding"),
    ):
        if name in headers:
            variables[variable] = headers[name]
    if _PROTOCOL.fullmatch(protocol := headers.get("git-protocol", "")):
        variables["GIT_PROTOCOL"] = protocol
    return variables


class GitAnswer(Response):
    """The answer of git itself. ``after`` is awaited once git has ended well, before the client is told that it has."""

    def __init__(self, request: GitRequest, after: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self._request = request
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run git until it ends, for at most ``SECONDS``."""
        variables = environment(self._request, Headers(scope=scope))
        telling = _Telling(send)
        with anyio.move_on_after(SECONDS) as bound:
            async with await anyio.open_process(
                ["git", "http-backend"], env=variables, cwd="/", stderr=subprocess.PIPE, start_new_session=True
            ) as process:
                try:
                    refused = await self._exchange(process, receive, telling)
                    code = await process.wait()
                finally:
                    if process.returncode is None:
                        os.killpg(process.pid, signal.SIGKILL)  # git's own children as well
            if code != 0:
                log.warning("git http-backend for %s ended with %d", self._request.folder.name, code)
            if refused is not None:
                await telling.refuse(*refused)
                return
            await self._follow_up()
            await telling.end()
        if bound.cancelled_caught:
            await telling.refuse(504, f"git did not end within {SECONDS:g} seconds.")

    async def _exchange(self, process: Process, receive: Receive, telling: "_Telling") -> tuple[int, str] | None:
        """Move the body to git and its answer to the client; return a status and a sentence if it was cut off."""
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise AssertionError("the program was started with pipes")
        # Git itself refuses a pack that is too large, in words that its client shows; this bound is for the rest.
        body = _Body(receive, self._request.most_bytes + _TALK)
        async with anyio.create_task_group() as tasks, anyio.create_task_group() as feeding:
            tasks.start_soon(_log_errors, process.stderr, self._request.folder.name)
            feeding.start_soon(body.feed, process.stdin)
            await _answer(process.stdout, telling)
            # Git is done; what is left of the body is nobody's.
            feeding.cancel_scope.cancel()
        return body.refused

    async def _follow_up(self) -> None:
        if self._after is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                await self._after()
            except EunoeError as error:
                log.warning("a push to %s is taken up later: %s", self._request.folder.name, error.message)


class _Body:
    """The body of a request on its way to git. ``refused`` says why it was not let through whole."""

    def __init__(self, receive: Receive, most_bytes: int) -> None:
        self._receive = receive
        self._left = most_bytes
        self._most = most_bytes
        self.refused: tuple[int, str] | None = None

    async def feed(self, stdin: ByteSendStream) -> None:
        """Pass the body on; at its end, or where it is cut off, git sees the end of its input."""
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    self.refused = (400, "The client left in the middle of its request.")
                    break
                chunk: bytes = message.get("body", b"")
                self._left -= len(chunk)
                if self._left < 0:
                    self.refused = (413, f"This server takes at most {self._most} bytes in one push.")
                    break
                if chunk:
                    await stdin.send(chunk)
                if not message.get("more_body", False):
                    break
        except anyio.BrokenResourceError:
            return  # git wants no more, and has said in its answer why
        await stdin.aclose()


class _Telling:
    """An answer on its way to the client: begun once, ended once."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False

    async def begin(self, status: int, headers: Mapping[bytes, bytes]) -> None:
        self._begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers.items())})

    async def tell(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        if not self._begun:
            await self.refuse(500, "git gave no answer; the server's log says why.")
            return
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def refuse(self, status: int, sentence: str) -> None:
        """Say why there is no answer of git's, in the type that git clients show; one that has begun just ends."""
        if self._begun:
            await self.end()
            return
        await self.begin(status, {b"content-type": b"text/plain; charset=utf-8"})
        await self._send({"type": "http.response.body", "body": f"{sentence}\n".encode(), "more_body": False})


async def _answer(stdout: ByteReceiveStream, telling: _Telling) -> None:
    head = b""
    begun = False
    async for chunk in stdout:
        if begun:
            await telling.tell(chunk)
            continue
        head += chunk
        end = head.find(b"\r\n\r\n")
        if end < 0:
            if len(head) > _MOST_HEADERS:
                return
            continue
        await telling.begin(*_head(head[:end]))
        begun = True
        if head[end + 4 :]:
            await telling.tell(head[end + 4 :])


def _head(raw: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Read the header of a CGI answer: the status is a field of it."""
    fields: dict[bytes, bytes] = {}
    status = 200
    for line in raw.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"status":
            status = int(value.split()[0])
        else:
            fields[name.lower()] = value.strip()
    return status, fields


async def _log_errors(stderr: ByteReceiveStream, name: str) -> None:
    said = b""
    async for chunk in stderr:
        said = (said + chunk)[-2_000:]
    if said.strip():
        log.info("git http-backend for %s said: %s", name, said.decode("utf-8", "replace").strip())
