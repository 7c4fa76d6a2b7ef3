"""Where a window may be cut: pure facts, and properties of any window."""

import hypothesis.strategies as st
from compaction_rig import asks, exchange, message, returns, said
from hypothesis import given

from eunoe.runtime.cuts import boundaries, cut_all, cut_sliding, first_open, request_in_hand
from eunoe.runtime.token_account import window_tokens
from eunoe.runtime.window import unanswered
from eunoe.state.messages import ApprovalPart, Message

_STEP = st.sampled_from(["user", "answer", "calls", "approved", "system"])


@st.composite
def windows(draw: st.DrawFn) -> list[Message]:
    """Any window that a conversation can have: maybe a summary, closed steps, maybe something open at the end."""
    made: list[Message] = [said("summary", "earlier")] if draw(st.booleans()) else []
    for number, step in enumerate(draw(st.lists(_STEP, max_size=12))):
        calls = [f"call-{number}-{i}" for i in range(draw(st.integers(1, 3)))]
        text = "w" * draw(st.integers(1, 400))
        if step == "calls":
            made += [asks(*calls), returns(*calls, content=text)]
        elif step == "approved":
            answers = [ApprovalPart(tool_call_id=call, approve=True) for call in calls]
            made += [asks(*calls, needs_approval=tuple(calls)), message("approval", *answers), returns(*calls)]
        else:
            made.append(said("assistant" if step == "answer" else "user" if step == "user" else "system", text))
    ending = draw(st.sampled_from(["nothing", "pending", "pending and more", "running", "answered, not yet run"]))
    if ending == "running":
        made.append(asks("open"))
    elif ending != "nothing":
        made.append(asks("free", "open", needs_approval=("open",)))
        if ending == "pending and more":
            made += [returns("free"), said("user", "still there?"), said("assistant", "yes")]
        elif ending != "pending":
            made.append(message("approval", ApprovalPart(tool_call_id="open", approve=True)))
    return made


@given(windows(), st.floats(0.05, 0.95), st.integers(-50, 2_000))
def test_any_cut_keeps_pairs_and_open_questions_and_loses_nothing(
    window: list[Message], share: float, goal: int
) -> None:
    for cut in (cut_all(window), cut_sliding(window, share=share, goal=goal)):
        if cut is None:
            assert boundaries(window) == []
            continue
        assert [*cut.evicted, *cut.kept] == window
        assert any(one.role != "summary" for one in cut.evicted)
        assert unanswered(cut.evicted) == []
        gone = {call.id for one in cut.evicted for call in one.tool_calls}
        answered_later = {part.tool_call_id for one in cut.kept for part in one.tool_returns}
        assert gone & answered_later == set()
        assert "open" not in gone


@given(windows(), st.floats(0.05, 0.95), st.integers(0, 2_000))
def test_a_sliding_cut_takes_no_more_than_it_must(window: list[Message], share: float, goal: int) -> None:
    cut = cut_sliding(window, share=share, goal=goal)
    if cut is None:
        return
    smaller = [size for size in boundaries(window) if size < len(cut.evicted)]
    assert all(size < share * len(window) or window_tokens(window[size:]) > goal for size in smaller)


def test_k07_a_pending_approval_and_what_follows_it_stay_in_view() -> None:
    window = [*exchange(3), asks("c1", needs_approval=("c1",)), said("user", "hello?"), said("assistant", "waiting")]
    cut = cut_all(window)
    assert cut is not None
    assert list(cut.kept) == window[6:]
    assert first_open(window) == 6


def test_a_message_that_the_model_has_not_seen_stays_in_view() -> None:
    window = [*exchange(2), said("system", "It is noon."), said("user", "And now?")]
    cut = cut_all(window)
    assert cut is not None
    assert [one.text for one in cut.kept] == ["It is noon.", "And now?"]


def test_an_earlier_summary_alone_is_nothing_to_compact() -> None:
    assert cut_all([said("summary", "earlier"), said("user", "new")]) is None
    assert cut_all([]) is None


def test_the_request_that_a_turn_works_on_is_known_when_it_goes_out_of_view() -> None:
    working = [said("user", "old"), said("assistant", "done"), said("user", "count them"), asks("a"), returns("a")]
    cut = cut_all(working)
    assert cut is not None
    assert (asked := request_in_hand(cut)) is not None
    assert asked.text == "count them"
    answered = cut_all([*working, said("assistant", "three")])
    assert answered is not None
    assert request_in_hand(answered) is None
