"""Blocks: revisions, labels, sharing, lists."""

from collections.abc import Callable

import pytest
from msgspec import structs
from store_examples import LATER, NOW, Store, a_block, stored_block, stored_conversation

from eunoe.state.errors import LabelTaken, NotFound, StaleRevision
from eunoe.state.ids import new_id
from eunoe.store import agents, blocks
from eunoe.store.blocks import BlockQuery
from eunoe.store.database import Transaction


def test_an_edit_is_the_next_revision_and_is_remembered_with_its_author(store: Store) -> None:
    block = store.write(stored_block, value="one")
    changed = store.write(
        blocks.update,
        structs.replace(block, value="two"),
        expected_revision=1,
        actor="agent:agent-1",
        run_id="run-1",
        now=LATER,
    )
    assert (changed.value, changed.revision, changed.created_at, changed.updated_at) == ("two", 2, NOW, LATER)
    assert store.read(blocks.get, block.id) == changed
    history = store.read(blocks.revisions, block.id, 10)
    assert [(r.revision, r.value, r.actor, r.run_id, r.created_at) for r in history] == [
        (2, "two", "agent:agent-1", "run-1", LATER),
        (1, "one", "user", None, NOW),
    ]
    assert [r.revision for r in store.read(blocks.revisions, block.id, 10, before_revision=2)] == [1]
    assert [r.revision for r in store.read(blocks.revisions, block.id, 1)] == [2]


def test_b03_of_two_writes_from_one_revision_one_wins_and_the_other_learns_the_current_one(store: Store) -> None:
    block = store.write(stored_block)
    store.write(
        blocks.update, structs.replace(block, value="a"), expected_revision=1, actor="user", run_id=None, now=LATER
    )
    with pytest.raises(StaleRevision) as caught:
        store.write(
            blocks.update, structs.replace(block, value="b"), expected_revision=1, actor="user", run_id=None, now=LATER
        )
    assert caught.value.details == {"expected_revision": 1, "current_revision": 2}
    assert store.read(blocks.get, block.id).value == "a"
    assert len(store.read(blocks.revisions, block.id, 10)) == 2


def test_an_edit_that_changes_nothing_writes_nothing(store: Store) -> None:
    block = store.write(stored_block, tags=("x", "y"))
    same = store.write(blocks.update, block, expected_revision=1, actor="user", run_id=None, now=LATER)
    assert same == block
    assert store.read(blocks.get, block.id) == block
    assert len(store.read(blocks.revisions, block.id, 10)) == 1


def test_an_edit_of_an_unknown_block_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.write(blocks.update, a_block(), expected_revision=1, actor="user", run_id=None, now=NOW)


def test_b12_a_second_block_of_a_label_is_refused_in_words(store: Store) -> None:
    agent_id = store.write(stored_conversation).agent_id
    first = store.write(stored_block, agent_id, label="human")
    second = store.write(stored_block, label="human")
    with pytest.raises(LabelTaken, match=f"Agent {agent_id} already has a block with label 'human'"):
        store.write(blocks.attach, agent_id, second.id)
    assert store.read(blocks.of_agent, agent_id) == (first,)


def test_attaching_and_detaching_twice_is_the_same_as_once(store: Store) -> None:
    agent_id = store.write(stored_conversation).agent_id
    block = store.write(stored_block)
    for _ in range(2):
        store.write(blocks.attach, agent_id, block.id)
        assert store.read(blocks.agent_ids, block.id) == [agent_id]
    for _ in range(2):
        store.write(blocks.detach, agent_id, block.id)
        assert store.read(blocks.of_agent, agent_id) == ()


@pytest.mark.parametrize("work", [blocks.attach, blocks.detach])
def test_attaching_and_detaching_need_both_to_be_there(
    store: Store, work: Callable[[Transaction, str, str], None]
) -> None:
    agent_id = store.write(stored_conversation).agent_id
    block = store.write(stored_block)
    missing_agent, missing_block = new_id("agent"), new_id("block")
    with pytest.raises(NotFound, match=f"Agent with ID {missing_agent} not found"):
        store.write(work, missing_agent, block.id)
    with pytest.raises(NotFound, match=missing_block):
        store.write(work, agent_id, missing_block)


def test_a_shared_block_renamed_is_renamed_for_every_agent(store: Store) -> None:
    one, two = (store.write(stored_conversation).agent_id for _ in range(2))
    block = store.write(stored_block, one, two, label="human")
    renamed = store.write(
        blocks.update, structs.replace(block, label="person"), expected_revision=1, actor="user", run_id=None, now=LATER
    )
    for agent_id in (one, two):
        assert store.read(blocks.by_label, agent_id, "person") == renamed
        with pytest.raises(NotFound, match=f"No block with label 'human' found for agent '{agent_id}'"):
            store.read(blocks.by_label, agent_id, "human")


def test_a_rename_that_clashes_in_one_agent_changes_nothing_anywhere(store: Store) -> None:
    one, two = (store.write(stored_conversation).agent_id for _ in range(2))
    block = store.write(stored_block, one, two, label="human")
    store.write(stored_block, two, label="person")
    with pytest.raises(LabelTaken, match=two):
        store.write(
            blocks.update,
            structs.replace(block, label="person"),
            expected_revision=1,
            actor="user",
            run_id=None,
            now=LATER,
        )
    assert store.read(blocks.by_label, one, "human") == block
    assert store.read(blocks.by_label, two, "human") == block


def test_the_blocks_of_an_agent_are_in_code_point_order_of_their_labels(store: Store) -> None:
    agent_id = store.write(stored_conversation).agent_id
    labels = ["b", "a", "Z", "é", "z", "日本", "_"]
    for label in labels:
        store.write(stored_block, agent_id, label=label)
    assert [block.label for block in store.read(blocks.of_agent, agent_id)] == sorted(labels)


def test_c05_agents_that_share_a_block_see_one_value(store: Store) -> None:
    one, two = (store.write(stored_conversation).agent_id for _ in range(2))
    block = store.write(stored_block, one, two, value="old")
    store.write(
        blocks.update, structs.replace(block, value="new"), expected_revision=1, actor="user", run_id=None, now=LATER
    )
    assert store.read(agents.state, two).blocks[0].value == "new"


def test_b06_a_block_outlives_an_agent_that_had_it(store: Store) -> None:
    one, two = (store.write(stored_conversation).agent_id for _ in range(2))
    shared = store.write(stored_block, one, two, label="shared")
    own = store.write(stored_block, one, label="own")
    store.write(agents.delete, one)
    assert store.read(blocks.of_agent, two) == (shared,)
    assert store.read(blocks.get, own.id) == own
    assert store.read(blocks.agent_ids, own.id) == []


def test_a_deleted_block_is_gone_with_its_history_and_from_its_agents(store: Store) -> None:
    agent_id = store.write(stored_conversation).agent_id
    block = store.write(stored_block, agent_id)
    store.write(blocks.delete, block.id)
    assert store.read(blocks.of_agent, agent_id) == ()
    assert store.read(blocks.revisions, block.id, 10) == []
    for work in (blocks.get, blocks.delete):
        with pytest.raises(NotFound):
            store.write(work, block.id)


def test_many_returns_blocks_in_the_order_that_was_asked_for(store: Store) -> None:
    found = [store.write(stored_block, label=label) for label in "abc"]
    wanted = [found[2], found[0], found[1]]
    assert store.read(blocks.many, [block.id for block in wanted]) == wanted
    missing = new_id("block")
    with pytest.raises(NotFound, match=missing):
        store.read(blocks.many, [found[0].id, missing])


def test_lists_of_blocks_are_filtered(store: Store) -> None:
    one, two = (store.write(stored_conversation).agent_id for _ in range(2))
    for block in (
        a_block("human", "100% of maps", id="block-a", tags=("x", "y"), description="About Sarah"),
        a_block("persona", "1000 maps_and", id="block-b", tags=("x",)),
        a_block("notes", "nothing", id="block-c", hidden=True),
        a_block("form", "nothing", id="block-d", extra={"is_template": True}),
    ):
        store.write(blocks.insert, block)
    store.write(blocks.attach, one, "block-a")
    store.write(blocks.attach, two, "block-a")
    store.write(blocks.attach, one, "block-b")
    cases = [
        ({}, "abd"),
        ({"show_hidden": True}, "abcd"),
        ({"label": "human"}, "a"),
        ({"label_search": "ERSO"}, "b"),
        ({"description_search": "sarah"}, "a"),
        ({"value_search": "0%"}, "a"),
        ({"value_search": "s_a"}, "b"),
        ({"value_search": "\\"}, ""),
        ({"tags": ("x", "y")}, "ab"),
        ({"tags": ("x", "y"), "match_all_tags": True}, "a"),
        ({"templates_only": True}, "d"),
        ({"connected_to_agents_count_gt": 1}, "a"),
        ({"connected_to_agents_count_lt": 1}, "d"),
        ({"connected_to_agents_count_eq": (1, 2)}, "ab"),
        ({"connected_to_agents_count_eq": ()}, ""),
    ]
    for filters, expected in cases:
        query = BlockQuery(**filters)
        assert "".join(block.id[-1] for block in store.read(blocks.page, query)) == expected, filters
        assert store.read(blocks.count, query) == len(expected), filters


def test_a_block_that_stops_being_a_template_is_listed_as_none(store: Store) -> None:
    block = store.write(stored_block, extra={"is_template": True})
    store.write(
        blocks.update, structs.replace(block, extra={}), expected_revision=1, actor="user", run_id=None, now=LATER
    )
    assert store.read(blocks.page, BlockQuery(templates_only=True)) == []
