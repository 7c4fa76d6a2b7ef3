"""Cursors: every list is visited exactly once, in both orders and both directions."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_examples import NOW, Store, a_conversation, a_message, an_agent, stored_block, stored_conversation

from eunoe.state.errors import NotFound
from eunoe.state.ids import new_id
from eunoe.store import agents, blocks, conversations, messages
from eunoe.store.agents import AgentQuery
from eunoe.store.blocks import BlockQuery
from eunoe.store.conversations import ConversationQuery
from eunoe.store.database import Transaction
from eunoe.store.messages import MessageQuery

# A few equal times among the others: ties must not lose or repeat anything.
times = st.lists(st.integers(min_value=0, max_value=3), max_size=9)
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

Pages = Callable[..., list[str]]


def check_pages(pages: Pages, expected: Sequence[str], limit: int) -> None:
    """Walk the list by ``after`` and back by ``before``; ``expected`` are all ids in ascending order."""
    for order, wanted in (("asc", list(expected)), ("desc", list(expected)[::-1])):
        seen: list[str] = []
        while page := pages(order=order, limit=limit, after=seen[-1] if seen else None):
            assert len(page) <= limit
            seen += page
        assert seen == wanted
        back = pages(order=order, limit=None)[-1:]
        while back and (page := pages(order=order, limit=limit, before=back[0])):
            assert len(page) <= limit
            back = page + back
        assert back == wanted
        if len(wanted) > 2:
            assert pages(order=order, limit=None, after=wanted[0], before=wanted[-1]) == wanted[1:-1]


@few
@given(offsets=times, limit=st.integers(1, 4))
def test_blocks(store: Store, offsets: list[int], limit: int) -> None:
    label = new_id("label")
    made = [store.write(stored_block, label=label, created_at=NOW + timedelta(seconds=offset)) for offset in offsets]
    made.sort(key=lambda block: (block.created_at, block.id))

    def pages(**page: Any) -> list[str]:
        return [block.id for block in store.read(blocks.page, BlockQuery(label=label, **page))]

    check_pages(pages, [block.id for block in made], limit)


@few
@given(offsets=times, limit=st.integers(1, 4), key=st.sampled_from(["created_at", "updated_at", "last_run_completion"]))
def test_agents(store: Store, offsets: list[int], limit: int, key: Any) -> None:
    name = new_id("name")
    made = [
        an_agent(
            name=name, **{key: NOW + timedelta(seconds=offset) if offset or key != "last_run_completion" else None}
        )
        for offset in offsets
    ]

    def insert(tx: Transaction) -> None:
        for agent in made:
            agents.insert(tx, agent)

    store.write(insert)
    made.sort(key=lambda agent: (getattr(agent, key) or NOW, agent.id))

    def pages(**page: Any) -> list[str]:
        return [agent.id for agent in store.read(agents.page, AgentQuery(name=name, order_by=key, **page))]

    check_pages(pages, [agent.id for agent in made], limit)


@few
@given(offsets=times, limit=st.integers(1, 4))
def test_conversations(store: Store, offsets: list[int], limit: int) -> None:
    agent_id = store.write(stored_conversation).agent_id
    made = [
        a_conversation(agent_id, is_default=False, created_at=NOW + timedelta(seconds=offset)) for offset in offsets
    ]
    for conversation in made:
        store.write(conversations.insert, conversation)
    made.sort(key=lambda conversation: (conversation.created_at, conversation.id))

    def pages(**page: Any) -> list[str]:
        query = ConversationQuery(agent_id=agent_id, **page)
        return [conversation.id for conversation in store.read(conversations.page, query)]

    check_pages(pages, [conversation.id for conversation in made], limit)


@few
@given(healed=st.lists(st.booleans(), max_size=8), limit=st.integers(1, 4))
def test_messages_of_a_conversation_by_position_and_of_an_agent_by_seq(
    store: Store, healed: list[bool], limit: int
) -> None:
    conversation = store.write(stored_conversation)

    def fill(tx: Transaction) -> None:
        for heals in healed:
            if heals:
                messages.insert_after(tx, conversation.id, a_message(conversation), 0)
            else:
                messages.append(tx, conversation.id, [a_message(conversation)], NOW)

    store.write(fill)
    stored = store.read(messages.page, MessageQuery(agent_id=conversation.agent_id, limit=None))

    def of_conversation(**page: Any) -> list[str]:
        query = MessageQuery(agent_id=conversation.agent_id, conversation_id=conversation.id, **page)
        return [message.id for message in store.read(messages.page, query)]

    def of_agent(**page: Any) -> list[str]:
        query = MessageQuery(agent_id=conversation.agent_id, **page)
        return [message.id for message in store.read(messages.page, query)]

    check_pages(of_conversation, [m.id for m in sorted(stored, key=lambda message: message.position)], limit)
    check_pages(of_agent, [m.id for m in sorted(stored, key=lambda message: message.seq)], limit)


def test_a_page_before_an_item_ends_right_before_it(store: Store) -> None:
    conversation = store.write(stored_conversation)
    sent = store.write(messages.append, conversation.id, [a_message(conversation) for _ in range(5)], NOW)
    query = MessageQuery(agent_id=conversation.agent_id, order="asc", limit=2, before=sent[4].id)
    assert store.read(messages.page, query) == [sent[2], sent[3]]


@pytest.mark.parametrize("cursor", ["before", "after"])
def test_an_unknown_cursor_is_not_found(store: Store, cursor: str) -> None:
    conversation = store.write(stored_conversation)
    stranger = store.write(stored_conversation)
    (theirs,) = store.write(messages.append, stranger.id, [a_message(stranger)], NOW)
    page: dict[str, Any] = {cursor: theirs.id}
    message = f"No message found with id '{theirs.id}' for agent '{conversation.agent_id}'."
    for query in (
        MessageQuery(agent_id=conversation.agent_id, **page),
        MessageQuery(agent_id=conversation.agent_id, conversation_id=conversation.id, **page),
    ):
        with pytest.raises(NotFound) as caught:
            store.read(messages.page, query)
        assert caught.value.message == message
    with pytest.raises(NotFound):
        store.read(agents.page, AgentQuery(**page))
    with pytest.raises(NotFound):
        store.read(blocks.page, BlockQuery(**page))
    with pytest.raises(NotFound):
        store.read(conversations.page, ConversationQuery(**page))


def test_messages_are_filtered_by_role_and_run(store: Store) -> None:
    conversation = store.write(stored_conversation)
    sent = [
        a_message(conversation, run_id="run-1"),
        a_message(conversation, role="assistant", run_id="run-1"),
        a_message(conversation, role="assistant", run_id="run-2"),
    ]
    store.write(messages.append, conversation.id, sent, NOW)

    def found(**filters: Any) -> list[int]:
        query = MessageQuery(agent_id=conversation.agent_id, order="asc", **filters)
        ids = [message.id for message in sent]
        return [ids.index(message.id) for message in store.read(messages.page, query)]

    assert found(roles=("assistant",)) == [1, 2]
    assert found(roles=()) == []
    assert found(run_id="run-1") == [0, 1]
    assert found(run_id="run-2", conversation_id=conversation.id) == [2]
