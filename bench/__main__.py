"""``python -m bench``: measure, print the table, keep it as JSON; exit with 1 when a reach is missed.

``python -m bench NAME …`` measures only what is named; ``load`` takes ``--turns``.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Final

from bench import history, load, memory_files, memory_turns, memory_writers, shared_block, step, weight
from bench.figures import Figure, machine, save, table

SHORT_LOAD: Final = 2_000
FULL_LOAD: Final = 20_000

MEASURES: Final[dict[str, Callable[[], list[Figure]]]] = {
    "weight": weight.measure,
    "step": step.measure,
    "blocks": shared_block.measure,
    "history": history.measure,
    "memory": lambda: [*memory_files.measure(), *memory_turns.measure(), *memory_writers.measure()],
}


def main() -> int:
    """Run what was asked for and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(MEASURES)}, load; default: all")
    parser.add_argument("--turns", type=int, help=f"turns of the load; {FULL_LOAD} when load is named alone")
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - set(MEASURES) - {"load"})
    if unknown:
        parser.error(f"there is no measure {unknown[0]!r}; there are {', '.join(MEASURES)} and load")
    described = machine()
    figures: list[Figure] = []
    for name in asked.names or [*MEASURES, "load"]:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        if name == "load":
            figures += load.measure(asked.turns or (FULL_LOAD if asked.names == ["load"] else SHORT_LOAD))
        else:
            figures += MEASURES[name]()
    print(table(figures))
    print(f"\nwritten to {save(figures, described)}")
    return 1 if any(figure.met is False for figure in figures) else 0


sys.exit(main())
