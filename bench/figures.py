"""What was measured, beside what it is held against."""

import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

RESULTS: Final = Path(__file__).parent / "results"


class Figure(Struct, frozen=True, kw_only=True):
    """One measured value and its limit, both in ``unit``.

    ``floor`` is what the value is compared with, ``reach`` the most that it may be (``None`` for a figure that is told
    and not judged). ``times`` says that the reach was given as a multiple of the floor. ``note`` says how it was got.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    reach: float | None = None
    times: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of the floor, or without a floor of the reach."""
        base = self.floor or self.reach
        return self.value / base if base else None

    @property
    def met(self) -> bool | None:
        """Whether the reach is met; ``None`` when there is none."""
        return None if self.reach is None else self.value <= self.reach


def against(name: str, value: float, floor: float, times: float, unit: str, note: str = "") -> Figure:
    """Return a figure that may be at most so many times its floor."""
    return Figure(name=name, value=value, unit=unit, floor=floor, reach=floor * times, times=times, note=note)


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a table of Markdown, which reads well in a terminal too."""
    head = ("figure", "measured", "floor", "reach", "ratio", "met")
    rows = [head, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"


def _row(figure: Figure) -> tuple[str, ...]:
    reach = "" if figure.reach is None else _amount(figure.reach, figure.unit)
    if figure.times is not None:
        reach = f"{figure.times:g} x floor"
    return (
        figure.name,
        _amount(figure.value, figure.unit),
        "" if figure.floor is None else _amount(figure.floor, figure.unit),
        reach,
        "" if figure.ratio is None else f"{figure.ratio:.2f}",
        {True: "yes", False: "NO", None: ""}[figure.met],
    )


def _amount(value: float, unit: str) -> str:
    digits = 0 if value >= 100 or value == int(value) else 2
    return f"{value:.{digits}f} {unit}".strip()


def machine() -> dict[str, Any]:
    """Describe the machine as far as figures depend on it; no names and no paths."""
    return {
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def save(figures: Sequence[Figure], described: dict[str, Any]) -> Path:
    """Write the figures as JSON into ``bench/results`` and return the file."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    path = RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
    rows = [{**msgspec.to_builtins(figure), "ratio": figure.ratio, "met": figure.met} for figure in figures]
    found = {"at": now.isoformat(), "machine": described, "figures": rows}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    return path
