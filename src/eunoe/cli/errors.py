"""How a failure looks at the terminal: one sentence on stderr and an exit code, never a traceback.

Exit codes: 0 done; 1 something else failed; 2 bad input, nothing found, or a conflict (click's own for usage errors);
3 the store; 4 a model; 124 out of time, as ``timeout`` has it; 130 interrupted by the user, as shells have it.
"""

from typing import Final

from eunoe.state.errors import Conflict, EunoeError, InvalidInput, ModelError, NotFound, StoreError

FAILED: Final = 1
BAD_INPUT: Final = 2
STORE_FAILED: Final = 3
MODEL_FAILED: Final = 4
OUT_OF_TIME: Final = 124
INTERRUPTED: Final = 130

_CODES: Final[tuple[tuple[type[EunoeError], int], ...]] = (
    (InvalidInput, BAD_INPUT),
    (NotFound, BAD_INPUT),
    (Conflict, BAD_INPUT),
    (StoreError, STORE_FAILED),
    (ModelError, MODEL_FAILED),
)


class Failure(Exception):
    """An expected failure: the sentence goes to stderr, and the program ends with this exit code."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.message: Final = message
        self.exit_code: Final = exit_code


def exit_code(error: EunoeError) -> int:
    """Return the exit code for an error of this kind."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def failure(error: EunoeError) -> Failure:
    """Return the error as the terminal tells it."""
    return Failure(error.message, exit_code(error))
