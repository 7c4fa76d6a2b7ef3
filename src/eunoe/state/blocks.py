"""Blocks: reserved, labelled sections of the context window."""

from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

DEFAULT_LIMIT: Final = 100_000
"""Characters that a block takes when its creator names no limit (Letta v1's default)."""

DEFAULT_DESCRIPTIONS: Final = {
    "human": (
        "What is known about the person this agent talks with: name, situation, preferences, and how they want to be "
        "answered. Keep it current, so that every reply starts from it."
    ),
    "persona": (
        "Who this agent is: its character, manner and principles. It shapes how the agent thinks and speaks, and it "
        "may grow as the agent learns about itself."
    ),
}
"""Descriptions for blocks of an agent that are labelled so and come without one."""


class Block(Struct, frozen=True, kw_only=True):
    """One block at one revision. A block that several agents share is one of these.

    ``limit`` and the length of ``value`` count characters (code points). ``revision`` starts at 1 and goes up by one
    with each stored change of any field.
    """

    id: str
    label: str
    value: str
    created_at: datetime
    updated_at: datetime
    limit: int = DEFAULT_LIMIT
    description: str | None = None
    read_only: bool = False
    hidden: bool = False
    metadata: dict[str, Any] = {}
    tags: tuple[str, ...] = ()
    revision: int = 1
    extra: dict[str, Any] = {}
    """Template and project fields of the wire that Eunoe keeps and returns but does not act on."""


class BlockSpec(Struct, frozen=True, kw_only=True):
    """What a caller gives to create a block."""

    label: str
    value: str = ""
    limit: int = DEFAULT_LIMIT
    description: str | None = None
    read_only: bool = False
    hidden: bool = False
    metadata: dict[str, Any] = {}
    tags: tuple[str, ...] = ()
    extra: dict[str, Any] = {}


class BlockChanges(Struct, frozen=True, kw_only=True):
    """A partial update of a block: only the fields that are set change (I13)."""

    label: str | UnsetType = UNSET
    value: str | UnsetType = UNSET
    limit: int | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    read_only: bool | UnsetType = UNSET
    hidden: bool | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    extra: dict[str, Any] | UnsetType = UNSET


class BlockRevision(Struct, frozen=True, kw_only=True):
    """A past state of a block: what it was after one stored change, and who made it.

    ``actor`` is ``user``, or ``agent:<agent id>`` for an edit by a tool; ``run_id`` is the run of that tool.
    ``why`` is what whoever made it said of the reason, if anything.
    """

    block_id: str
    revision: int
    label: str
    value: str
    limit: int
    description: str | None
    read_only: bool
    actor: str
    run_id: str | None
    created_at: datetime
    why: str = ""
