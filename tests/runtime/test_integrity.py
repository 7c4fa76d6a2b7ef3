"""What damage to a store is told, what of it is healed, and that nothing of it is read by halves."""
# ruff: noqa: S608 - the statements are put together from our own words

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from runtime_rig import INSERT, assert_paired, open_home, rows, send

from eunoe.embedded import Agent
from eunoe.runtime.compaction_call import compact_conversation
from eunoe.runtime.integrity import IntegrityReport, integrity, repair
from eunoe.runtime.watching import watch as watch_run
from eunoe.state.errors import StoreError
from eunoe.state.rules import ApprovalRule
from eunoe.store import runs, steps

pytestmark = pytest.mark.anyio

_TOOL: Final = "(SELECT id FROM messages WHERE role = 'tool')"
_CALL: Final = "(SELECT id FROM messages WHERE role = 'assistant' AND parts LIKE '%tool_call%')"
_ANSWER: Final = "(SELECT id FROM messages WHERE role = 'assistant' AND parts LIKE '%Noted.%')"

_HEALED: Final[dict[str, tuple[tuple[str, ...], str, str]]] = {
    "a return is gone": (
        (f"DELETE FROM messages WHERE id IN {_TOOL}",),
        "asked for calls that have no return",
        "Added error returns for 1 calls",
    ),
    "a call is gone": (
        (f"DELETE FROM messages WHERE id IN {_CALL}",),
        "returns what no message before it asked for",
        "Added calls for 1 returns",
    ),
    "a message has lost its place": (
        (f"DELETE FROM conversation_messages WHERE message_id IN {_ANSWER}",),
        "It is in no conversation.",
        "back into its conversation",
    ),
    "a call has lost its place": (
        (f"DELETE FROM conversation_messages WHERE message_id IN {_CALL}",),
        "It is in no conversation.",
        "back into its conversation",
    ),
    "the prompt's text is gone": (
        ("DELETE FROM texts WHERE text LIKE 'You are kind.%'",),
        "The text of its compiled prompt",
        "Compiled the prompt",
    ),
    "the prompt's text was altered": (
        ("UPDATE texts SET text = text || ' Be rude.' WHERE text LIKE 'You are kind.%'",),
        "does not have the hash",
        "Compiled the prompt",
    ),
    "the prompt was never compiled": (
        ("UPDATE conversations SET compiled = NULL",),
        "never compiled",
        "Compiled the prompt",
    ),
    "a run goes on for ever": (
        ("UPDATE runs SET status = 'running', completed_at = NULL, stop_reason = NULL",),
        "nothing carries it",
        "its end",
    ),
    "a lease is held by nobody": (
        ("UPDATE conversations SET lease_run_id = 'run-gone', lease_owner = 'nobody'",),
        "Its lease is held by run run-gone",
        "Freed conversation",
    ),
}
"""How a store is damaged while it is open, what integrity says, and what a repair says that it did."""


async def _lived_in(folder: Path) -> str:
    async with open_home(folder) as home:
        agent = await home.create_agent(model="scripted/demo", system="You are kind.", memory={"human": "Likes maps."})
        await agent.ask("SAY:Hello.")
        await agent.ask(f"{INSERT}\nTHEN:\nSAY:Noted.")
        return agent.id


def _damage(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "eunoe.db")) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0


def _told(report: IntegrityReport) -> str:
    return "\n".join(f"{one.subject}: {one.what}" for one in report.violations)


@pytest.mark.parametrize("name", list(_HEALED))
async def test_damage_is_told_and_healed_by_adding(tmp_path: Path, name: str) -> None:
    statements, said, done = _HEALED[name]
    agent_id = await _lived_in(tmp_path)
    async with open_home(tmp_path) as home:
        assert (await integrity(home.runtime, agent_id)).ok
        _damage(tmp_path, *statements)
        before = rows(tmp_path)
        report = await integrity(home.runtime, agent_id)
        assert not report.ok
        assert said in _told(report)
        assert rows(tmp_path) == before
        mended = await repair(home.runtime, agent_id)
        assert mended.ok
        assert done in "\n".join(mended.healed)
        # Nothing that was there was dropped or rewritten.
        assert set(before["messages"]) <= set(rows(tmp_path)["messages"])
        assert (await integrity(home.runtime, agent_id)).ok
        again = await repair(home.runtime, agent_id)
        assert (again.ok, again.healed) == (True, ())
        agent = Agent(home.runtime, agent_id)
        assert await agent.ask("SAY:on") == "on"
        assert_paired(await agent.window())
        made = await home.runtime.db.read(lambda tx: steps.page(tx, steps.StepQuery(limit=1)))
        assert (await agent.request_of(made[0].id)).verified


async def test_a_message_that_is_put_back_is_where_it_was(tmp_path: Path) -> None:
    agent_id = await _lived_in(tmp_path)
    for found in (_CALL, _TOOL, _ANSWER, "(SELECT id FROM messages ORDER BY seq LIMIT 1)"):
        before = rows(tmp_path)["conversation_messages"]
        async with open_home(tmp_path) as home:
            _damage(tmp_path, f"DELETE FROM conversation_messages WHERE message_id IN {found}")
            assert (await repair(home.runtime, agent_id)).ok
        assert rows(tmp_path)["conversation_messages"] == before


@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE messages SET parts = \'[{"type": "te\'',
        "UPDATE conversations SET compiled = '{'",
        "UPDATE agents SET tool_rules = 'none'",
        "UPDATE blocks SET metadata = '['",
    ],
)
async def test_a_row_that_cannot_be_read_is_refused_in_a_sentence_and_nothing_is_stored(
    tmp_path: Path, statement: str
) -> None:
    agent_id = await _lived_in(tmp_path)
    _damage(tmp_path, statement)
    async with open_home(tmp_path) as home:
        before = rows(tmp_path)
        agent = Agent(home.runtime, agent_id)
        for attempt in (
            lambda: agent.ask("SAY:Hello."),
            lambda: integrity(home.runtime, agent_id),
            lambda: repair(home.runtime, agent_id),
        ):
            with pytest.raises(StoreError, match=r"is damaged and cannot be read .* Restore the store from a backup"):
                await attempt()
        assert rows(tmp_path) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE texts SET text = text || ' Be rude.' WHERE text LIKE 'You are kind.%'",
        "DELETE FROM texts WHERE text LIKE 'You are kind.%'",
    ],
)
async def test_a_damaged_prompt_is_never_sent(tmp_path: Path, statement: str) -> None:
    async with open_home(tmp_path) as home:
        agent = await home.create_agent(model="scripted/demo", system="You are kind.", memory={"human": "Likes maps."})
        await agent.ask("SAY:Hello.")
        _damage(tmp_path, statement)
        before = rows(tmp_path)
        with pytest.raises(StoreError, match="Repair the agent"):
            await agent.ask("SAY:Hello.")
        assert rows(tmp_path) == before


async def test_a_summary_that_is_gone_brings_all_messages_back_into_view(tmp_path: Path) -> None:
    async with open_home(tmp_path) as home:
        agent = await home.create_agent(model="scripted/demo", memory={"human": "Likes maps."})
        for number in range(8):
            await agent.ask(f"SAY:{number}")
        whole = [message.id for message in await agent.window()]
        await compact_conversation(home.runtime, agent.id)
        assert len(await agent.window()) < len(whole)
        _damage(tmp_path, "DELETE FROM messages WHERE role = 'summary'")
        assert "Its summary" in _told(await integrity(home.runtime, agent.id))
        mended = await repair(home.runtime, agent.id)
        assert mended.ok
        assert "back into view" in mended.healed[0]
        assert [message.id for message in await agent.window()] == whole
        assert await agent.ask("SAY:on") == "on"


@pytest.mark.parametrize("what", ["messages WHERE id =", "conversation_messages WHERE message_id ="])
async def test_a_question_whose_message_is_gone_is_closed_or_gets_it_back(tmp_path: Path, what: str) -> None:
    async with open_home(tmp_path) as home:
        rules = (ApprovalRule(tool_name="memory_insert"),)
        agent = await home.create_agent(model="scripted/demo", memory={"human": "Likes maps."}, tool_rules=rules)
        await send(home, agent, INSERT)
        _damage(tmp_path, f"DELETE FROM {what} (SELECT message_id FROM approvals)")
        assert "waits for an answer about message" in _told(await integrity(home.runtime, agent.id))
        assert (await repair(home.runtime, agent.id)).ok
        told = await send(home, agent, "SAY:on", on_pending="deny_and_continue")
        assert told.messages[-1].text == "on"
        assert (await agent.block("human")).value == "Likes maps."


async def test_one_damaged_agent_does_not_keep_the_others_from_being_opened(tmp_path: Path) -> None:
    damaged_id = await _lived_in(tmp_path)
    _damage(
        tmp_path,
        "UPDATE messages SET parts = '['",
        "UPDATE runs SET status = 'running', completed_at = NULL",
        "UPDATE conversations SET lease_owner = 'nobody', lease_run_id = (SELECT MAX(id) FROM runs)",
    )
    async with open_home(tmp_path) as home:
        sound = await home.create_agent(model="scripted/demo")
        assert await sound.ask("SAY:Hello.") == "Hello."
        await home.runtime.tidy()
        with pytest.raises(StoreError, match="damaged"):
            await integrity(home.runtime, damaged_id)
        assert (await integrity(home.runtime, sound.id)).ok


async def test_events_that_cannot_be_told_keep_no_run_from_its_end_and_no_conversation_from_the_next(
    tmp_path: Path,
) -> None:
    async with open_home(tmp_path) as home:
        agent = await home.create_agent(model="scripted/demo")
        run_id = (await send(home, agent, "SAY:Hello.", background=True)).ended.run_id
    _damage(
        tmp_path,
        "UPDATE run_events SET event = '{'",
        "UPDATE runs SET status = 'running', completed_at = NULL, stop_reason = NULL",
        "UPDATE conversations SET lease_owner = 'nobody', lease_run_id = (SELECT id FROM runs)",
    )
    async with open_home(tmp_path) as home:
        assert (await home.runtime.db.read(lambda tx: runs.get(tx, run_id))).status == "failed"
        with pytest.raises(StoreError, match=r"events of run .* are damaged"):
            await watch_run(home.runtime, run_id)
        assert await (await home.agent(agent.id)).ask("SAY:On.") == "On."
