"""``eunoe doctor``: is everything there that an agent needs, and if not, what to do."""

import logging
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import click

from eunoe.cli.checks import Check
from eunoe.cli.errors import FAILED
from eunoe.cli.machine_checks import machine_checks
from eunoe.cli.mcp_checks import mcp_checks
from eunoe.cli.model_checks import model_checks, provider_check
from eunoe.cli.opening import home_option, json_option, settings_of
from eunoe.cli.tables import write_json
from eunoe.cli.terminal import Style, printable, wants_colour
from eunoe.models.providers import SCRIPTED, Provider
from eunoe.models.registry import ModelRegistry
from eunoe.runtime.settings import Settings

_SECONDS: Final = 60.0
_LONGEST: Final = 3600.0


@click.command()
@home_option
@click.option("--model", "handles", metavar="HANDLE", multiple=True, help="Check this model; may be repeated.")
@click.option("--probe", is_flag=True, help="Send one prompt that fills most of the model's window.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, _LONGEST),
    default=_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="The longest that one check may take.",
)
@json_option
def doctor(home: Path | None, handles: tuple[str, ...], probe: bool, timeout: float, as_json: bool) -> None:
    """Check this machine, the store and the models.

    Each check says what to do about what it finds wrong. MCP servers are asked for their tools. Without --model, every
    configured provider is checked by the first model that it has. Models are asked two short questions, which hosted
    providers charge for. Nothing is changed, and no key is shown. Exit code 1 when a check failed.
    """
    # What is wrong is told by the checks; the log would say it twice.
    logging.basicConfig(level=logging.CRITICAL)
    checks = anyio.run(partial(_all_checks, settings_of(home), handles, timeout, probe=probe, tell=not as_json))
    if as_json:
        write_json(checks)
    else:
        _write_sum(checks)
    if any(check.status == "failed" for check in checks):
        click.get_current_context().exit(FAILED)


async def _all_checks(
    settings: Settings, handles: tuple[str, ...], seconds: float, *, probe: bool, tell: bool
) -> list[Check]:
    checks: list[Check] = []
    style = Style(colour=wants_colour(sys.stdout, os.environ))

    def add(check: Check) -> None:
        checks.append(check)
        if tell:
            _write(check, style)

    for check in await anyio.to_thread.run_sync(lambda: list(machine_checks(settings, seconds))):
        add(check)
    for check in await mcp_checks(settings, seconds):
        add(check)
    models = ModelRegistry.from_env(settings.environment)
    try:
        async for check in _models(models, handles, seconds, probe=probe):
            add(check)
    finally:
        with anyio.CancelScope(shield=True):
            await models.aclose()
    return checks


async def _models(
    models: ModelRegistry, handles: tuple[str, ...], seconds: float, *, probe: bool
) -> AsyncIterator[Check]:
    wanted = list(handles)
    for provider in _with_lists(models, {handle.partition("/")[0] for handle in handles}):
        listing = await provider_check(models, provider, seconds)
        yield listing.check
        if listing.first and not handles:
            wanted.append(listing.first)
    for handle in wanted:
        async for check in model_checks(models, handle, seconds, probe=probe):
            yield check
    if not wanted and len(models.providers) == 1:
        yield Check(
            name="models",
            status="warning",
            found=f"no provider is configured; only {SCRIPTED.name}/demo answers, which is no language model",
            advice="Set OPENAI_API_KEY, ANTHROPIC_API_KEY, OLLAMA_BASE_URL or another provider's variable.",
        )


def _with_lists(models: ModelRegistry, named: set[str]) -> list[Provider]:
    """Return the named providers that can tell their models; with none named, one for each address."""
    telling = [provider for provider in models.providers.values() if provider.listing != "none"]
    if named:
        return [provider for provider in telling if provider.name in named]
    by_address: dict[str, Provider] = {}
    for provider in telling:
        by_address.setdefault(provider.base_url, provider)
    return list(by_address.values())


_MARKS: Final = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}


def _write(check: Check, style: Style) -> None:
    mark = _MARKS[check.status]
    shown = style.red(mark) if check.status == "failed" else mark
    click.echo(f"{shown}  {style.bold(printable(check.name))}: {printable(check.found)}")
    if check.advice:
        click.echo(f"         {printable(check.advice)}")


def _write_sum(checks: list[Check]) -> None:
    counts = {status: sum(check.status == status for check in checks) for status in ("ok", "warning", "failed")}
    click.echo(f"\n{counts['ok']} ok, {counts['warning']} warnings, {counts['failed']} failed")
