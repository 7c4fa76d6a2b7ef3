"""A connection for loads: asynchronous, and cheap enough that a thousand of them do not starve the server's cores."""

from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

TIMEOUT = 600.0
"""Seconds that an answer may take: a thousand turns may wait before it."""


class Connection:
    """One connection that is kept. It understands answers with a content length, which all of ours have."""

    def __init__(self, host: str, stream: SocketStream) -> None:
        self._host = host
        self._stream = stream
        self._reading = BufferedByteReceiveStream(stream)

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect to the server of this URL."""
        parts = urlsplit(url)
        return cls(parts.netloc, await anyio.connect_tcp(parts.hostname or "", parts.port or 80))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.aclose()

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a JSON body and return the answer's. Raises ``RuntimeError`` when it is not a 200."""
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        with anyio.fail_after(TIMEOUT):
            await self._stream.send(head.encode() + body)
            answered = (await self._reading.receive_until(b"\r\n\r\n", 65_536)).decode()
            lines = answered.lower().split("\r\n")
            length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
            answer = await self._reading.receive_exactly(length)
        if lines[0].split()[1] != "200":
            raise RuntimeError(f"POST {path} was answered with {lines[0]}: {answer.decode()[:500]}")
        return answer
