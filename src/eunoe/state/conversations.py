"""Conversations, and the compiled prompt that each was last asked with."""

from datetime import datetime
from typing import Any

from msgspec import Struct


class PromptFacts(Struct, frozen=True, kw_only=True):
    """The facts in the metadata section of a prompt, recorded when it was compiled.

    They stay as they are when memory changes, so that a memory edit changes nothing else in the text; compaction,
    reset and an explicit recompile record them anew.
    """

    compiled_at: datetime
    message_count: int = 0
    archival_count: int = 0
    archive_tags: tuple[str, ...] = ()


class Compiled(Struct, frozen=True, kw_only=True):
    """What a conversation's system message was made from (I5).

    ``hash`` addresses the stored text (SHA-256, hex). ``system_hash`` is that of the raw system text,
    ``memory_revision`` that of what memory shows, ``inputs_hash`` that of everything else the text depends on.
    ``told_revision`` is the newest memory revision that update messages have told, when it is not in the text.
    """

    hash: str
    system_hash: str
    memory_revision: str
    inputs_hash: str
    facts: PromptFacts
    told_revision: str | None = None


class Conversation(Struct, frozen=True, kw_only=True):
    """One thread of messages of an agent.

    The window is the system message, then ``summary_message_id`` if there is one, then every message from position
    ``window_from`` on. ``fence`` goes up each time that a run takes the lease (I11); ``lease_run_id`` is the run that
    holds it.
    """

    id: str
    agent_id: str
    is_default: bool
    system_message_id: str
    created_at: datetime
    updated_at: datetime
    summary: str | None = None
    model: str | None = None
    model_settings: dict[str, Any] | None = None
    compiled: Compiled | None = None
    window_from: int = 0
    summary_message_id: str | None = None
    next_position: int = 1000
    fence: int = 0
    lease_run_id: str | None = None
    lease_owner: str | None = None
    lease_expires_at: datetime | None = None
    last_message_at: datetime | None = None
