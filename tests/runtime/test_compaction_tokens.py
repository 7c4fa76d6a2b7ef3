"""When a window is full, and how messages become the text that a summariser reads: pure facts."""

import hypothesis.strategies as st
import pytest
from compaction_rig import asks, exchange, returns, said
from hypothesis import given

from eunoe.models.protocol import ModelInfo, ModelRequest
from eunoe.runtime.token_account import answer_reserve, due, estimate_request, reserve_for, window_tokens
from eunoe.runtime.transcript import entry, extract, pack, pieces_within
from eunoe.state.messages import Message

MODEL = ModelInfo(
    handle="openai/gpt-test",
    name="gpt-test",
    provider="openai",
    provider_type="openai",
    dialect="openai_chat",
    base_url="",
    context_window=100_000,
)


@pytest.mark.parametrize(
    ("estimate", "window", "reserve", "is_due"),
    [(90_000, 100_000, 10_000, False), (90_001, 100_000, 10_000, True), (10**9, 0, 0, False)],
)
def test_due_leaves_the_reserve_free(estimate: int, window: int, reserve: int, *, is_due: bool) -> None:
    assert due(estimate, window, reserve) is is_due


def test_the_reserve_is_a_tenth_or_the_longest_answer_but_never_above_half() -> None:
    assert answer_reserve(MODEL, None) == 10_000
    assert answer_reserve(MODEL, 2_000) == 10_000
    assert answer_reserve(MODEL, 30_000) == 30_000
    assert answer_reserve(MODEL, 100_000) == 50_000
    assert (
        reserve_for(ModelRequest(model=MODEL, system="", messages=(), settings={"max_output_tokens": 20_000})) == 20_000
    )


def test_the_providers_count_is_the_anchor_of_what_was_added_since() -> None:
    added = [returns("c1", content="x" * 400), said("user", "y" * 400)]
    window = (*exchange(3), asks("c1"), *added)
    request = ModelRequest(model=MODEL, system="s" * 40, messages=window)
    assert estimate_request(request, 50_000) == 50_000 + window_tokens(added) == 50_200
    assert estimate_request(request) == 10 + window_tokens(window)
    assert estimate_request(ModelRequest(model=MODEL, system="", messages=(said("user", "y" * 400),)), 50_000) == 100


def test_a_transcript_names_roles_calls_and_returns_and_shortens_what_is_long() -> None:
    assert entry(said("user", " Hello. ")) == "[user, 2026-05-01 12:00]\nHello."
    assert "calls look with {}" in entry(asks("c1"))
    long = entry(returns("c1", content="a" * 10_000 + "z" * 10_000))
    assert "look returned (success): aaa" in long
    assert "18000 characters left out" in long
    assert long.endswith("z")
    assert len(long) < 2_200


@given(st.lists(st.text(max_size=60), max_size=20), st.integers(16, 200))
def test_pieces_fit_the_room_and_hold_every_entry_in_order(entries: list[str], room: int) -> None:
    pieces = pack(entries, room)
    assert all(len(piece.encode()) <= room for piece in pieces)
    whole = "".join(pieces).replace("\n\n", "")
    short = [text for text in entries if len(text.encode()) <= room - 2]
    places = [whole.find(text.replace("\n\n", "")) for text in short]
    assert -1 not in places


@pytest.mark.parametrize("count", [1, 40, 400])
def test_there_are_never_more_pieces_than_wanted_and_the_ends_are_in_them(count: int) -> None:
    window = exchange(count, size=3_000)
    pieces = pieces_within(window, room=20_000, most=5)
    assert 1 <= len(pieces) <= 5
    assert "question 0 " in pieces[0]
    assert f"answer {count - 1} " in pieces[-1]
    assert any("left out here" in piece for piece in pieces) is (count == 400)


@pytest.mark.parametrize("longest", [600, 5_000])
def test_an_extract_is_marked_and_bounded_and_holds_the_ends(longest: int) -> None:
    window: list[Message] = [said("summary", "They met in May. " * 100), *exchange(200)]
    text = extract(window, longest)
    assert text.startswith("(Mechanical extract: no model could summarise these messages. There were: 1 summary, 200")
    assert "They met in May." in text
    assert "question 0 " in text
    assert "answer 199 " in text
    assert len(text) < longest * 1.3
