"""What runs leave in the store for each other: questions, events, requests to cancel, a conversation's own blocks."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs
from store_examples import (
    LATER,
    NOW,
    Store,
    a_block,
    a_conversation,
    a_message,
    stored_block,
    stored_conversation,
)

from eunoe.state.approvals import Approval
from eunoe.state.conversations import Conversation
from eunoe.state.errors import Conflict, NotFound
from eunoe.state.events import Event, MessageStored, RunEnded, RunStarted, TextDelta
from eunoe.state.ids import new_id
from eunoe.state.messages import ApprovalPart, ToolCallPart, ToolReturnPart
from eunoe.state.runs import Run, Usage
from eunoe.store import approvals, blocks, conversations, isolated, listing, messages, run_events, runs


def an_approval(conversation: Conversation, *call_ids: str, **fields: Any) -> Approval:
    given: dict[str, Any] = {
        "id": new_id("approval"),
        "agent_id": conversation.agent_id,
        "conversation_id": conversation.id,
        "run_id": "run-1",
        "message_id": "message-1",
        "calls": tuple(ToolCallPart(id=call_id, name="f", arguments="{}") for call_id in call_ids),
        "asked_at": NOW,
    }
    return Approval(**(given | fields))


def stored_run(store: Store, conversation: Conversation) -> Run:
    run = Run(id=new_id("run"), agent_id=conversation.agent_id, conversation_id=conversation.id, created_at=NOW)
    store.write(runs.insert, run)
    return run


def test_a_question_is_open_until_it_is_answered_and_then_it_is_kept(store: Store) -> None:
    conversation = store.write(stored_conversation)
    asked = an_approval(conversation, "c1", "c2")
    store.write(approvals.insert, asked)
    assert store.read(approvals.open_of, conversation.id) == asked
    assert store.read(approvals.open_of_agents, [conversation.agent_id]) == {conversation.agent_id: asked}
    answers = (
        ApprovalPart(tool_call_id="c1", approve=False, reason="No."),
        ToolReturnPart(tool_call_id="c2", name="f", content="done"),
    )
    answered = store.write(approvals.answer, asked, answers, by="user", run_id="run-2", now=LATER)
    assert (answered.answers, answered.answered_by, answered.answer_run_id) == (answers, "user", "run-2")
    assert store.read(approvals.open_of, conversation.id) is None
    assert store.read(approvals.open_of_agents, [conversation.agent_id]) == {}
    assert store.read(approvals.last_answered, conversation.id, ["c2", "c1"]) == answered
    assert store.read(approvals.last_answered, conversation.id, ["c1"]) is None


def test_l11_a_second_answer_changes_nothing(store: Store) -> None:
    conversation = store.write(stored_conversation)
    asked = an_approval(conversation, "c1")
    store.write(approvals.insert, asked)
    first = (ApprovalPart(tool_call_id="c1", approve=False),)
    second = (ApprovalPart(tool_call_id="c1", approve=True),)
    store.write(approvals.answer, asked, first, by="user", run_id=None, now=NOW)
    store.write(approvals.answer, asked, second, by="user", run_id=None, now=LATER)
    kept = store.read(approvals.last_answered, conversation.id, ["c1"])
    assert kept is not None
    assert (kept.answers, kept.answered_at) == (first, NOW)


def test_a_conversation_has_one_open_question_at_most(store: Store) -> None:
    conversation = store.write(stored_conversation)
    store.write(approvals.insert, an_approval(conversation, "c1"))
    with pytest.raises(Conflict):
        store.write(approvals.insert, an_approval(conversation, "c2"))


def test_only_open_questions_whose_time_is_over_expire(store: Store) -> None:
    due, later, never, answered = (store.write(stored_conversation) for _ in range(4))
    expired = an_approval(due, "c", expires_at=NOW)
    store.write(approvals.insert, expired)
    store.write(approvals.insert, an_approval(later, "c", expires_at=NOW + timedelta(microseconds=1)))
    store.write(approvals.insert, an_approval(never, "c"))
    store.write(approvals.insert, an_approval(answered, "c", expires_at=NOW, answered_at=NOW))
    assert store.read(approvals.expired, NOW) == [expired]


def test_events_of_a_run_come_back_in_order_until_they_are_forgotten(store: Store) -> None:
    conversation = store.write(stored_conversation)
    run = stored_run(store, conversation)
    events: list[Event] = [
        RunStarted(run_id=run.id, agent_id=run.agent_id, conversation_id=run.conversation_id),
        TextDelta(message_id="m", step_id="s", part=0, text="ü\u2028"),
        MessageStored(message=a_message(conversation)),
        RunEnded(run_id=run.id, stop_reason="end_turn", usage=Usage(prompt_tokens=1), step_count=1),
    ]
    assert store.read(run_events.last_seq, run.id) == 0
    store.write(run_events.append, run.id, 1, events[:3], NOW)
    store.write(run_events.append, run.id, 4, events[3:], NOW)
    assert store.read(run_events.of_run, run.id) == events
    assert store.read(run_events.last_seq, run.id) == 4
    with pytest.raises(Conflict):
        store.write(run_events.append, run.id, 4, events[:1], NOW)
    assert store.write(run_events.forget, LATER) == 0
    store.write(runs.update, structs.replace(run, status="completed", completed_at=NOW))
    assert store.write(run_events.forget, NOW) == 0
    assert store.write(run_events.forget, LATER) == 4
    assert store.read(run_events.of_run, run.id) == []


def test_a_request_to_cancel_is_seen_by_who_carries_the_run(store: Store) -> None:
    conversation = store.write(stored_conversation)
    one, two = stored_run(store, conversation), stored_run(store, conversation)
    for _ in range(2):
        store.write(runs.ask_to_cancel, one.id, NOW)
    assert store.read(runs.asked_to_cancel, [one.id, two.id]) == [one.id]


def test_b10_a_block_of_a_conversations_own_stands_for_the_agents_there_only(store: Store) -> None:
    conversation = store.write(stored_conversation)
    shared = store.write(stored_block, conversation.agent_id, label="human", value="shared")
    other = store.write(stored_block, conversation.agent_id, label="notes")
    side = a_conversation(conversation.agent_id, is_default=False)
    store.write(conversations.insert, side)
    own = a_block("human", "own")
    store.write(blocks.insert, own)
    store.write(isolated.put, side.id, own)
    seen = store.read(
        lambda tx: isolated.in_place_of(
            blocks.of_agent(tx, conversation.agent_id), isolated.of_conversation(tx, side.id)
        )
    )
    assert seen == (own, other)
    assert store.read(isolated.of_conversation, conversation.id) == ()
    assert store.read(blocks.of_agent, conversation.agent_id) == (shared, other)
    store.write(isolated.delete_of, side.id)
    assert store.read(isolated.of_conversation, side.id) == ()
    with pytest.raises(NotFound):
        store.read(blocks.get, own.id)


def test_a_fork_up_to_a_message_takes_what_came_before_it(store: Store) -> None:
    conversation = store.write(stored_conversation)
    sent = store.write(
        messages.append, conversation.id, [a_message(conversation, text) for text in ("one", "two", "three")], NOW
    )
    fork = store.write(
        conversations.fork,
        conversation.id,
        a_conversation(conversation.agent_id, is_default=False),
        up_to=sent[1].position,
    )
    (added,) = store.write(messages.append, fork.id, [a_message(fork, "other")], NOW)
    assert store.read(conversations.window, fork) == (sent[0], sent[1], added)


def test_a_request_is_known_again_by_its_otid_in_its_conversation(store: Store) -> None:
    one, two = store.write(stored_conversation), store.write(stored_conversation)
    store.write(messages.append, one.id, [a_message(one, otid="o-1", run_id="run-1")], NOW)
    assert store.read(messages.run_of_otids, one.id, ["o-0", "o-1"]) == "run-1"
    assert store.read(messages.run_of_otids, one.id, ["o-0"]) is None
    assert store.read(messages.run_of_otids, two.id, ["o-1"]) is None


def test_the_ids_of_a_window_are_those_of_its_messages(store: Store) -> None:
    conversation = store.write(stored_conversation)
    one, two = store.write(messages.append, conversation.id, [a_message(conversation) for _ in range(2)], NOW)
    (summary,) = store.write(messages.append, conversation.id, [a_message(conversation, role="summary")], NOW)
    stored = store.read(conversations.get, conversation.id)
    moved = store.write(
        conversations.update,
        structs.replace(stored, window_from=two.position, summary_message_id=summary.id),
        NOW,
    )
    other = store.write(stored_conversation)
    assert store.read(listing.window_ids, [moved, other]) == {
        moved.id: (moved.system_message_id, summary.id, two.id),
        other.id: (other.system_message_id,),
    }
    assert one.id not in store.read(listing.window_ids, [moved])[moved.id]


def test_tags_are_listed_once_by_name(store: Store) -> None:
    store.write(stored_conversation, tags=("b", "a"))
    store.write(stored_block, tags=("c", "a", "b%"))

    def names(**options: Any) -> list[str]:
        given: dict[str, Any] = {"before": None, "after": None, "limit": 10, "order": "asc", "containing": None}
        return store.read(listing.tag_names, **(given | options))

    assert names() == ["a", "b", "b%", "c"]
    assert names(order="desc", limit=2) == ["c", "b%"]
    assert names(after="b", limit=1) == ["b%"]
    assert names(before="c", limit=1) == ["b%"]
    assert names(containing="%") == ["b%"]
