"""Mirrors of memory files: a repository elsewhere that follows main, and what keeps it from following."""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

MirrorFault = Literal["unreachable", "timeout", "access", "missing", "diverged", "rejected", "program", "unknown"]
"""Why a push did not succeed.

``unreachable`` and ``timeout`` pass by themselves. ``access``: credentials, a host key or a certificate are refused.
``missing``: there is no repository. ``diverged``: it has commits or tags that memory does not have. ``rejected``: a
hook or a rule there refuses. ``program``: there is no git on this machine. ``unknown``: git said something else.
"""

FOR_A_PERSON: Final[frozenset[MirrorFault]] = frozenset({"access", "missing", "diverged", "rejected", "program"})
"""Faults that no waiting mends."""

PATIENCE: Final = 5
"""Attempts in a row after which a person has to look at an ``unknown`` fault too."""


class MirrorFailure(Struct, frozen=True, kw_only=True):
    """Pushes that failed one after the other: what the last one met, in git's words, since when, and how many."""

    fault: MirrorFault
    detail: str
    since: datetime
    last: datetime
    attempts: int

    @property
    def needs_person(self) -> bool:
        """Whether trying again is not enough."""
        return self.fault in FOR_A_PERSON or (self.fault == "unknown" and self.attempts >= PATIENCE)


class Mirror(Struct, frozen=True, kw_only=True):
    """Where an agent's memory is mirrored, and how far.

    ``pushed`` is the commit of main that was pushed last, ``pushed_refs`` a hash of main and all tags then: what is
    there now and differs from it is due. ``next_at`` is when a failed push is tried again. ``told`` says that the agent
    knows that a person must act.
    """

    agent_id: str
    url: str
    pushed: str | None = None
    pushed_refs: str | None = None
    pushed_at: datetime | None = None
    failure: MirrorFailure | None = None
    next_at: datetime | None = None
    told: bool = False
