"""When the system message is compiled anew, and when its bytes stay as they are (I5)."""

import json
from collections.abc import Awaitable, Callable
from difflib import ndiff
from pathlib import Path
from typing import Any, Final

import pytest
from chat_endpoint import MODEL, ChatEndpoint
from runtime_rig import INSERT, open_home, rows

from eunoe.embedded import Agent, Home
from eunoe.runtime.agents import attach_tool
from eunoe.runtime.blocks import create_block
from eunoe.runtime.context import context_overview
from eunoe.runtime.recompile import recompile
from eunoe.runtime.runtime import utc_now
from eunoe.state.blocks import BlockSpec
from eunoe.state.events import StepEnded
from eunoe.state.ids import named_id
from eunoe.state.rules import ApprovalRule, TerminalRule
from eunoe.store import blocks

pytestmark = pytest.mark.anyio

Change = Callable[[Home, Agent], Awaitable[object]]

_LINE_NUMBERED: Final = "anthropic/claude-test"
_NO_ENDPOINT: Final = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
"""An address on which nothing listens: the model is known by its handle alone."""


def _block(**changes: Any) -> Change:
    return lambda _home, agent: agent.update_block("human", **changes)


def _agent(**changes: Any) -> Change:
    return lambda _home, agent: agent.update(**changes)


async def _attach(home: Home, agent: Agent) -> None:
    now = utc_now()
    made = await home.runtime.db.write(lambda tx: create_block(tx, BlockSpec(label="plans", value="Rest."), now=now))
    await home.runtime.db.write(lambda tx: blocks.attach(tx, agent.id, made.id))


async def _attach_hidden(home: Home, agent: Agent) -> None:
    now = utc_now()
    spec = BlockSpec(label="secret plans", value="Rest.", hidden=True)
    made = await home.runtime.db.write(lambda tx: create_block(tx, spec, now=now))
    await home.runtime.db.write(lambda tx: blocks.attach(tx, agent.id, made.id))


async def _detach(home: Home, agent: Agent) -> None:
    block = await agent.block("human")
    await home.runtime.db.write(lambda tx: blocks.detach(tx, agent.id, block.id))


async def _detach_and_attach_again(home: Home, agent: Agent) -> None:
    block = await agent.block("human")
    await _detach(home, agent)
    await home.runtime.db.write(lambda tx: blocks.attach(tx, agent.id, block.id))


async def _more_tools(home: Home, agent: Agent) -> None:
    now = utc_now()
    await home.runtime.db.write(lambda tx: attach_tool(tx, agent.id, named_id("tool", "memory_rethink"), now=now))


async def _edit_and_undo(_home: Home, agent: Agent) -> None:
    await agent.update_block("human", value="Something else.")
    await agent.update_block("human", value="Likes maps.")


_SHOWN: Final[dict[str, Change]] = {
    "value": _block(value="Likes tea."),
    "description": _block(description="Facts."),
    "limit": _block(limit=5000),
    "label": _block(label="person"),
    "read_only": _block(read_only=True),
    "hidden": _block(hidden=True),
    "attach": _attach,
    "detach": _detach,
    "system": _agent(system="You are Bob."),
    "tool rules": _agent(tool_rules=(TerminalRule(tool_name="memory_insert"),)),
    "timezone": _agent(timezone="Europe/Paris"),
    "model that edits by line": _agent(model=_LINE_NUMBERED),
}
"""Changes that the model can see."""

_NOT_SHOWN: Final[dict[str, Change]] = {
    "block metadata": _block(metadata={"colour": "red"}),
    "block tags": _block(tags=("a", "b")),
    "same value": _block(value="Likes maps."),
    "same everything": _block(label="human", read_only=False, hidden=False),
    "edit and undo": _edit_and_undo,
    "attach of a hidden block": _attach_hidden,
    "detach and attach again": _detach_and_attach_again,
    "name": _agent(name="Grace"),
    "agent metadata": _agent(metadata={"a": 1}),
    "agent tags": _agent(tags=("x",)),
    "description": _agent(description="An agent."),
    "model of the same family": _agent(model="scripted/other"),
    "window": _agent(context_window_limit=50_000),
    "same system": _agent(system="You are Ada."),
    "rule that acts unseen": _agent(tool_rules=(ApprovalRule(tool_name="memory_insert"),)),
    "tool": _more_tools,
}
"""Changes that the model cannot see."""


async def _ada(home: Home, **fields: Any) -> Agent:
    given: dict[str, Any] = {
        "model": "scripted/demo",
        "system": "You are Ada.",
        "memory": {"human": "Likes maps.", "persona": "Kind."},
    }
    return await home.create_agent(**(given | fields))


async def _compiled_hash(agent: Agent) -> str:
    compiled = (await agent.state()).conversation.compiled
    assert compiled is not None
    return compiled.hash


@pytest.mark.parametrize("name", list(_SHOWN))
async def test_a_change_that_the_model_can_see_compiles_anew(tmp_path: Path, name: str) -> None:
    async with open_home(tmp_path, _NO_ENDPOINT) as home:
        agent = await _ada(home)
        await agent.ask("SAY:Hi.")
        before, kept = await agent.prompt(), await _compiled_hash(agent)
        await _SHOWN[name](home, agent)
        after = await agent.prompt()
        assert after != before
        assert (await agent.manifest()).stale
        # Nothing is stored until a request needs it; then the request, the store and a fresh compile agree.
        assert await _compiled_hash(agent) == kept
        await recompile(home.runtime, agent.id)
        assert await agent.prompt() == after
        assert await _compiled_hash(agent) != kept
        assert not (await agent.manifest()).stale
        assert (await agent.verify()).ok


@pytest.mark.parametrize("name", list(_NOT_SHOWN))
async def test_a_change_that_the_model_cannot_see_keeps_the_bytes(tmp_path: Path, name: str) -> None:
    async with open_home(tmp_path, _NO_ENDPOINT) as home:
        agent = await _ada(home)
        await agent.ask("SAY:Hi.")
        before, kept = await agent.prompt(), await _compiled_hash(agent)
        await _NOT_SHOWN[name](home, agent)
        assert await agent.prompt() == before
        assert not (await agent.manifest()).stale
        assert (await agent.verify()).ok
        await agent.ask("SAY:Again.")
        assert await _compiled_hash(agent) == kept


@pytest.mark.parametrize(
    ("change", "differing"),
    [
        (
            _block(value="Likes maps.\nLikes tea."),
            ["- - chars_current=11", "+ - chars_current=22", "+ Likes tea."],
        ),
        (_block(value="Likes cars."), ["- Likes maps.", "+ Likes cars."]),
        (_block(limit=5000), ["- - chars_limit=100000", "+ - chars_limit=5000"]),
        (_block(read_only=True), ["+ - read_only=true"]),
        (_agent(system="You are Bob."), ["- You are Ada.", "+ You are Bob."]),
    ],
)
async def test_an_edit_changes_its_own_lines_and_no_recorded_fact(
    tmp_path: Path, change: Change, differing: list[str]
) -> None:
    async with open_home(tmp_path) as home:
        # Its window is emptied at each turn, so the count of messages out of view would be another one now.
        agent = await _ada(home, message_buffer_autoclear=True)
        for _ in range(3):
            await agent.ask("SAY:Hi.")
        before = await agent.prompt()
        assert "- 0 previous messages" in before
        assert "- 0 previous" not in await recompile(home.runtime, agent.id, update_timestamp=True, dry_run=True)
        await change(home, agent)
        await agent.ask("SAY:Hi.")
        after = await agent.prompt()
        changed = [line for line in ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]
        assert changed == differing


async def test_memory_that_a_run_edits_moves_the_system_message_only_for_the_next_run(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    scripted = await _ada(home)
    told = [step async for step in scripted.send(f"{INSERT}\nTHEN:\n{INSERT}\nTHEN:\nSAY:Done.")]
    ids = [event.step_id for event in told if isinstance(event, StepEnded)]
    sent = [json.loads(bytes((await scripted.request_of(step_id)).body))["messages"][0] for step_id in ids]
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]
    assert "Likes tea." not in sent[0]["content"]
    await agent.ask("First.")
    await agent.update_block("human", value="Likes tea.")
    await agent.ask("Second.")
    await agent.ask("Third.")
    first, second, third = (body["messages"][0]["content"] for body in endpoint.requests())
    assert "Likes tea." not in first
    assert "Likes tea." in second
    assert third == second


async def test_every_request_continues_the_bytes_of_the_one_before(agent: Agent, endpoint: ChatEndpoint) -> None:
    """The provider's prompt cache holds: a later request begins with all messages of the earlier one."""
    for text in ("First.", "Second.", "Third."):
        await agent.ask(text)
    heads = [body.partition(b'],"tools"')[0] for body in endpoint.received]
    assert heads[1].startswith(heads[0])
    assert heads[2].startswith(heads[1])


async def test_C01_a_new_system_text_is_sent_and_listed(agent: Agent, endpoint: ChatEndpoint) -> None:
    await agent.update(system="You are system A.")
    for _ in range(3):
        await agent.ask("Hi.")
    await agent.update(system="You are system B.")
    assert (await agent.prompt()).startswith("You are system B.")
    await agent.ask("Hi again.")
    sent = [body["messages"][0]["content"].splitlines()[0] for body in endpoint.requests()]
    assert sent == ["You are system A."] * 3 + ["You are system B."]


FILED: Final = "You work on files."
AS_FILES: Final = "\n\nReminder: <projection> contains the local path of the memory file projection.\n\n<self>\n"
AS_BLOCKS: Final = "\n\n<memory_blocks>\nThe following memory blocks are currently engaged in your core memory unit:\n"


async def test_C03_memory_that_becomes_files_and_blocks_again_is_what_the_next_request_says(
    home: Home, endpoint: ChatEndpoint
) -> None:
    """As programs toggle it: first the instructions of the mode in the system text, then the tag, or both at once."""
    agent = await home.create_agent(
        model=MODEL, system="You are Ada.", memory={"human": "Likes maps.", "persona": "I."}
    )
    await agent.ask("Blocks.")
    await agent.update(system=f"You are Ada.\n\n{FILED}")
    await agent.update(tags=("git-memory-enabled",))
    filed = await agent.prompt()
    await agent.ask("Files.")
    await agent.update(system="You are Ada.", tags=())
    assert (await agent.prompt()).startswith(f"You are Ada.{AS_BLOCKS}")
    await agent.ask("Blocks.")
    before, during, after = (body["messages"][0]["content"] for body in endpoint.requests())
    assert before.startswith(f"You are Ada.{AS_BLOCKS}")
    assert during.startswith(f"You are Ada.\n\n{FILED}{AS_FILES}")
    assert during == filed
    assert [("<memory_blocks>" in text, "<projection>" in text) for text in (before, during, after)] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    assert after == before
    assert all("Likes maps." in text for text in (before, during, after))


async def test_C05_a_shared_block_edited_through_one_agent_is_read_through_the_other(home: Home) -> None:
    one = await _ada(home)
    shared = await one.block("human")
    other = await home.create_agent(model="scripted/demo", memory={"persona": "Wry."}, block_ids=(shared.id,))
    assert "Likes maps." in await other.prompt()
    await one.ask(INSERT)
    assert (await other.block("human")).value == "Likes maps.\nLikes tea."
    assert "Likes maps.\nLikes tea." in await other.prompt()
    assert (await other.manifest()).stale
    await other.ask("SAY:Hi.")
    assert not (await other.manifest()).stale
    assert (await other.verify()).ok


async def test_a_block_edit_writes_no_row_of_the_agents_that_share_it(tmp_path: Path) -> None:
    """Two rows whatever the number of agents (I6): the block and its revision."""
    async with open_home(tmp_path) as home:
        one = await _ada(home)
        shared = await one.block("human")
        for _ in range(5):
            await home.create_agent(model="scripted/demo", block_ids=(shared.id,))
        before = rows(tmp_path)
        await one.update_block("human", value="Likes tea.")
        after = rows(tmp_path)
        changed = {name for name in after if after[name] != before[name]}
        assert changed == {"blocks", "block_revisions"}
        assert len(set(after["blocks"]) - set(before["blocks"])) == 1


async def test_a_recompile_keeps_the_recorded_time_unless_it_is_asked_for(tmp_path: Path) -> None:
    async with open_home(tmp_path) as home:
        agent = await _ada(home)
        await agent.ask("SAY:Hi.")
        before = await agent.prompt()
        assert await recompile(home.runtime, agent.id) == before
        assert await recompile(home.runtime, agent.id, dry_run=True) == before
        first = (await agent.state()).conversation.compiled
        await recompile(home.runtime, agent.id, update_timestamp=True, dry_run=True)
        assert (await agent.state()).conversation.compiled == first
        await recompile(home.runtime, agent.id, update_timestamp=True)
        second = (await agent.state()).conversation.compiled
        assert first is not None
        assert second is not None
        assert second.facts.compiled_at > first.facts.compiled_at
        assert (second.memory_revision, second.system_hash) == (first.memory_revision, first.system_hash)
        assert (await agent.verify()).ok


async def test_the_prompt_is_the_same_in_the_next_process(tmp_path: Path) -> None:
    async with open_home(tmp_path) as home:
        agent = await _ada(home)
        await agent.ask("SAY:Hi.")
        before, kept = await agent.prompt(), await agent.manifest()
    async with open_home(tmp_path) as home:
        again = await home.agent(agent.id)
        assert await again.prompt() == before
        assert (await again.manifest()).parts == kept.parts
        assert (await again.verify()).ok


async def test_the_first_prompt_has_the_shape_of_the_next(tmp_path: Path) -> None:
    async with open_home(tmp_path, _NO_ENDPOINT) as home:
        agent = await _ada(home, model=_LINE_NUMBERED)
        first = await agent.prompt()
        assert "1→ Likes maps." in first
        assert await recompile(home.runtime, agent.id) == first


async def test_reading_has_no_side_effects(home: Home, agent: Agent, tmp_path: Path) -> None:
    await agent.ask("Hi.")
    await agent.update_block("human", value="Likes tea.")
    before = rows(tmp_path)
    ended = before["steps"][0][0]
    await agent.state()
    await agent.block("human")
    await agent.window()
    await agent.prompt()
    await agent.manifest()
    assert [difference.stale for difference in (await agent.verify()).differences] == [True]
    await agent.request_of(ended)
    await context_overview(home.runtime, agent.id)
    await recompile(home.runtime, agent.id, dry_run=True)
    await home.agents()
    await home.agent(agent.id)
    assert rows(tmp_path) == before


async def test_opening_and_closing_a_store_changes_no_row(tmp_path: Path) -> None:
    async with open_home(tmp_path) as home:
        agent = await _ada(home)
        await agent.ask("SAY:Hi.")
    before = rows(tmp_path)
    async with open_home(tmp_path) as home:
        assert [found.id for found in await home.agents()] == [agent.id]
    assert rows(tmp_path) == before


async def test_the_context_view_adds_up_to_what_is_sent(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    await agent.ask("Hi.")
    seen = await context_overview(home.runtime, agent.id)
    assert seen.system_message.text == endpoint.requests()[0]["messages"][0]["content"]
    top = {"system", "memory_blocks", "tool_usage_rules", "memory_metadata"}
    counted = sum(section.characters for section in seen.sections if section.name in top)
    assert counted == len(seen.system_message.text)
    assert [tool.name for tool in seen.tools] == [tool["function"]["name"] for tool in endpoint.requests()[0]["tools"]]
    assert [message.role for message in seen.window] == ["user", "assistant"]
