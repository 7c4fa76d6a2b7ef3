"""Measuring two things under the same weather: in turn, many times, each against the other.

Noise of a busy machine only ever adds time, and it adds to both. So the two are interleaved, and what is compared is
the median, or the lower quartile where the difference that is looked for is small.
"""

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence


def median(samples: Sequence[float]) -> float:
    """Return the middle value."""
    return statistics.median(samples)


def quiet(samples: Sequence[float]) -> float:
    """Return the lower quartile: what the machine does when others leave it alone."""
    return statistics.quantiles(samples, n=4)[0]


async def in_turn(
    first: Callable[[], Awaitable[float]], second: Callable[[], Awaitable[float]], rounds: int
) -> tuple[list[float], list[float]]:
    """Take samples (seconds) of two things in turn; who goes first changes from round to round."""
    ones: list[float] = []
    others: list[float] = []
    pair = ((first, ones), (second, others))
    for number in range(rounds):
        for sample, into in pair if number % 2 else reversed(pair):
            into.append(await sample())
    return ones, others


async def seconds_of(work: Callable[[], Awaitable[object]]) -> float:
    """Return how long it takes, in seconds of the wall clock."""
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began
