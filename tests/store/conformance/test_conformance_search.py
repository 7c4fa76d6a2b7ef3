"""Finding messages by their words."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_examples import NOW, Store, a_message, stored_conversation

from eunoe.state.messages import Message, ReasoningPart, TextPart, ToolCallPart, ToolReturnPart
from eunoe.store import full_text, messages

HOSTILE = ['"', "'", "*", "a AND", "NOT", "NEAR(a b)", "text:maps", "(", "^", "-", "%", "_", "\\", '""" OR "', "; --"]


def found_in(store: Store, agent_id: str, query: str | None, **options: Any) -> list[Message]:
    """Search as whoever searches does: what was said by now is made findable first."""
    while store.write(full_text.catch_up):
        pass
    return store.read(messages.search, agent_id, query, **options)


@pytest.fixture
def told(store: Store) -> tuple[Store, str]:
    """A store, and the id of an agent whose messages say these things on five days."""
    conversation = store.write(stored_conversation)
    said = ["I like maps of Orkney", "ich mag Straßenkarten", "我喜欢地图", "100% of a_b \\ c", 'She said "maps" today']
    for day, text in enumerate(said):
        store.write(
            messages.append,
            conversation.id,
            [a_message(conversation, text, created_at=NOW + timedelta(days=day))],
            NOW,
        )
    return store, conversation.agent_id


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("maps", [4, 0]),
        ("MAPS", [4, 0]),
        ("orkney maps", [0]),
        ("kney", [0]),
        ("straßen", [1]),
        ("喜欢地", [2]),
        ("地图", [2]),
        ("我", [2]),
        ('"maps"', [4]),
        ("0%", [3]),
        ("a_b", [3]),
        ("a_", [3]),
        ("\\", [3]),
        ("maps mercator", []),
        ("", [4, 3, 2, 1, 0]),
        ("  ", [4, 3, 2, 1, 0]),
        (None, [4, 3, 2, 1, 0]),
    ],
)
def test_a_message_is_found_by_any_part_of_its_words(
    told: tuple[Store, str], query: str | None, days: list[int]
) -> None:
    store, agent_id = told
    found = found_in(store, agent_id, query)
    assert [(message.created_at - NOW).days for message in found] == days


@pytest.mark.parametrize("query", HOSTILE)
def test_what_looks_like_an_operator_is_looked_for_literally(told: tuple[Store, str], query: str) -> None:
    store, agent_id = told
    for message in found_in(store, agent_id, query):
        assert all(word.lower() in message.text.lower() for word in query.split())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30), data=st.data())
def test_whatever_was_said_is_found_by_any_piece_of_it(store: Store, text: str, data: st.DataObject) -> None:
    conversation = store.write(stored_conversation)
    store.write(messages.append, conversation.id, [a_message(conversation, text)], NOW)
    start = data.draw(st.integers(0, len(text) - 1))
    piece = text[start : data.draw(st.integers(start + 1, len(text)))]
    assert len(found_in(store, conversation.agent_id, piece)) == 1


def test_a_search_stays_with_its_agent_roles_times_and_limit(told: tuple[Store, str]) -> None:
    store, agent_id = told
    stranger = store.write(stored_conversation)
    store.write(messages.append, stranger.id, [a_message(stranger, "maps")], NOW)
    day = timedelta(days=1)

    def days(**options: Any) -> list[int]:
        return [(m.created_at - NOW).days for m in found_in(store, agent_id, None, **options)]

    assert days(limit=2) == [4, 3]
    assert days(start=NOW + day, end=NOW + 2 * day) == [2, 1]
    assert days(roles=("assistant",)) == []
    assert days(roles=("user", "assistant")) == [4, 3, 2, 1, 0]
    assert len(found_in(store, stranger.agent_id, "maps")) == 1


def test_what_was_said_and_what_tools_returned_is_searched_and_nothing_else(store: Store) -> None:
    conversation = store.write(stored_conversation)
    asked = a_message(
        conversation,
        role="assistant",
        parts=(
            ReasoningPart(text="pondering"),
            TextPart(text="answering"),
            ToolCallPart(id="c", name="f", arguments='{"q": "calling"}'),
        ),
    )
    returned = a_message(
        conversation, role="tool", parts=(ToolReturnPart(tool_call_id="c", name="f", content="returning"),)
    )
    summary = a_message(conversation, "summing", role="summary")
    system = a_message(conversation, "instructing", role="system")
    store.write(messages.append, conversation.id, [asked, returned, summary, system], NOW)
    found = {
        word: len(found_in(store, conversation.agent_id, word))
        for word in ("pondering", "answering", "calling", "returning", "summing", "instructing")
    }
    assert found == {
        "pondering": 0,
        "answering": 1,
        "calling": 0,
        "returning": 1,
        "summing": 1,
        "instructing": 0,
    }


def test_any_number_of_messages_is_made_findable_batch_by_batch_and_once(store: Store) -> None:
    conversation = store.write(stored_conversation)
    said = full_text.BATCH + 3
    for index in range(said):
        store.write(messages.append, conversation.id, [a_message(conversation, f"island {index}")], NOW)
    assert store.read(messages.search, conversation.agent_id, "island") == []
    assert store.write(full_text.catch_up)
    assert len(store.read(messages.search, conversation.agent_id, "island", limit=1000)) == full_text.BATCH
    assert not store.write(full_text.catch_up)
    assert not store.write(full_text.catch_up)
    assert len(store.read(messages.search, conversation.agent_id, "island", limit=1000)) == said


def test_what_was_deleted_before_it_was_findable_is_never_found(store: Store) -> None:
    conversation = store.write(stored_conversation)
    store.write(messages.append, conversation.id, [a_message(conversation, "forget this")], NOW)
    store.write(messages.delete_all, conversation.agent_id)
    store.write(messages.append, conversation.id, [a_message(conversation, "keep that")], NOW)
    assert found_in(store, conversation.agent_id, "forget") == []
    assert [message.text for message in found_in(store, conversation.agent_id, "keep")] == ["keep that"]


@pytest.mark.parametrize("damage", ["parts = '[{'", "parts = CAST(x'5bff5d' AS TEXT)", "role = CAST(x'ff' AS TEXT)"])
def test_a_damaged_message_keeps_no_other_from_being_found(store: Store, damage: str) -> None:
    conversation = store.write(stored_conversation)
    damaged, sound = a_message(conversation, "one lost word"), a_message(conversation, "one sound word")
    store.write(messages.append, conversation.id, [damaged, sound], NOW)
    store.write(lambda tx: tx.execute(f"UPDATE messages SET {damage} WHERE id = ?", (damaged.id,)))  # noqa: S608
    assert [message.id for message in found_in(store, conversation.agent_id, "word")] == [sound.id]


def test_where_the_index_had_come_to_is_found_out_when_it_is_lost(store: Store) -> None:
    conversation = store.write(stored_conversation)
    store.write(messages.append, conversation.id, [a_message(conversation, "before")], NOW)
    assert len(found_in(store, conversation.agent_id, "before")) == 1
    store.write(lambda tx: tx.execute("DELETE FROM message_search_progress"))
    store.write(messages.append, conversation.id, [a_message(conversation, "after")], NOW)
    assert len(found_in(store, conversation.agent_id, "before")) == 1
    assert len(found_in(store, conversation.agent_id, "after")) == 1
