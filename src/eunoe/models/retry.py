"""Whether a failed request is sent again, and after how long. Pure: the sender does the waiting."""

import random
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from msgspec import Struct

from eunoe.state.errors import ModelError

MAX_RETRIES: Final = 3
MAX_RETRIES_UNREACHABLE: Final = 2
FIRST_DELAY: Final = 1.0
"""Seconds before the first retry, at most; each further delay doubles, up to ``LONGEST_DELAY``."""
LONGEST_DELAY: Final = 8.0
LONGEST_ASKED_DELAY: Final = 60.0
"""Seconds that we wait at most when the endpoint itself names a delay."""

_RETRIED: Final = frozenset({"unreachable", "timeout", "rate_limit", "overloaded", "server_error"})


class Delay(Struct, frozen=True, kw_only=True):
    """Send again after this many seconds."""

    seconds: float


class Stop(Struct, frozen=True):
    """Do not send again: the failure is the answer."""


def decide(error: ModelError, attempt: int, *, rng: random.Random) -> Delay | Stop:
    """Decide after the ``attempt``-th request (from 1) failed with this error.

    Nothing is repeated once output has started: it may have been shown. Jitter takes up to half of the delay off, so
    that clients which failed together do not come back together.
    """
    most = MAX_RETRIES_UNREACHABLE if error.kind == "unreachable" else MAX_RETRIES
    if error.started or error.kind not in _RETRIED or attempt > most:
        return Stop()
    if error.retry_after is not None:
        return Delay(seconds=min(error.retry_after, LONGEST_ASKED_DELAY))
    full = min(FIRST_DELAY * 2 ** (attempt - 1), LONGEST_DELAY)
    return Delay(seconds=full * rng.uniform(0.5, 1.0))


def parse_retry_after(value: str | None, *, now: datetime) -> float | None:
    """Read a ``Retry-After`` header (RFC 9110, 10.2.3: seconds or a date) as seconds from ``now``.

    A value that is neither is as good as none.
    """
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError):
        return None
