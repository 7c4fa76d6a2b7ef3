"""When a failed request is sent again."""

import random
from datetime import UTC, datetime

import pytest

from eunoe.models.retry import Delay, Stop, decide, parse_retry_after
from eunoe.state.errors import ModelError, ModelErrorKind

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def _error(kind: ModelErrorKind, *, retry_after: float | None = None, started: bool = False) -> ModelError:
    return ModelError(kind, "x", provider="p", retry_after=retry_after, started=started)


@pytest.mark.parametrize(
    ("kind", "retries"),
    [
        ("unreachable", 2),
        ("timeout", 3),
        ("rate_limit", 3),
        ("overloaded", 3),
        ("server_error", 3),
        ("authentication", 0),
        ("permission", 0),
        ("insufficient_credits", 0),
        ("context_overflow", 0),
        ("invalid_request", 0),
        ("invalid_response", 0),
        ("interrupted", 0),
    ],
)
def test_how_often_each_kind_is_repeated(kind: ModelErrorKind, retries: int):
    decisions = [decide(_error(kind), attempt, rng=random.Random(1)) for attempt in range(1, 6)]
    assert [isinstance(decision, Delay) for decision in decisions] == [True] * retries + [False] * (5 - retries)


def test_nothing_is_repeated_after_output():
    assert decide(_error("server_error", started=True), 1, rng=random.Random(1)) == Stop()


@pytest.mark.parametrize(("attempt", "least", "most"), [(1, 0.5, 1.0), (2, 1.0, 2.0), (3, 2.0, 4.0)])
def test_delays_grow_with_jitter(attempt: int, least: float, most: float):
    delays: list[float] = []
    for seed in range(50):
        decision = decide(_error("overloaded"), attempt, rng=random.Random(seed))
        assert isinstance(decision, Delay)
        delays.append(decision.seconds)
    assert least <= min(delays) <= max(delays) <= most
    assert len(set(delays)) > 40


@pytest.mark.parametrize(("asked", "waited"), [(0.0, 0.0), (7.0, 7.0), (3600.0, 60.0)])
def test_the_endpoints_own_delay_is_kept_up_to_a_minute(asked: float, waited: float):
    assert decide(_error("rate_limit", retry_after=asked), 1, rng=random.Random(1)) == Delay(seconds=waited)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("5", 5.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Fri, 01 May 2026 12:00:30 GMT", 30.0),
        ("Fri, 01 May 2026 11:00:00 GMT", 0.0),
        ("soon", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None):
    assert parse_retry_after(header, now=NOW) == seconds
