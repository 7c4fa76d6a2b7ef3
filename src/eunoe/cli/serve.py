"""``eunoe serve``: serve agents over HTTP."""

import logging
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import anyio
import click

from eunoe.cli.errors import BAD_INPUT, Failure
from eunoe.cli.opening import home_option, settings_of
from eunoe.runtime.runtime import open_runtime
from eunoe.runtime.settings import Settings, open_to_others
from eunoe.server.auth import is_loopback
from eunoe.server.serve import DEFAULT_PORT, Binding, PortInUse, configure_logging
from eunoe.server.serve import serve as serve_until_stopped

_log: Final = logging.getLogger(__name__)
_LEVELS: Final = ("debug", "info", "warning", "error")


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, envvar="EUNOE_HOST", help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    envvar="EUNOE_PORT",
    help="Port to listen on; 0 takes a free one.",
)
@home_option
@click.option(
    "--token",
    envvar="EUNOE_TOKEN",
    help="Secret that clients must show. EUNOE_TOKEN is safer: other users can see a command line.",
)
@click.option("--log", type=click.Choice(("text", "json")), default="text", show_default=True, help="Form of the log.")
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="Least level to log.")
def serve(
    host: str, port: int, home: Path | None, token: str | None, log: Literal["text", "json"], log_level: str
) -> None:
    """Serve agents over HTTP.

    Ctrl-C or SIGTERM ends it. An address that others can reach is refused without a token.
    """
    settings = settings_of(home) if is_loopback(host) else open_to_others(settings_of(home))
    binding = Binding(host=host, port=port, token=token or None)
    level = logging.getLevelNamesMapping()[log_level.upper()]
    configure_logging(json_lines=log == "json", level=level)
    run = partial(
        serve_until_stopped,
        partial(open_runtime, settings),
        binding,
        announce=partial(_announce, settings, settings.database.exists()),
        log_requests=level <= logging.DEBUG,
    )
    faster = {"use_uvloop": True} if find_spec("uvloop") else {}
    try:
        anyio.run(run, backend="asyncio", backend_options=faster)
    except PortInUse as error:
        raise Failure(error.message, BAD_INPUT) from error


def _announce(settings: Settings, was_there: bool, url: str) -> None:
    if not was_there:
        _log.warning(
            "there was no store at %s, so a new one was made; if your agents should be there, check EUNOE_HOME or "
            "--home, and where a container's volume is mounted",
            settings.database,
        )
    click.echo(f"Store: {settings.database}\nEunoe listens on {url}")
