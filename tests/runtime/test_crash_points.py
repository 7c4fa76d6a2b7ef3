"""Kill the process at every point of a turn, and of an agent's creation, and see that the agent comes back whole.

The store counts its statements and commits (``store/faults.py``), so "every point" is meant literally: after each
statement that changes rows, right before each commit, and right after it.
"""

import json
import shutil
import signal
from pathlib import Path
from typing import Any, Final

import pytest
from dying_process import Dying
from msgspec import Struct, structs
from runtime_rig import assert_paired, contents, open_home, rows

from eunoe.embedded import Agent, Home
from eunoe.models.protocol import ModelRequest
from eunoe.state.messages import Message
from eunoe.state.runs import Run, Step
from eunoe.store import conversations, runs, secrets, steps

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

_TURN: Final = """\
TOOL:memory_insert {"label": "human", "new_string": "Likes tea."}
TOOL:memory_insert {"label": "persona", "new_string": "Calm."}
THEN:
TOOL:memory_replace {"label": "human", "old_string": "Likes tea.", "new_string": "Likes coffee."}
THEN:
SAY:Done."""
"""Two calls in one step, one in the next, then text."""

_OPENING: Final = 1
"""Commits of opening a store that has its built-in tools already."""

_STAGES: Final[tuple[tuple[tuple[str, ...], str, str, str], ...]] = (
    ((), "Likes maps.", "Kind.", "none"),
    (("user",), "Likes maps.", "Kind.", "running"),
    (("user", "assistant"), "Likes maps.", "Kind.", "running"),
    (("user", "assistant", "tool"), "Likes maps.\nLikes tea.", "Kind.\nCalm.", "running"),
    (("user", "assistant", "tool", "assistant"), "Likes maps.\nLikes tea.", "Kind.\nCalm.", "running"),
    (
        ("user", "assistant", "tool", "assistant", "tool"),
        "Likes maps.\nLikes coffee.",
        "Kind.\nCalm.",
        "running",
    ),
    (
        ("user", "assistant", "tool", "assistant", "tool", "assistant"),
        "Likes maps.\nLikes coffee.",
        "Kind.\nCalm.",
        "completed",
    ),
)
"""Roles in the window, block values and the run's status after each commit of the turn, from none on."""


def _points(dying: Dying, folder: Path, text: str) -> list[str]:
    """Count the points of a message sent to this store, which takes part in it, and return each one's name."""
    report = folder.with_name(f"{folder.name}.counts.json")
    assert dying.send(folder, text, EUNOE_FAULT_COUNT=str(report)) == 0
    counts: dict[str, int] = json.loads(report.read_text())
    return [f"{point}:{number}" for point, count in counts.items() for number in range(1, count + 1)]


class Whole(Struct, frozen=True):
    """All that a restored agent is, without the ids and times of the turn that may have been cut."""

    prompt: str
    prompt_bytes_stored: str | None
    parts: dict[str, Any]
    window: tuple[tuple[str, object], ...]
    runs: tuple[tuple[str, str | None, int], ...]
    steps: tuple[tuple[str, str | None], ...]


async def _runs(home: Home) -> list[Run]:
    return await home.runtime.db.read(lambda tx: runs.page(tx, runs.RunQuery(order="asc")))


async def _steps(home: Home) -> list[Step]:
    return await home.runtime.db.read(lambda tx: steps.page(tx, steps.StepQuery(order="asc")))


async def _whole(home: Home, agent: Agent) -> Whole:
    made = await agent.manifest()
    kept = {part.kind: [] for part in made.parts}
    for part in made.parts:
        if part.kind not in {"window", "compiled_prompt"}:
            kept[part.kind].append((part.id, part.name, part.hash, part.characters, part.source))
    state = await agent.state()
    compiled = state.conversation.compiled
    return Whole(
        prompt=await agent.prompt(),
        prompt_bytes_stored=compiled.hash if compiled else None,
        parts={**kept, "rules": state.agent.tool_rules, "tags": state.agent.tags, "name": state.agent.name},
        window=tuple(map(contents, await agent.window())),
        runs=tuple((run.status, run.stop_reason, run.step_count) for run in await _runs(home)),
        steps=tuple((step.status, step.stop_reason) for step in await _steps(home)),
    )


async def _only(home: Home) -> Agent:
    found = await home.agents()
    assert len(found) == 1
    return found[0]


def _stage(folder: Path) -> int:
    """Return which stage of the turn is what a dead process left, and fail unless it is exactly one of them (I2)."""
    tables = rows(folder)
    roles = tuple(row[4] for row in sorted(tables["messages"]))
    values = {row[1]: row[2] for row in tables["blocks"]}
    statuses = {row[4] for row in tables["runs"]} or {"none"}
    assert len(statuses) == 1
    return _STAGES.index((roles, values["human"], values["persona"], statuses.pop()))


def _interrupted(window: tuple[Message, ...]) -> list[str]:
    return [
        part.content
        for message in window
        for part in message.tool_returns
        if part.status == "error" and part.content.startswith("Interrupted:")
    ]


@pytest.fixture(scope="module")
def prepared(dying: Dying, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with an agent that has never been talked to."""
    folder = tmp_path_factory.mktemp("prepared") / "store"
    assert dying.send(folder, "") == 0
    return folder


async def _reopened(folder: Path, stage: int) -> Whole:
    """Open what a dead process left, hold it to everything that must be true, and return what came back."""
    async with open_home(folder) as home:
        agent = await _only(home)
        window = await agent.window()
        assert_paired(window)
        # Calls that had no return yet are closed, and the tools did not run again.
        cut = {2: 2, 4: 1}.get(stage, 0)
        assert len(_interrupted(window)) == cut
        assert (await agent.block("human")).value == _STAGES[stage][1]
        assert (await agent.block("persona")).value == _STAGES[stage][2]
        ended = [run.status for run in await _runs(home)]
        assert ended == ([] if stage == 0 else ["completed"] if stage == len(_STAGES) - 1 else ["failed"])
        assert all(step.status != "pending" for step in await _steps(home))
        state = await agent.state()
        assert state.conversation.lease_run_id is None
        assert await home.runtime.db.read(lambda tx: secrets.reveal(tx, agent.id, home.runtime.cipher)) == {
            "TOKEN": "s3cr3t"
        }
        differences = (await agent.verify()).differences
        # The blocks were edited after the prompt was compiled: only that may be told, and the manifest tells it too.
        assert [difference.part.split(" of ")[0] for difference in differences] == (
            ["compiled prompt"] if stage >= 3 else []
        )
        assert (await agent.manifest()).stale is (stage >= 3)
        return await _whole(home, agent)


async def _goes_on(folder: Path, dead: Whole) -> None:
    """Send a message to an agent that came back, and see what its model is shown."""
    async with open_home(folder) as home:
        agent = await _only(home)
        assert await _whole(home, agent) == dead
        assert await agent.ask("SAY:on") == "on"
        window = await agent.window()
        assert [contents(message) for message in window[: len(dead.window)]] == list(dead.window)
        assert_paired(window)
        last = (await _steps(home))[-1]
        replayed = await agent.request_of(last.id)
        assert replayed.verified
        sent = json.loads(bytes(replayed.body))["messages"]
        assert sent[0] == {"role": "system", "content": dead.prompt}
        _assert_payload_paired(sent)
        assert (await agent.verify()).ok


def _assert_payload_paired(sent: list[dict[str, Any]]) -> None:
    waiting: list[str] = []
    for message in sent:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []


async def test_a_turn_that_dies_at_any_point_leaves_the_agent_whole(
    dying: Dying, prepared: Path, tmp_path: Path
) -> None:
    counted = tmp_path / "counted"
    shutil.copytree(prepared, counted)
    points = _points(dying, counted, _TURN)
    assert _stage(counted) == len(_STAGES) - 1
    assert [point for point in points if point.startswith("commit:")] == [
        f"commit:{number}" for number in range(1, _OPENING + len(_STAGES))
    ]
    reached: dict[str, list[int]] = {"write": [], "before_commit": [], "commit": []}
    whole: dict[int, Whole] = {}
    for point in points:
        folder = tmp_path / point.replace(":", "-")
        shutil.copytree(prepared, folder)
        assert dying.send(folder, _TURN, EUNOE_FAULT=point) == -signal.SIGKILL, point
        stage = _stage(folder)
        reached[point.split(":")[0]].append(stage)
        back = await _reopened(folder, stage)
        # Wherever in a stage the process died, the same agent comes back, its prompt byte for byte.
        assert whole.setdefault(stage, back) == back, point
        await _goes_on(folder, back)
        shutil.rmtree(folder)
    last = len(_STAGES) - 1
    assert reached["commit"] == [max(0, number - _OPENING) for number in range(1, last + _OPENING + 1)]
    assert reached["before_commit"] == [max(0, number - 1 - _OPENING) for number in range(1, last + _OPENING + 1)]
    # A statement before a commit belongs to the stage that the commit would have ended; each one has some.
    assert reached["write"] == sorted(reached["write"])
    assert set(reached["write"]) == set(range(last))
    assert set(whole) == set(range(last + 1))


async def test_the_prompt_stays_byte_for_byte_until_memory_changes(
    dying: Dying, prepared: Path, tmp_path: Path
) -> None:
    async with open_home(prepared) as home:
        before = await (await _only(home)).prompt()
    texts = rows(prepared)["texts"]
    for point, edited in (("commit:2", False), ("commit:3", False), ("commit:4", True)):
        folder = tmp_path / point.replace(":", "-")
        shutil.copytree(prepared, folder)
        assert dying.send(folder, _TURN, EUNOE_FAULT=point) == -signal.SIGKILL
        async with open_home(folder) as home:
            after = await (await _only(home)).prompt()
        assert (after != before) is edited
        assert "Likes tea." in after if edited else "Likes tea." not in after
        assert set(texts) <= set(rows(folder)["texts"])


async def test_an_agent_whose_creation_dies_is_there_whole_or_not_at_all(dying: Dying, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    async with open_home(empty):
        pass
    counted = tmp_path / "counted"
    shutil.copytree(empty, counted)
    points = _points(dying, counted, "")
    created = {name: len(kept) for name, kept in rows(counted).items()}
    nothing = {name: len(kept) for name, kept in rows(empty).items()}
    assert created["agents"] == 1
    assert created["blocks"] == 2
    for point in points:
        folder = tmp_path / point.replace(":", "-")
        shutil.copytree(empty, folder)
        assert dying.send(folder, "", EUNOE_FAULT=point) == -signal.SIGKILL, point
        found = {name: len(kept) for name, kept in rows(folder).items()}
        assert found == (created if point == "commit:2" else nothing), point
        shutil.rmtree(folder)


async def test_a_process_that_dies_while_it_heals_is_healed_by_the_next(
    dying: Dying, prepared: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(prepared, cut)
    assert dying.send(cut, _TURN, EUNOE_FAULT="commit:3") == -signal.SIGKILL
    assert _stage(cut) == 2
    counted = tmp_path / "counted"
    shutil.copytree(cut, counted)
    opening = [point for point in _points(dying, counted, "") if point.startswith("write:")]
    assert len(opening) >= 3
    whole: Whole | None = None
    for point in [*opening, "before_commit:1", "commit:1"]:
        folder = tmp_path / point.replace(":", "-")
        shutil.copytree(cut, folder)
        assert dying.send(folder, "", EUNOE_FAULT=point) == -signal.SIGKILL
        back = await _reopened(folder, 2)
        whole = whole or back
        assert back == whole
        await _goes_on(folder, back)


async def test_what_a_model_is_shown_of_a_cut_step_says_that_the_outcome_is_unknown(
    dying: Dying, prepared: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    shutil.copytree(prepared, folder)
    assert dying.send(folder, _TURN, EUNOE_FAULT="commit:3") == -signal.SIGKILL
    async with open_home(folder) as home:
        agent = await _only(home)
        window = await agent.window()
        state = await agent.state()
        conversation = await home.runtime.db.read(lambda tx: conversations.get(tx, state.conversation.id))
        assert [part.status for part in window[-1].tool_returns] == ["error", "error"]
        assert "outcome is unknown" in window[-1].tool_returns[0].content
        assert [part.tool_call_id for part in window[-1].tool_returns] == [call.id for call in window[-2].tool_calls]
        assert conversation.next_position == window[-1].position + 1000
        model = structs.replace(home.runtime.models.resolve("scripted/demo"), context_window=1000)
        body = home.runtime.models.payload(ModelRequest(model=model, system="", messages=window)).body
        _assert_payload_paired(json.loads(body)["messages"])
