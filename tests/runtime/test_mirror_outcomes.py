"""How long a mirror waits after failures, and what a push leaves in its record."""

from datetime import UTC, datetime, timedelta

import pytest

from eunoe.memory.mirror_answer import PushOutcome
from eunoe.runtime.mirror_outcomes import after_push, failure_sentence
from eunoe.state.mirrors import Mirror, MirrorFault

START = datetime(2026, 1, 1, tzinfo=UTC)
REFS = {"refs/heads/main": "a" * 40, "refs/tags/v1": "b" * 40}
FRESH = Mirror(agent_id="agent-1", url="https://example.org/x.git")


@pytest.mark.parametrize(("fault", "first", "longest"), [("unreachable", 5, 900), ("access", 60, 3600)])
def test_wait_doubles_up_to_a_bound(fault: MirrorFault, first: int, longest: int):
    mirror, now, waits = FRESH, START, list[float]()
    for _ in range(40):
        mirror = after_push(mirror, REFS, PushOutcome(main_taken=False, fault=fault), now)
        assert mirror.next_at is not None
        waits.append((mirror.next_at - now).total_seconds())
        now = mirror.next_at
    assert waits[:3] == [first, 2 * first, 4 * first]
    assert waits[-1] == max(waits) == longest
    assert mirror.failure is not None
    assert (mirror.failure.since, mirror.failure.attempts) == (START, 40)
    assert mirror.failure.needs_person == (fault == "access")


def test_unknown_failure_waits_for_a_person_only_after_several():
    mirror = FRESH
    needs: list[bool] = []
    for number in range(6):
        outcome = PushOutcome(main_taken=False, fault="unknown", detail="fatal: odd")
        mirror = after_push(mirror, REFS, outcome, START + timedelta(minutes=number))
        assert mirror.failure is not None
        needs.append(mirror.failure.needs_person)
    assert needs == [False, False, False, False, True, True]
    assert "Git says: fatal: odd" in (failure_sentence(mirror) or "")


def test_success_forgets_the_failure_but_not_that_the_agent_was_told():
    failed = after_push(FRESH, REFS, PushOutcome(main_taken=False, fault="access"), START)
    told = Mirror(agent_id=failed.agent_id, url=failed.url, failure=failed.failure, next_at=failed.next_at, told=True)
    healed = after_push(told, REFS, PushOutcome(main_taken=True), START)
    assert (healed.failure, healed.next_at, healed.pushed, healed.pushed_at) == (None, None, "a" * 40, START)
    assert healed.told
    assert failure_sentence(healed) is None


def test_main_that_was_taken_counts_although_a_tag_was_refused():
    mirror = after_push(FRESH, REFS, PushOutcome(main_taken=True, fault="diverged"), START)
    assert (mirror.pushed, mirror.pushed_refs) == ("a" * 40, None)
    assert mirror.failure is not None
