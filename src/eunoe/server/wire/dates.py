"""How an instant is written on the wire: always with an offset.

Letta v1 writes objects with microseconds and ``Z``, messages in whole seconds and ``+00:00``.
"""

from datetime import UTC, datetime


def instant(moment: datetime | None) -> str | None:
    """Return an object's time, such as ``2026-01-02T03:04:05.000006Z``."""
    if moment is None:
        return None
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def second(moment: datetime) -> str:
    """Return a message's time cut to whole seconds, such as ``2026-01-02T03:04:05+00:00``."""
    return moment.astimezone(UTC).replace(microsecond=0).isoformat()
