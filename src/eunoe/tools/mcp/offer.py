"""What becomes of the tools that a server offers: which can be taken, and what each is called here (pure)."""

import hashlib
import itertools
import re
from collections.abc import Callable
from typing import Any, Final, Literal

from msgspec import Struct

from eunoe.state.mcp import McpProblem

LONGEST_NAME: Final = 64
"""Characters that every provider takes for the name of a tool."""

_DIGEST: Final = 8
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")

Strictness = Literal["STRICT_COMPLIANT", "NON_STRICT_ONLY"]
"""Whether providers could hold a model to a tool's schema; the words are Letta v1's."""


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool as its server tells it. ``parameters`` is a JSON Schema of type object.

    ``reasons`` say why its schema is not strict. ``reads_only`` is the server's word that a call changes nothing.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    strictness: Strictness = "NON_STRICT_ONLY"
    reasons: tuple[str, ...] = ()
    reads_only: bool = False


class ToolList(Struct, frozen=True, kw_only=True):
    """What a server offers: the tools that can be taken, and those that cannot, with reasons."""

    tools: tuple[OfferedTool, ...]
    problems: tuple[McpProblem, ...] = ()


def legal_name(text: str) -> str:
    """Return a name that providers take: other characters become ``_``, and a long one ends in a digest of itself."""
    cleaned = _ILLEGAL.sub("_", text)
    if len(cleaned) <= LONGEST_NAME:
        return cleaned
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    return f"{cleaned[: LONGEST_NAME - _DIGEST - 1]}_{digest}"


def choose_name(remote_name: str, server_name: str, taken: Callable[[str], bool]) -> str:
    """Return what a tool is called here: its own name, or with the server's name before it, or with a number too.

    Whatever has a name already keeps it.
    """
    candidates = itertools.chain(
        [remote_name, f"{server_name}_{remote_name}"],
        (f"{server_name}_{remote_name}_{number}" for number in itertools.count(2)),
    )
    return next(name for name in map(legal_name, candidates) if not taken(name))
