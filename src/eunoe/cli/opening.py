"""A command's way to the runtime: an event loop on a thread of its own, and plain calls into it.

The main thread stays free for what belongs to it: line editing, drawing, and Ctrl-C.
"""

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import click
from anyio.from_thread import BlockingPortal, start_blocking_portal

from eunoe.runtime.runtime import Runtime, open_runtime
from eunoe.runtime.settings import Settings, settings_from
from eunoe.store.database import Transaction

T = TypeVar("T")

home_option = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the store. Default: EUNOE_HOME, else ~/.eunoe.",
)
"""The option that every command has which opens a store."""

json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON for programs.")


class Door:
    """An open runtime. Use it from the main thread only; ``runtime`` itself belongs to the loop's thread."""

    def __init__(self, portal: BlockingPortal, runtime: Runtime) -> None:
        self.portal: Final = portal
        self.runtime: Final = runtime

    def call(self, work: Callable[[Runtime], Awaitable[T]]) -> T:
        """Run async work on the runtime, wait for it, and return or raise what it does. Ctrl-C cancels it."""
        future = self.portal.start_task_soon(work, self.runtime)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run a reading transaction on the store."""
        return self.portal.call(self.runtime.db.read, work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run a writing transaction on the store."""
        return self.portal.call(self.runtime.db.write, work)


def settings_of(home: Path | None) -> Settings:
    """Return the settings of this process's environment. Raises ``InvalidInput``."""
    return settings_from(os.environ, home)


@contextmanager
def opened(home: Path | None) -> Generator[Door]:
    """Open the store and its runtime for one command. Raises ``InvalidInput`` and ``StoreError``."""
    settings = settings_of(home)
    # A failed run is told to the user by the command itself; a fault of the program belongs on stderr.
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(name)s: %(message)s")
    with start_blocking_portal(backend="asyncio") as portal:
        opening = portal.wrap_async_context_manager(open_runtime(settings))
        runtime = opening.__enter__()
        try:
            yield Door(portal, runtime)
        finally:
            # What the command raised is none of the runtime's business: it closes as after any other command.
            opening.__exit__(None, None, None)
