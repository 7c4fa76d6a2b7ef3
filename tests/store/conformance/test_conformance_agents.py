"""Agents: whole states, revisions, lists, deletion."""

from datetime import timedelta
from typing import Any, Literal

import pytest
from msgspec import structs
from store_examples import (
    LATER,
    NOW,
    Store,
    a_conversation,
    a_message,
    an_agent,
    stored_block,
    stored_conversation,
)

from eunoe.state.errors import NotFound, StaleRevision
from eunoe.state.identities import Identity
from eunoe.state.ids import named_id, new_id
from eunoe.state.runs import Run, Step
from eunoe.state.tools import Tool
from eunoe.store import agents, conversations, identities, messages, runs, secrets, steps, tools
from eunoe.store.agents import AgentQuery
from eunoe.store.cipher import Cipher
from eunoe.store.database import Row, Transaction


def a_tool(name: str) -> Tool:
    return Tool(id=named_id("tool", name), name=name, created_at=NOW, updated_at=NOW)


def an_identity(key: str) -> Identity:
    return Identity(
        id=new_id("identity"), identifier_key=key, name=key, identity_type="user", created_at=NOW, updated_at=NOW
    )


def furnished(tx: Transaction) -> str:
    """Store an agent that has some of everything, and return its id."""
    conversation = stored_conversation(tx, tags=("b", "a"))
    agent_id = conversation.agent_id
    for label in ("persona", "human"):
        stored_block(tx, agent_id, label=label, tags=(label,))
    for name in ("zoom", "add"):
        tool = tools.upsert_builtin(tx, a_tool(name))
        tools.attach(tx, agent_id, tool.id)
    identity = an_identity(agent_id)
    identities.insert(tx, identity)
    identities.set_for_agent(tx, agent_id, [identity.id])
    secrets.put(tx, agent_id, {"TOKEN": "t0ken", "KEY": "k3y"}, Cipher(bytes(32)), NOW)
    messages.append(tx, conversation.id, [a_message(conversation)], NOW)
    run = Run(id=new_id("run"), agent_id=agent_id, conversation_id=conversation.id, created_at=NOW)
    runs.insert(tx, run)
    step = Step(
        id=new_id("step"),
        run_id=run.id,
        agent_id=agent_id,
        conversation_id=conversation.id,
        ordinal=1,
        created_at=NOW,
    )
    steps.insert(tx, step)
    return agent_id


def test_the_whole_state_comes_back_in_its_order(store: Store) -> None:
    agent_id = store.write(furnished)
    state = store.read(agents.state, agent_id)
    assert state.agent == store.read(agents.get, agent_id)
    assert state.agent.tags == ("b", "a")
    assert [(block.label, block.tags) for block in state.blocks] == [("human", ("human",)), ("persona", ("persona",))]
    assert [tool.name for tool in state.tools] == ["zoom", "add"]
    assert [identity.identifier_key for identity in state.identities] == [agent_id]
    assert [secret.key for secret in state.secrets] == ["KEY", "TOKEN"]
    assert state.conversation == store.read(conversations.default, agent_id)


class Counting:
    """A transaction that counts its queries."""

    def __init__(self, tx: Transaction) -> None:
        self.dialect: Literal["sqlite", "postgres"] = tx.dialect
        self.execute = tx.execute
        self.execute_many = tx.execute_many
        self.insert = tx.insert
        self.after_commit = tx.after_commit
        self.queries = 0
        self._tx = tx

    def rows(self, sql: str, params: Any = ()) -> list[Row]:
        self.queries += 1
        return self._tx.rows(sql, params)

    def row(self, sql: str, params: Any = ()) -> Row | None:
        self.queries += 1
        return self._tx.row(sql, params)


def test_reading_many_states_takes_as_many_queries_as_reading_one(store: Store) -> None:
    ids = [store.write(furnished) for _ in range(4)]

    def queries(wanted: list[str]) -> int:
        def count(tx: Transaction) -> int:
            counting = Counting(tx)
            assert [state.agent.id for state in agents.states(counting, wanted)] == wanted
            return counting.queries

        return store.read(count)

    assert queries(ids[:1]) == queries(ids[::-1]) <= 11
    assert store.read(agents.states, []) == []


def test_an_update_is_the_next_revision(store: Store) -> None:
    agent = store.read(agents.get, store.write(furnished))
    changed = store.write(agents.update, structs.replace(agent, name="Bea", tags=("c",)), now=LATER)
    assert (changed.name, changed.tags, changed.revision, changed.updated_at) == ("Bea", ("c",), 2, LATER)
    assert store.read(agents.get, agent.id) == changed
    assert store.write(agents.update, changed, now=LATER + timedelta(days=1)) == changed


def test_an_update_from_an_older_reading_is_refused(store: Store) -> None:
    agent = store.read(agents.get, store.write(furnished))
    store.write(agents.update, structs.replace(agent, name="Bea"), now=LATER)
    with pytest.raises(StaleRevision) as caught:
        store.write(agents.update, structs.replace(agent, name="Cleo"), now=LATER)
    assert caught.value.details == {"expected_revision": 1, "current_revision": 2}
    assert store.read(agents.get, agent.id).name == "Bea"


def test_how_the_last_run_ended_is_recorded_and_changes_nothing_else(store: Store) -> None:
    agent = store.read(agents.get, store.write(furnished))
    store.write(agents.set_last_run, agent.id, "end_turn", LATER, 1200)
    assert store.read(agents.get, agent.id) == structs.replace(
        agent, last_stop_reason="end_turn", last_run_completion=LATER, last_run_duration_ms=1200
    )


def test_an_unknown_agent_is_named_in_the_error(store: Store) -> None:
    missing = new_id("agent")
    sentence = f"Agent with ID {missing} not found"
    for work in (agents.get, agents.state, agents.delete):
        with pytest.raises(NotFound, match=sentence):
            store.write(work, missing)
    with pytest.raises(NotFound, match=sentence):
        store.write(agents.set_last_run, missing, None, None, None)
    with pytest.raises(NotFound, match=sentence):
        store.write(agents.update, an_agent(id=missing), now=NOW)


def test_deleting_an_agent_leaves_nothing_of_its_own(store: Store) -> None:
    agent_id, other = store.write(furnished), store.write(furnished)
    fork_of = store.read(conversations.default, agent_id).id
    store.write(conversations.fork, fork_of, a_conversation(agent_id, is_default=False))

    def counts(tx: Transaction) -> dict[str, int]:
        own = ("agents", "conversations", "messages", "conversation_messages", "runs", "steps", "secrets")
        joins = ("agent_tags", "agents_blocks", "agents_tools", "agents_identities")
        return {table: tx.rows(f"SELECT COUNT(*) FROM {table}")[0][0] for table in (*own, *joins)}  # noqa: S608 -- names from above

    store.write(agents.delete, agent_id)
    with_one = store.read(counts)
    store.write(agents.delete, other)
    assert {table: count for table, count in with_one.items() if count == 0} == {}
    assert set(store.read(counts).values()) == {0}


def test_a08_lists_of_agents_are_filtered_exactly(store: Store) -> None:
    cases_of = {"a": "test", "b": "test1", "c": "TEST 100%", "d": "hidden"}
    keys = {"a": "user", "b": "user1"}
    for letter, name in cases_of.items():
        agent = an_agent(
            id=f"agent-{letter}",
            name=name,
            created_at=NOW + timedelta(seconds=ord(letter)),
            tags={"a": ("x", "y"), "b": ("x",)}.get(letter, ()),
            hidden=letter == "d",
            last_stop_reason="error" if letter == "b" else None,
        )
        store.write(agents.insert, agent)
        if letter in keys:
            store.write(identities.insert, structs.replace(an_identity(keys[letter]), id=f"identity-{letter}"))
            store.write(identities.set_for_agent, agent.id, [f"identity-{letter}"])
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "cba"),
        ({"order": "asc"}, "abc"),
        ({"show_hidden": True}, "dcba"),
        ({"name": "test"}, "a"),
        ({"query_text": "test"}, "cba"),
        ({"query_text": "0%"}, "c"),
        ({"tags": ("x", "y")}, "ba"),
        ({"tags": ("x", "y"), "match_all_tags": True}, "a"),
        ({"identity_id": "identity-a"}, "a"),
        ({"identifier_keys": ("user",)}, "a"),
        ({"identifier_keys": ("user", "user1")}, "ba"),
        ({"last_stop_reason": "error"}, "b"),
    ]
    for filters, expected in cases:
        query = AgentQuery(**filters)
        assert "".join(agent.id[-1] for agent in store.read(agents.page, query)) == expected, filters
        assert store.read(agents.count, query) == len(expected), filters
