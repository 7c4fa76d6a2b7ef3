"""What a model gave for a memory tool, checked by name and type.

Unknown names are refused: a misspelt optional argument would otherwise change what the edit does.
"""

from collections.abc import Mapping
from typing import Any, Final

from eunoe.state.errors import InvalidInput

_HARMLESS: Final = frozenset({"request_heartbeat", "thinking", "inner_thoughts"})
"""Names that agents of older types add to every call; they mean nothing to an edit."""


class Arguments:
    """The arguments of one call of a tool that takes the named parameters.

    Raises ``InvalidInput`` when there are others.
    """

    def __init__(self, tool: str, given: Mapping[str, Any], parameters: frozenset[str]) -> None:
        self._tool = tool
        self._given = given
        unknown = sorted(given.keys() - parameters - _HARMLESS)
        if unknown:
            raise InvalidInput(
                f"{tool} takes no argument {', '.join(unknown)}. Its arguments are: {', '.join(sorted(parameters))}.",
                field=unknown[0],
            )

    def text(self, name: str) -> str:
        """Return a text that must be there. Raises ``InvalidInput`` when it is missing or no text."""
        value = self.optional_text(name)
        if value is None:
            raise InvalidInput(f"{name} is required for {self._tool}.", field=name)
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text, or ``None`` when it is missing or null. Raises ``InvalidInput`` when it is no text."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{name} must be a string for {self._tool}, not {type(value).__name__}.", field=name)
        return value

    def line(self, name: str) -> int:
        """Return a line number, -1 when it is missing or null. Raises ``InvalidInput`` when it is no integer."""
        value = self._given.get(name)
        if value is None:
            return -1
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(f"{name} must be an integer for {self._tool}, not {type(value).__name__}.", field=name)
        return value

    def count(self, name: str) -> int:
        """Return a number, 0 when it is missing or null. Raises ``InvalidInput`` when it is no integer of 0 or more."""
        value = self._given.get(name)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidInput(f"{name} must be a whole number of 0 or more, not {value!r}.", field=name)
        return value
