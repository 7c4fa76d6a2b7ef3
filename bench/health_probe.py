"""Ask a server's health again and again until standard input ends, then write the seconds of each request as JSON.

As a process: ``python -m bench.health_probe URL``.
"""

import select
import sys

import msgspec

from bench.client import Client

PAUSE = 0.02
"""Seconds between two requests."""


def probe(url: str) -> list[float]:
    """Return the seconds that each request took."""
    client = Client(url)
    took: list[float] = []
    while not select.select([sys.stdin], [], [], PAUSE)[0]:
        took.append(client.exchange("GET", "/v1/health/")[0])
    return took


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(probe(sys.argv[1])))
