"""The last words of a program: what it writes to its error stream is read away, and only the end is kept."""

import contextlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, TextIO

import anyio

_KEPT: Final = 2_000
"""Bytes of the end that are kept."""


class LastWords:
    """The end of what a program wrote to its error stream."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = bytearray()

    def text(self) -> str:
        """Return the last line that was written, or nothing."""
        while self.read():
            continue
        lines = self._kept.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def read(self) -> bool:
        """Read what is there without waiting, and say whether there was something."""
        try:
            piece = os.read(self._descriptor, 65_536)
        except OSError:  # nothing there now, or closed
            return False
        self._kept += piece
        del self._kept[:-_KEPT]
        return bool(piece)


@asynccontextmanager
async def error_stream() -> AsyncGenerator[tuple[TextIO, LastWords], None]:
    """Give a file that a program may write its errors to, and what is kept of them."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    words = LastWords(reading)

    async def drain() -> None:
        while True:
            await anyio.wait_readable(reading)
            if not words.read():
                return

    try:
        with os.fdopen(writing, "w") as file:
            async with anyio.create_task_group() as group:
                group.start_soon(drain)
                yield file, words
                group.cancel_scope.cancel()
    finally:
        with contextlib.suppress(OSError):
            os.close(reading)
