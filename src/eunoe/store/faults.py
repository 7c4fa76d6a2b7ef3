"""Points at which a test lets a store's process die, to prove that nothing is left half done (I1, I2).

``EUNOE_FAULT`` names one point: ``write:N`` kills the process (SIGKILL) right after the Nth statement that changes
rows, before its commit; ``before_commit:N`` right before the Nth commit; ``commit:N`` right after it.
``EUNOE_FAULT_COUNT`` names a file that gets the totals as JSON when the store closes, so that a test can visit every
point. Counting starts when the store is open. When neither is set, nothing is counted.
"""

import os
import signal
from pathlib import Path
from typing import Final, Literal, NoReturn, get_args

import msgspec

from eunoe.state.errors import InvalidInput

FAULT_VARIABLE: Final = "EUNOE_FAULT"
COUNT_VARIABLE: Final = "EUNOE_FAULT_COUNT"

Point = Literal["write", "before_commit", "commit"]

_POINTS: Final[tuple[Point, ...]] = get_args(Point)


class Faults:
    """Counts what a store does, and kills the process at the point that was asked for."""

    def __init__(self, point: tuple[str, int] | None, report: Path | None) -> None:
        self._point = point
        self._report = report
        self._counts: dict[Point, int] = dict.fromkeys(_POINTS, 0)

    def reached(self, point: Point) -> None:
        """Count a point; does not return when it is the fatal one."""
        self._counts[point] += 1
        if self._point == (point, self._counts[point]):
            _die()

    def close(self) -> None:
        """Write the totals, if they were asked for."""
        if self._report is not None:
            self._report.write_bytes(msgspec.json.encode(self._counts))


def faults_asked_for() -> Faults | None:
    """Return the faults that the environment asks for, or ``None``. Raises ``InvalidInput`` for a malformed one."""
    wanted = os.environ.get(FAULT_VARIABLE)
    report = os.environ.get(COUNT_VARIABLE)
    if not wanted and not report:
        return None
    return Faults(_parsed(wanted) if wanted else None, Path(report) if report else None)


def _parsed(wanted: str) -> tuple[str, int]:
    point, _, number = wanted.partition(":")
    if point not in _POINTS or not number.isdecimal() or int(number) < 1:
        raise InvalidInput(
            f"{FAULT_VARIABLE} is {wanted!r}; it must be {', '.join(_POINTS)}, with a colon and a number from 1.",
            field=FAULT_VARIABLE,
        )
    return point, int(number)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL returned")
