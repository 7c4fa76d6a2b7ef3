"""Memory as files: which commit an agent's blocks show, and what else is in the repository."""

from typing import Final, Literal

from msgspec import Struct

GIT_TAG: Final = "git-memory-enabled"
"""The tag of an agent whose memory is files in a git repository."""

RefreshPolicy = Literal["recompile", "append", "defer"]
"""What a change of memory does to the prompt at the next run: compile it anew, tell it in a message, or wait."""


MemoryKind = Literal["git", "blocks"]
"""How an agent keeps its memory: as files in a git repository, or as blocks in the store."""


class UnreadCommit(Struct, frozen=True, kw_only=True):
    """A newer commit that cannot be compiled, and why; memory stays at the last good one (I7)."""

    revision: str
    reason: str


class MemoryHead(Struct, frozen=True, kw_only=True):
    """Where an agent's memory files are.

    ``revision`` is the commit that the agent's block rows were read from: those are the files whose text is in the
    prompt. ``names`` are the paths of all its other files, ``folders`` (layout 2) the folders that belong to memory.
    """

    agent_id: str
    revision: str
    layout: Literal[1, 2] = 1
    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    unread: UnreadCommit | None = None
