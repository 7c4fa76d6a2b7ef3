"""Kill the process at every point of what a turn can be beside plain calls, and hold the store to its invariants.

The points of opening the store come first in every process and are visited by ``test_crash_points``; here each point
after them is visited, of each kind of work.
"""

import json
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import pytest
from crash_orders import LOOK_UP, Order
from dying_process import Dying
from msgspec import Struct, structs
from runtime_rig import INSERT, contents, open_home, request, send, watch
from store_ledger import OF_THE_CLIENT, Ledger, assert_body_paired

from eunoe.embedded import Agent, Home
from eunoe.runtime.integrity import integrity, repair
from eunoe.runtime.watching import watch as watch_run
from eunoe.state.events import RunEnded, RunStarted
from eunoe.state.rules import ApprovalRule
from eunoe.store import messages, run_events, runs, steps
from eunoe.store.messages import MessageQuery

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

_ASK: Final = """\
TOOL:memory_insert {"label": "human", "new_string": "Likes tea."}
TOOL:memory_replace {"label": "persona", "old_string": "Kind", "new_string": "Calm"}
THEN:
SAY:Done."""
"""A call that waits for a person, beside one that runs when that one is answered."""

_LONG: Final = "many words " * 120


class Work(Struct, frozen=True, kw_only=True):
    """What a process dies of, and the texts of the turns before it. ``waits``: the last of them asks something."""

    order: Order
    before: tuple[str, ...] = ()
    window: int | None = None
    broken: bool = False


def _order(do: Any, **fields: Any) -> Order:
    return Order(do=do, agent_id="", **fields)


_WORKS: Final = {
    "asking": Work(order=_order("send", says=(_ASK,))),
    "approving": Work(before=(_ASK,), order=_order("approve")),
    "denying": Work(before=(_ASK,), order=_order("deny", says=("SAY:And on.",))),
    "a client's return with a message": Work(
        before=("TOOL:look_up {}\nTHEN:\nSAY:Found.",), order=_order("return", says=(INSERT + "\nTHEN:\nSAY:Well.",))
    ),
    "passing a question by": Work(before=(_ASK,), order=_order("send", says=("SAY:Never mind.",), go_on=True)),
    "compacting by call": Work(before=("SAY:one", "SAY:two", "SAY:three"), order=_order("compact")),
    "compacting in a turn": Work(
        before=tuple(f"SAY:{n} {_LONG}" for n in "abcd"),
        window=2_400,
        order=_order("send", says=(f"{INSERT}\n{_LONG}",)),
    ),
    "a background run": Work(order=_order("send", says=(f"{INSERT}\nTHEN:\nSAY:Some words.",), background=True)),
    "forking": Work(before=(_ASK,), order=_order("fork")),
    "beginning a conversation": Work(order=_order("begin", says=("Hello.", "Are you there?"), isolated=("human",))),
    "repairing": Work(before=("SAY:one", f"{INSERT}\nTHEN:\nSAY:two"), order=_order("repair"), broken=True),
}


@asynccontextmanager
async def _prepared(folder: Path, work: Work) -> AsyncIterator[Agent]:
    async with open_home(folder) as home:
        agent = await home.create_agent(
            model="scripted/demo",
            system="You are kind.",
            memory={"human": "Likes maps.", "persona": "Kind."},
            tool_rules=(ApprovalRule(tool_name="memory_replace"),),
            context_window_limit=work.window or 100_000,
        )
        for text in work.before:
            told = await send(home, agent, text, client_tools=(LOOK_UP,))
            assert told.ended.error is None
        yield agent


def _break(folder: Path) -> None:
    """Take the return of a call away, and the text of the compiled prompt."""
    with closing(sqlite3.connect(folder / "eunoe.db")) as connection, connection:
        connection.execute(
            "DELETE FROM conversation_messages WHERE message_id IN (SELECT id FROM messages WHERE role = 'tool')"
        )
        connection.execute("DELETE FROM messages WHERE role = 'tool'")
        connection.execute("UPDATE conversations SET compiled = NULL")


def _counts(dying: Dying, folder: Path, text: str) -> dict[str, int]:
    report = folder.with_name(f"{folder.name}.json")
    assert dying.send(folder, text, EUNOE_FAULT_COUNT=str(report)) == 0
    return json.loads(report.read_text())


def _points(dying: Dying, tmp_path: Path, prepared: Path, order: Order) -> list[str]:
    """Name every point of this work after the opening of the store."""
    totals: list[dict[str, int]] = []
    for name, text in (("opened", "{}"), ("worked", order.text())):
        folder = tmp_path / name
        shutil.copytree(prepared, folder)
        totals.append(_counts(dying, folder, "" if text == "{}" else text))
    opening, whole = totals
    return [f"{kind}:{n}" for kind, total in whole.items() for n in range(opening[kind] + 1, total + 1)]


@pytest.fixture
def ledgers() -> Iterator[list[Ledger]]:
    opened: list[Ledger] = []
    yield opened
    for ledger in opened:
        ledger.close()


async def _come_back(home: Home, agent: Agent, ledger: Ledger, work: Work) -> None:
    """Hold what came back to its invariants, send the next message, and do it again."""
    if work.broken:
        report = await repair(home.runtime, agent.id)
        assert report.ok
        again = await repair(home.runtime, agent.id)
        assert (again.ok, again.healed) == (True, ())
    books = ledger.audit()
    assert (await integrity(home.runtime, agent.id)).ok
    window = await agent.window()
    told = await watch(await home.runtime.start(request(agent, "SAY:on", on_pending="deny_and_continue")))
    assert (told.ended.stop_reason, told.messages[-1].text) == ("end_turn", "on")
    if work.window is None:
        assert [message.id for message in (await agent.window())[: len(window)]] == [message.id for message in window]
    for key, row in books.conversations.items():
        if not row["is_default"]:
            told = await watch(await home.runtime.start(request(agent, "SAY:on", conversation_id=key)))
            assert told.ended.stop_reason == "end_turn"
    ledger.audit()
    made = await home.runtime.db.read(lambda tx: steps.page(tx, steps.StepQuery(order="asc", limit=None)))
    for step in made:
        replayed = await agent.request_of(step.id)
        if not work.broken:
            assert replayed.verified
        if replayed.verified:
            assert_body_paired(json.loads(bytes(replayed.body)))


async def _events(home: Home) -> None:
    """Whoever watches a background run after the crash is told its events without gaps, up to an end."""
    for run in await home.runtime.db.read(lambda tx: runs.page(tx, runs.RunQuery(background=True))):
        stored = await home.runtime.db.read(lambda tx, key=run.id: run_events.of_run(tx, key))
        told = await watch(await watch_run(home.runtime, run.id))
        assert list(told.events[: len(stored)]) == stored
        assert [event for event in told.events if isinstance(event, RunEnded)] == [told.ended]
        assert told.ended.stop_reason == run.stop_reason
        assert isinstance(told.events[0], RunStarted)
        query = MessageQuery(run_id=run.id, roles=("assistant", "tool"), order="asc")
        kept = await home.runtime.db.read(lambda tx, asked=query: messages.page(tx, asked))
        assert [message.id for message in told.messages] == [message.id for message in kept]
        numbers = await home.runtime.db.read(
            lambda tx, key=run.id: tx.rows("SELECT seq FROM run_events WHERE run_id = ? ORDER BY seq", (key,))
        )
        assert [number for (number,) in numbers] == list(range(1, len(stored) + 1))


@pytest.mark.parametrize("name", list(_WORKS))
async def test_work_that_dies_at_any_point_is_done_or_not_done(
    dying: Dying, tmp_path: Path, ledgers: list[Ledger], name: str
) -> None:
    work = _WORKS[name]
    prepared = tmp_path / "prepared"
    async with _prepared(prepared, work) as agent:
        pass
    order = structs.replace(work.order, agent_id=agent.id)
    if work.broken:
        _break(prepared)
    points = _points(dying, tmp_path, prepared, order)
    assert any(point.startswith("commit:") for point in points)
    outcomes: list[str] = []
    for point in points:
        folder = tmp_path / point.replace(":", "-")
        shutil.copytree(prepared, folder)
        ledger = Ledger(folder / "eunoe.db")
        ledgers.append(ledger)
        assert dying.send(folder, order.text(), EUNOE_FAULT=point) == -signal.SIGKILL, point
        async with open_home(folder) as home:
            (again,) = await home.agents()
            if order.background and point.startswith("commit:"):
                await _events(home)
            state = [contents(message) for message in await again.window()]
            outcomes.append(repr((state, len(ledger.read().conversations), (await again.block("human")).value)))
            await _come_back(home, again, ledger, work)
        shutil.rmtree(folder)
    # What came back is one of the few states that commits make, not one for each statement.
    commits = sum(point.startswith("commit:") for point in points)
    assert len(set(outcomes)) <= commits + 1
    assert len(set(outcomes)) > 1


def test_what_a_client_gives_is_known_to_the_auditor() -> None:
    assert _order("return").returns == OF_THE_CLIENT
