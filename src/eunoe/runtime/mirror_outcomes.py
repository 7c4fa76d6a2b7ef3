"""What becomes of a mirror after a push: how far it is, when the next try is, and what a person is told."""

from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from eunoe.memory.git_library import MAIN
from eunoe.memory.mirror_answer import PushOutcome
from eunoe.memory.mirror_push import Refs, refs_hash
from eunoe.state.mirrors import Mirror, MirrorFailure, MirrorFault

_FIRST_WAIT: Final = timedelta(seconds=5)
_LONGEST_WAIT: Final = timedelta(minutes=15)
_FIRST_WAIT_FOR_PERSON: Final = timedelta(minutes=1)
_LONGEST_WAIT_FOR_PERSON: Final = timedelta(hours=1)
_MOST_DOUBLED: Final = 20

_MEANING: Final[dict[MirrorFault, str]] = {
    "unreachable": "cannot be reached now; Eunoe tries again by itself",
    "timeout": "did not take a push in time; Eunoe tries again by itself",
    "access": "does not let Eunoe in. As the user that Eunoe runs as, give git what it needs (a credential helper, a "
    "key for ssh, the host's key or certificate), or set another address",
    "missing": "is no git repository. Make an empty one there (`git init --bare`), or set another address",
    "diverged": "has commits or tags that memory does not have, and Eunoe overwrites nothing. Clone it and bring its "
    "commits in with `eunoe memory import`, or set the address of an empty repository",
    "rejected": "refuses what Eunoe pushes, by a hook or a rule of its own. Mend it there, or set another address",
    "program": "cannot be pushed to: there is no git on the PATH. Install git",
    "unknown": "cannot be pushed to, for a reason that only git's own words tell",
}


def wait_after(failure: MirrorFailure) -> timedelta:
    """Return how long to wait after a failure: twice as long each time, up to a bound."""
    doubled = 2 ** min(failure.attempts - 1, _MOST_DOUBLED)
    if failure.needs_person:
        return min(_LONGEST_WAIT_FOR_PERSON, _FIRST_WAIT_FOR_PERSON * doubled)
    return min(_LONGEST_WAIT, _FIRST_WAIT * doubled)


def after_push(mirror: Mirror, refs: Refs, outcome: PushOutcome, now: datetime) -> Mirror:
    """Return the record of a mirror after a push of these references.

    What the agent was told stays: it hears of the recovery at its next turn.
    """
    if outcome.main_taken:
        mirror = structs.replace(mirror, pushed=refs.get(MAIN), pushed_at=now)
    if outcome.fault is None:
        return structs.replace(mirror, pushed_refs=refs_hash(refs), failure=None, next_at=None)
    before = mirror.failure
    failure = MirrorFailure(
        fault=outcome.fault,
        detail=outcome.detail,
        since=before.since if before else now,
        last=now,
        attempts=before.attempts + 1 if before else 1,
    )
    return structs.replace(mirror, failure=failure, next_at=now + wait_after(failure))


def failure_sentence(mirror: Mirror) -> str | None:
    """Return what is wrong with a mirror and what to do, for a person; ``None`` when its last push went well."""
    failure = mirror.failure
    if failure is None:
        return None
    said = f" Git says: {failure.detail}" if failure.detail else ""
    return f"The mirror {mirror.url} {_MEANING[failure.fault]} (since {failure.since:%Y-%m-%d %H:%M} UTC).{said}"
