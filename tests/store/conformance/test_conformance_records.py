"""Tools, identities, secrets, texts, runs and steps."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs
from store_examples import LATER, NOW, Store, stored_conversation

from eunoe.state.errors import Conflict, NotFound, StoreError
from eunoe.state.identities import Identity
from eunoe.state.ids import new_id
from eunoe.state.runs import Run, RunError, Step, StepRequest, Usage
from eunoe.state.tools import Tool
from eunoe.store import identities, runs, secrets, steps, texts, tools
from eunoe.store.cipher import Cipher
from eunoe.store.identities import IdentityQuery
from eunoe.store.runs import RunQuery
from eunoe.store.steps import StepQuery
from eunoe.store.tools import ToolQuery


def a_tool(name: str, **fields: Any) -> Tool:
    given: dict[str, Any] = {"id": new_id("tool"), "created_at": NOW, "updated_at": NOW}
    return Tool(name=name, **(given | fields))


def an_identity(key: str, **fields: Any) -> Identity:
    given: dict[str, Any] = {"id": new_id("identity"), "name": key, "created_at": NOW, "updated_at": NOW}
    return Identity(identifier_key=key, identity_type="user", **(given | fields))


def test_tools_of_an_agent_are_in_the_order_of_attachment(store: Store) -> None:
    agent_id = store.write(stored_conversation).agent_id
    one, two, three = (a_tool(name) for name in ("zoom", "add", "mix"))
    for tool in (one, two, three):
        store.write(tools.insert, tool)
        store.write(tools.attach, agent_id, tool.id)
    store.write(tools.attach, agent_id, one.id)
    assert store.read(tools.of_agent, agent_id) == (one, two, three)
    for _ in range(2):
        store.write(tools.detach, agent_id, one.id)
    store.write(tools.attach, agent_id, one.id)
    assert store.read(tools.of_agent, agent_id) == (two, three, one)
    store.write(tools.delete, two.id)
    assert store.read(tools.of_agent, agent_id) == (three, one)
    for work in (tools.attach, tools.detach):
        with pytest.raises(NotFound, match=two.id):
            store.write(work, agent_id, two.id)


def test_two_tools_of_one_name_are_refused(store: Store) -> None:
    one, two = a_tool("one"), a_tool("two")
    store.write(tools.insert, one)
    store.write(tools.insert, two)
    with pytest.raises(Conflict, match="already a tool named 'one'"):
        store.write(tools.insert, a_tool("one"))
    with pytest.raises(Conflict, match="already a tool named 'one'"):
        store.write(tools.update, structs.replace(two, name="one"), now=LATER)
    changed = store.write(tools.update, structs.replace(two, description="Adds."), now=LATER)
    assert (changed.description, changed.updated_at) == ("Adds.", LATER)
    assert store.read(tools.by_names, ["one", "two", "three"]) == {"one": one, "two": changed}
    with pytest.raises(NotFound):
        store.write(tools.update, a_tool("three"), now=LATER)


def test_a_built_in_tool_is_brought_up_to_date_and_a_users_tool_of_its_name_is_left(store: Store) -> None:
    first = a_tool("search", tool_type="letta_core")
    assert store.write(tools.upsert_builtin, first) == first
    newer = structs.replace(first, description="Searches.", created_at=LATER, updated_at=LATER)
    stored = store.write(tools.upsert_builtin, newer)
    assert (stored.description, stored.created_at, stored.updated_at) == ("Searches.", NOW, LATER)
    again = structs.replace(newer, updated_at=LATER + timedelta(days=1))
    assert store.write(tools.upsert_builtin, again) == stored == store.read(tools.get, first.id)
    theirs = a_tool("mine")
    store.write(tools.insert, theirs)
    assert store.write(tools.upsert_builtin, a_tool("mine", tool_type="letta_core")) == theirs


def test_lists_of_tools_are_filtered(store: Store) -> None:
    for day, (letter, name, kind) in enumerate(
        [("a", "add_one", "custom"), ("b", "addXone", "custom"), ("c", "memory", "letta_core")]
    ):
        store.write(tools.insert, a_tool(name, id=letter, tool_type=kind, created_at=NOW + timedelta(days=day)))
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "cba"),
        ({"name": "memory"}, "c"),
        ({"names": ("memory", "add_one")}, "ca"),
        ({"search": "D_O"}, "a"),
        ({"tool_types": ("letta_core",)}, "c"),
        ({"exclude_tool_types": ("letta_core",)}, "ba"),
        ({"tool_ids": ("a", "z")}, "a"),
        ({"tool_ids": ()}, ""),
        ({"limit": 1, "after": "c"}, "b"),
    ]
    for filters, expected in cases:
        assert "".join(tool.id for tool in store.read(tools.page, ToolQuery(**filters))) == expected, filters
    assert store.read(tools.count, ToolQuery(search="add", limit=1)) == 2


def test_identities_of_an_agent_are_replaced_as_a_whole(store: Store) -> None:
    agent_id = store.write(stored_conversation).agent_id
    one, two = an_identity("two"), an_identity("one", properties=({"key": "k", "value": 1},))
    for identity in (one, two):
        store.write(identities.insert, identity)
    store.write(identities.set_for_agent, agent_id, [two.id, one.id, two.id])
    assert store.read(identities.of_agent, agent_id) == (two, one)
    assert store.read(identities.agent_ids, one.id) == [agent_id]
    missing = new_id("identity")
    with pytest.raises(NotFound, match=missing):
        store.write(identities.set_for_agent, agent_id, [missing])
    assert store.read(identities.of_agent, agent_id) == (two, one)
    store.write(identities.delete, two.id)
    assert store.read(identities.of_agent, agent_id) == (one,)
    store.write(identities.set_for_agent, agent_id, [])
    assert store.read(identities.of_agent, agent_id) == ()


def test_an_identifier_key_belongs_to_one_identity(store: Store) -> None:
    one, two = an_identity("one"), an_identity("two")
    store.write(identities.insert, one)
    store.write(identities.insert, two)
    with pytest.raises(Conflict, match=one.id):
        store.write(identities.insert, an_identity("one"))
    with pytest.raises(Conflict, match=one.id):
        store.write(identities.update, structs.replace(two, identifier_key="one"), now=LATER)
    changed = store.write(identities.update, structs.replace(two, name="Sarah"), now=LATER)
    assert store.read(identities.by_key, "two") == changed == store.read(identities.get, two.id)
    assert store.read(identities.by_key, "three") is None
    assert store.read(identities.page, IdentityQuery(name="SAR")) == [changed]
    assert store.read(identities.count, IdentityQuery(identifier_key="one")) == 1


def test_secrets_are_replaced_as_a_set_and_stay_encrypted(store: Store) -> None:
    agent_id = store.write(stored_conversation).agent_id
    cipher = Cipher(b"k" * 32)
    store.write(secrets.put, agent_id, {"TOKEN": "first-value", "OLD": "x"}, cipher, NOW)
    before = {secret.key: secret.id for secret in store.read(secrets.list, agent_id)}
    store.write(secrets.put, agent_id, {"TOKEN": "second-value", "NEW": "naïve"}, cipher, LATER)
    listed = store.read(secrets.list, agent_id)
    assert [secret.key for secret in listed] == ["NEW", "TOKEN"]
    assert listed[1].id == before["TOKEN"]
    assert store.read(secrets.reveal, agent_id, cipher) == {"TOKEN": "second-value", "NEW": "naïve"}
    assert "second-value" not in repr(listed)
    stored = store.read(lambda tx: b"".join(bytes(row[0]) for row in tx.rows("SELECT value FROM secrets")))
    assert b"second-value" not in stored


def test_secrets_do_not_open_with_another_key_or_for_another_agent(store: Store) -> None:
    one, two = (store.write(stored_conversation).agent_id for _ in range(2))
    cipher = Cipher(b"k" * 32)
    store.write(secrets.put, one, {"TOKEN": "secret-value"}, cipher, NOW)
    with pytest.raises(StoreError, match="its key is not the one in use") as caught:
        store.read(secrets.reveal, one, Cipher(b"o" * 32))
    assert "secret-value" not in str(caught.value)
    store.write(lambda tx: tx.execute("UPDATE secrets SET agent_id = ?", (two,)))
    with pytest.raises(StoreError):
        store.read(secrets.reveal, two, cipher)


def test_a_text_is_stored_once_under_its_hash(store: Store) -> None:
    key = store.write(texts.put, "né")
    assert key == "82b5c347493f76b114b701be8bf9205789f699075946fdf09051bf799d9cc117"
    assert store.write(texts.put, "né") == key
    assert store.read(texts.get, key) == "né"
    assert store.read(lambda tx: tx.row("SELECT COUNT(*) FROM texts")) == (1,)
    with pytest.raises(NotFound):
        store.read(texts.get, "0" * 64)


def test_runs_are_kept_and_found_again_after_a_crash(store: Store) -> None:
    conversation = store.write(stored_conversation)

    def a_run(letter: str, **fields: Any) -> Run:
        return Run(
            id=letter,
            agent_id=conversation.agent_id,
            conversation_id=conversation.id,
            created_at=NOW + timedelta(seconds=ord(letter)),
            **fields,
        )

    for run in (
        a_run("a", status="running"),
        a_run("b", background=True),
        a_run("c", status="completed", stop_reason="end_turn"),
    ):
        store.write(runs.insert, run)
    assert [run.id for run in store.read(runs.unfinished)] == ["a", "b"]
    ended = a_run(
        "a",
        status="failed",
        stop_reason="error",
        completed_at=LATER,
        usage=Usage(prompt_tokens=3, cached_tokens=2),
        step_count=2,
        error=RunError(type="llm_timeout", message="Try again."),
        request={"streaming": True},
    )
    store.write(runs.update, ended)
    assert store.read(runs.get, "a") == ended
    assert [run.id for run in store.read(runs.unfinished)] == ["b"]
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "cba"),
        ({"agent_id": conversation.agent_id, "conversation_id": conversation.id}, "cba"),
        ({"agent_id": new_id("agent")}, ""),
        ({"statuses": ("failed", "completed")}, "ca"),
        ({"background": True}, "b"),
        ({"background": False}, "ca"),
        ({"stop_reason": "end_turn"}, "c"),
        ({"active": True}, "b"),
        ({"order": "asc", "limit": 2, "after": "a"}, "bc"),
    ]
    for filters, expected in cases:
        assert "".join(run.id for run in store.read(runs.page, RunQuery(**filters))) == expected, filters
    with pytest.raises(NotFound):
        store.write(runs.update, a_run("z"))
    store.write(runs.delete, "a")
    for work in (runs.get, runs.delete):
        with pytest.raises(NotFound):
            store.write(work, "a")


def test_steps_of_a_run_are_in_order_and_come_back_whole(store: Store) -> None:
    conversation = store.write(stored_conversation)
    run = Run(id=new_id("run"), agent_id=conversation.agent_id, conversation_id=conversation.id, created_at=NOW)
    store.write(runs.insert, run)
    two, one = (
        Step(
            id=f"step-{ordinal}",
            run_id=run.id,
            agent_id=run.agent_id,
            conversation_id=run.conversation_id,
            ordinal=ordinal,
            created_at=NOW + timedelta(seconds=ordinal),
            model="demo",
        )
        for ordinal in (2, 1)
    )
    for step in (two, one):
        store.write(steps.insert, step)
    request = StepRequest(
        dialect="scripted",
        url="http://127.0.0.1",
        system_hash="s",
        tools_hash="t",
        options_hash="o",
        summary_message_id=None,
        from_position=1000,
        to_position=2000,
        to_seq=2,
        payload_hash="p",
    )
    changed = structs.replace(one, status="success", request=request, model_ns=5, completed_at=LATER)
    store.write(steps.update, changed)
    assert store.read(steps.of_run, run.id) == [changed, two]
    assert store.read(steps.get, one.id) == changed
    cases: list[tuple[dict[str, Any], list[Step]]] = [
        ({}, [two, changed]),
        ({"run_id": run.id, "agent_id": run.agent_id, "order": "asc"}, [changed, two]),
        ({"model": "other"}, []),
        ({"start": two.created_at}, [two]),
        ({"end": one.created_at}, [changed]),
    ]
    for filters, expected in cases:
        assert store.read(steps.page, StepQuery(**filters)) == expected, filters
    with pytest.raises(NotFound):
        store.write(steps.update, structs.replace(one, id="step-3"))
    store.write(runs.delete, run.id)
    with pytest.raises(NotFound):
        store.read(steps.get, one.id)
