"""What a check of `eunoe doctor` finds, and the bound on how long it may look."""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

import anyio
from msgspec import Struct

from eunoe.state.errors import EunoeError, ModelError, ModelErrorKind

CheckStatus = Literal["ok", "warning", "failed"]


class Check(Struct, frozen=True, kw_only=True):
    """One thing that was looked at: what it is, how it is, and what to do when it is not as it should be."""

    name: str
    status: CheckStatus
    found: str
    advice: str | None = None


def ok(name: str, found: str) -> Check:
    """Return that something is as it should be."""
    return Check(name=name, status="ok", found=found)


def warning(name: str, found: str, advice: str) -> Check:
    """Return that something works and may still surprise."""
    return Check(name=name, status="warning", found=found, advice=advice)


def failed(name: str, found: str, advice: str | None = None) -> Check:
    """Return that something does not work. Without advice, ``found`` itself says what to do."""
    return Check(name=name, status="failed", found=found, advice=advice)


_LATER: Final = "Wait a little and check again."
_ADVICE: Final[dict[ModelErrorKind, str]] = {
    "timeout": "See whether the server is busy or still loads the model; --timeout gives it longer.",
    "rate_limit": _LATER,
    "overloaded": _LATER,
    "context_overflow": "Give the server a larger window, or use another model.",
    "invalid_request": "See whether the endpoint is of the kind that its provider's name says, and has this model.",
    "invalid_response": "See whether the address is that of a model endpoint.",
    "interrupted": "See the endpoint's log.",
    "server_error": "See the endpoint's log.",
}
"""What to do about failures whose own sentence does not say it."""


async def bounded(name: str, seconds: float, look: Callable[[], Awaitable[Check]]) -> Check:
    """Look for at most this long; an error that Eunoe raises on purpose is what was found."""
    try:
        with anyio.fail_after(seconds):
            return await look()
    except TimeoutError:
        return failed(name, f"no answer within {seconds:g} seconds", _ADVICE["timeout"])
    except ModelError as error:
        return failed(name, error.message, _ADVICE.get(error.kind))
    except EunoeError as error:
        return failed(name, error.message)
