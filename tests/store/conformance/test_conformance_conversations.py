"""Conversations: windows, forks, healing, leases."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from store_examples import LATER, NOW, Store, a_conversation, a_message, stored_conversation

from eunoe.state.conversations import Compiled, Conversation, PromptFacts
from eunoe.state.errors import Conflict, LeaseLost, NotFound
from eunoe.state.ids import new_id
from eunoe.state.messages import POSITION_STEP, Message
from eunoe.store import agents, conversations, full_text, messages
from eunoe.store.conversations import ConversationQuery
from eunoe.store.messages import MessageQuery


def append(store: Store, conversation: Conversation, *texts: str) -> tuple[Message, ...]:
    return store.write(messages.append, conversation.id, [a_message(conversation, text) for text in texts], LATER)


def texts_of(found: tuple[Message, ...] | list[Message]) -> list[str]:
    return [message.text for message in found]


def window(store: Store, conversation_id: str) -> list[str]:
    return texts_of(store.read(lambda tx: conversations.window(tx, conversations.get(tx, conversation_id))))


def test_appended_messages_get_growing_places_and_come_back_whole(store: Store) -> None:
    conversation = store.write(stored_conversation)
    first = append(store, conversation, "one", "two")
    second = append(store, conversation, "three")
    placed = [*first, *second]
    assert [message.position for message in placed] == [1000, 2000, 3000]
    assert [message.seq for message in placed] == sorted({message.seq for message in placed})
    after = store.read(conversations.get, conversation.id)
    assert (after.next_position, after.last_message_at) == (4000, LATER)
    assert list(store.read(conversations.window, after)) == placed
    assert store.read(messages.get, placed[1].id) == placed[1]


def test_appending_nothing_changes_nothing(store: Store) -> None:
    conversation = store.write(stored_conversation)
    assert append(store, conversation) == ()
    assert store.read(conversations.get, conversation.id) == conversation


def test_appending_to_an_unknown_conversation_stores_nothing(store: Store) -> None:
    conversation = store.write(stored_conversation)
    with pytest.raises(NotFound):
        store.write(messages.append, new_id("conv"), [a_message(conversation)], NOW)
    assert store.read(messages.count, conversation.agent_id) == 0


def test_the_window_is_the_summary_then_the_tail_without_older_summaries(store: Store) -> None:
    conversation = store.write(stored_conversation)
    _, two, _ = append(store, conversation, "one", "two", "three")
    for text in ("old summary", "new summary"):
        (summary,) = store.write(
            messages.append, conversation.id, [a_message(conversation, text, role="summary")], LATER
        )
    store.write(
        lambda tx: conversations.update(
            tx,
            structs.replace(
                conversations.get(tx, conversation.id), window_from=two.position, summary_message_id=summary.id
            ),
            LATER,
        )
    )
    append(store, conversation, "four")
    assert window(store, conversation.id) == ["new summary", "two", "three", "four"]
    history = store.read(messages.page, MessageQuery(conversation_id=conversation.id, order="asc"))
    assert texts_of(history) == ["one", "two", "three", "old summary", "new summary", "four"]


def test_a_healing_message_goes_between_its_neighbours(store: Store) -> None:
    conversation = store.write(stored_conversation)
    one, two = append(store, conversation, "one", "two")
    healed = store.write(messages.insert_after, conversation.id, a_message(conversation, "healed"), one.position)
    assert one.position < healed.position < two.position
    assert healed.seq > two.seq
    last = store.write(messages.insert_after, conversation.id, a_message(conversation, "last"), two.position)
    append(store, conversation, "three")
    assert last.position == 3000
    assert window(store, conversation.id) == ["one", "healed", "two", "last", "three"]


def test_healing_says_so_when_there_is_no_place_left(store: Store) -> None:
    conversation = store.write(stored_conversation)
    one, _ = append(store, conversation, "one", "two")

    def heal() -> None:
        store.write(messages.insert_after, conversation.id, a_message(conversation), one.position)

    # Each one takes the middle of what is left of the step between two messages.
    for _ in range(POSITION_STEP.bit_length() - 1):
        heal()
    with pytest.raises(Conflict, match=f"Conversation {conversation.id} has no place left"):
        heal()
    assert store.read(messages.count, conversation.agent_id, conversation.id) == 2 + 9


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(st.integers(min_value=-2, max_value=5), max_size=12))
def test_any_mix_of_appending_and_healing_keeps_one_order(store: Store, actions: list[int]) -> None:
    conversation = store.write(stored_conversation)
    expected: list[Message] = []
    for action in actions:
        if action < 0 or not expected:
            expected.extend(append(store, conversation, *["x"] * abs(action)))
        else:
            at = action % len(expected)
            message = a_message(conversation)
            expected.insert(at + 1, store.write(messages.insert_after, conversation.id, message, expected[at].position))
    found = store.read(lambda tx: conversations.window(tx, conversations.get(tx, conversation.id)))
    assert [message.id for message in found] == [message.id for message in expected]
    positions = [message.position for message in found]
    assert positions == sorted(set(positions))


def test_a_span_leaves_out_what_was_healed_later(store: Store) -> None:
    conversation = store.write(stored_conversation)
    one, two, three = append(store, conversation, "one", "two", "three")
    store.write(messages.insert_after, conversation.id, a_message(conversation, "healed"), one.position)
    span = (conversation.id, one.position, two.position)
    assert texts_of(store.read(messages.span, *span)) == ["one", "healed", "two"]
    assert texts_of(store.read(messages.span, *span, three.seq)) == ["one", "two"]


def test_a_fork_shares_the_messages_and_then_goes_its_own_way(store: Store) -> None:
    conversation = store.write(stored_conversation)
    shared = append(store, conversation, "one", "two")
    fork = store.write(
        conversations.fork, conversation.id, a_conversation(conversation.agent_id, is_default=False, summary="fork")
    )
    append(store, conversation, "left")
    append(store, fork, "right")
    assert window(store, conversation.id) == ["one", "two", "left"]
    assert window(store, fork.id) == ["one", "two", "right"]
    assert store.read(messages.count, conversation.agent_id) == 4
    assert store.read(messages.get, shared[0].id, conversation_id=fork.id) == shared[0]


def test_deleting_a_conversation_leaves_what_a_fork_shares(store: Store) -> None:
    conversation = store.write(stored_conversation)
    other = a_conversation(conversation.agent_id, is_default=False)
    store.write(conversations.insert, other)
    append(store, other, "shared")
    fork = store.write(conversations.fork, other.id, a_conversation(conversation.agent_id, is_default=False))
    append(store, other, "own")
    store.write(conversations.delete, other.id)
    assert window(store, fork.id) == ["shared"]
    assert store.read(messages.count, conversation.agent_id) == 1
    for work in (conversations.get, conversations.delete):
        with pytest.raises(NotFound):
            store.write(work, other.id)


def test_reset_empties_the_windows_and_positions_go_on(store: Store) -> None:
    conversation = store.write(stored_conversation)
    bystander = store.write(stored_conversation)
    append(store, conversation, "one", "two")
    append(store, bystander, "theirs")
    store.write(messages.delete_all, conversation.agent_id)
    assert window(store, conversation.id) == []
    store.write(full_text.catch_up)
    assert store.read(messages.search, conversation.agent_id, "one") == []
    assert append(store, conversation, "three")[0].position == 3000
    assert window(store, conversation.id) == ["three"]
    assert window(store, bystander.id) == ["theirs"]


def test_a_lease_taken_over_fences_the_earlier_run_off(store: Store) -> None:
    conversation = store.write(stored_conversation)
    lease = {"owner": "owner", "now": NOW, "expires_at": LATER}
    taken = store.write(conversations.take_lease, conversation.id, run_id="run-1", **lease)
    assert taken == store.read(conversations.get, conversation.id)
    first = taken.fence
    store.read(conversations.hold, conversation.id, first)
    held = store.read(conversations.get, conversation.id)
    assert (held.lease_run_id, held.lease_owner, held.lease_expires_at) == ("run-1", "owner", LATER)
    second = store.write(conversations.take_lease, conversation.id, run_id="run-2", **lease).fence
    assert second == first + 1
    with pytest.raises(LeaseLost, match=f"no longer holds conversation {conversation.id}"):
        store.read(conversations.hold, conversation.id, first)
    assert store.write(conversations.release_lease, conversation.id, first) is False
    assert store.read(conversations.get, conversation.id).lease_run_id == "run-2"


def test_places_come_with_a_lease_and_only_its_holder_gets_more(store: Store) -> None:
    conversation = store.write(stored_conversation)
    lease: dict[str, Any] = {"owner": "owner", "expires_at": None}
    first = store.write(conversations.take_lease, conversation.id, run_id="run-1", now=LATER, places=2, **lease)
    assert (first.next_position, first.last_message_at) == (conversation.next_position + 2000, LATER)
    two = [a_message(conversation), a_message(conversation)]
    stored = store.write(messages.append_reserved, conversation.id, first.next_position, two)
    assert [message.position for message in stored] == [conversation.next_position, conversation.next_position + 1000]
    end = store.write(conversations.hold_places, conversation.id, first.fence, 1, NOW)
    assert end == first.next_position + 1000
    second = store.write(conversations.take_lease, conversation.id, run_id="run-2", now=LATER, **lease)
    assert (second.next_position, second.last_message_at) == (end, NOW)
    with pytest.raises(LeaseLost, match=f"no longer holds conversation {conversation.id}"):
        store.write(conversations.hold_places, conversation.id, first.fence, 1, LATER)
    assert store.read(conversations.get, conversation.id) == second
    for work in (conversations.take_lease, conversations.hold_places):
        args: dict[str, Any] = {"run_id": "run-3", **lease} if work is conversations.take_lease else {"fence": 1}
        with pytest.raises(NotFound):
            store.write(work, "conv-none", places=1, now=NOW, **args)


def test_a_message_whose_row_is_changed_by_hand_is_read_as_it_is_then(store: Store) -> None:
    """Decoded messages are kept in memory, and must not hide what the store holds."""
    conversation = store.write(stored_conversation)
    append(store, conversation, "as it was said")
    assert window(store, conversation.id) == ["as it was said"]
    store.write(lambda tx: tx.execute("UPDATE messages SET parts = REPLACE(parts, 'was', 'is')"))
    assert window(store, conversation.id) == ["as it is said"]


def test_a_lease_is_given_back(store: Store) -> None:
    conversation = store.write(stored_conversation)
    taken = store.write(
        conversations.take_lease, conversation.id, run_id="run-1", owner="owner", now=NOW, expires_at=None
    )
    assert taken.lease_expires_at is None
    fence = taken.fence
    assert store.write(conversations.release_lease, conversation.id, fence) is True
    free = store.read(conversations.get, conversation.id)
    assert (free.lease_run_id, free.lease_owner, free.lease_expires_at, free.fence) == (None, None, None, fence)
    assert store.write(conversations.release_lease, conversation.id, fence) is False


def test_an_update_from_an_old_reading_does_not_undo_messages_or_leases(store: Store) -> None:
    conversation = store.write(stored_conversation)
    append(store, conversation, "one")
    store.write(conversations.take_lease, conversation.id, run_id="run-1", owner="o", now=NOW, expires_at=LATER)
    stored = store.write(conversations.update, structs.replace(conversation, summary="A talk"), LATER)
    assert stored == store.read(conversations.get, conversation.id)
    assert (stored.summary, stored.updated_at) == ("A talk", LATER)
    assert (stored.next_position, stored.fence, stored.lease_run_id) == (2000, 1, "run-1")


def test_what_a_prompt_was_made_from_is_kept_to_the_microsecond(store: Store) -> None:
    conversation = store.write(stored_conversation)
    compiled = Compiled(
        hash="h",
        system_hash="s",
        memory_revision="m",
        inputs_hash="i",
        facts=PromptFacts(compiled_at=NOW, message_count=3, archive_tags=("a",)),
    )
    store.write(conversations.set_compiled, conversation.id, compiled)
    assert store.read(conversations.default, conversation.agent_id).compiled == compiled
    with pytest.raises(NotFound):
        store.write(conversations.set_compiled, new_id("conv"), compiled)


def test_an_agent_has_one_default_conversation(store: Store) -> None:
    conversation = store.write(stored_conversation)
    with pytest.raises(Conflict):
        store.write(conversations.insert, a_conversation(conversation.agent_id))
    assert store.read(conversations.default, conversation.agent_id) == conversation
    with pytest.raises(NotFound, match="Agent with ID"):
        store.read(conversations.default, new_id("agent"))
    with pytest.raises(NotFound, match="Agent with ID"):
        store.write(conversations.insert, a_conversation(new_id("agent")))


def test_conversations_are_listed_by_what_was_asked(store: Store) -> None:
    default = store.write(stored_conversation)
    agent_id = default.agent_id
    old, new = (
        a_conversation(agent_id, is_default=False, summary=summary, created_at=NOW + timedelta(days=day))
        for day, summary in enumerate(["About maps", "About 100% wool"], start=1)
    )
    for conversation in (old, new):
        store.write(conversations.insert, conversation)
    store.write(messages.append, old.id, [a_message(old)], LATER + timedelta(days=9))

    def listed(**filters: Any) -> list[str]:
        query = ConversationQuery(agent_id=agent_id, **filters)
        return [conversation.id for conversation in store.read(conversations.page, query)]

    assert listed() == [new.id, old.id]
    assert listed(include_default=True) == [new.id, old.id, default.id]
    assert listed(order="asc") == [old.id, new.id]
    assert listed(order_by="last_message_at") == [old.id, new.id]
    assert listed(summary_search="0%") == [new.id]
    assert listed(summary_search="ABOUT") == [new.id, old.id]
    assert [c.id for c in store.read(conversations.of_agent, agent_id)] == [default.id, old.id, new.id]
    store.write(agents.delete, agent_id)
    assert listed(include_default=True) == []
