"""Reflections: a background agent went over what was said and worked on memory in a branch of its own."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

ReflectionPolicy = Literal["auto", "review"]
"""What becomes of a reflection's edits: merged when nothing collides, or kept until a person says."""

ReflectionOutcome = Literal["merged", "nothing to do", "waits for review", "conflict", "rejected", "failed"]
"""How a reflection ended.

``merged``: its commits are part of memory. ``nothing to do``: it left the files as they were, or there were no new
messages. ``waits for review`` and ``conflict``: its branch is kept until a person accepts or rejects it. ``failed``:
the turn did not come to its end; whatever it had committed is kept in the branch.
"""

REVIEWABLE: frozenset[ReflectionOutcome] = frozenset({"waits for review", "conflict", "failed"})
"""Outcomes whose branch may wait for a person."""


def companion_tag(agent_id: str) -> str:
    """Return the tag by which the hidden agent that reflects for an agent is found."""
    return f"reflects-for:{agent_id}"


class ReflectionTrigger(Struct, frozen=True, kw_only=True):
    """When an agent is reflected for by itself, and how.

    ``every_steps``: once it has made so many steps (answers of its model) since the last reflection, ``None`` for
    never. ``after_compaction``: once what was said was compacted. The rest is as for a reflection that is asked for.
    """

    agent_id: str
    every_steps: int | None = None
    after_compaction: bool = False
    policy: ReflectionPolicy = "auto"
    instructions: str = ""
    model: str | None = None


class Reflection(Struct, frozen=True, kw_only=True):
    """One reflection.

    It goes over the agent's messages after ``from_seq`` up to ``to_seq``, and works from the commit ``base`` on the
    branch ``branch``; ``tip`` is the newest commit there, once it has ended with one. ``owner`` is the opening of the
    store that carries it. ``outcome`` is ``None`` while it goes on; ``detail`` says why in a sentence.
    """

    id: str
    agent_id: str
    branch: str
    base: str
    policy: ReflectionPolicy
    owner: str
    created_at: datetime
    from_seq: int
    to_seq: int
    run_id: str | None = None
    tip: str | None = None
    outcome: ReflectionOutcome | None = None
    detail: str = ""
    ended_at: datetime | None = None
