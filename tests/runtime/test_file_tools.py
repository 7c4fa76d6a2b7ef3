"""Tools that read memory files, in turns: who has them, and what they show."""

from pathlib import Path

import pytest
from runtime_rig import Told, open_home, send

from eunoe.embedded import Agent, Home
from eunoe.state.errors import NotFound
from eunoe.state.ids import named_id
from eunoe.store.database import Transaction
from eunoe.tools.files import FILE_TOOLS

pytestmark = pytest.mark.anyio

GIT = ("git-memory-enabled",)


@pytest.fixture
async def filed(home: Home) -> Agent:
    """An agent whose memory is files, and whose model does what the message says."""
    agent = await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": "Likes maps."})
    await agent.memory.write("notes/ideas.md", "---\ndescription: Ideas.\n---\nA map of Lisbon.\n")
    return agent


async def names(agent: Agent) -> list[str]:
    return [tool.name for tool in (await agent.state()).tools]


def said(told: Told) -> list[tuple[str, str]]:
    return [(part.status, part.content) for part in told.returns]


async def test_agents_have_them_as_long_as_their_memory_is_files(home: Home, filed: Agent):
    assert set(FILE_TOOLS) <= set(await names(filed))
    plain = await home.create_agent(model="scripted/demo", memory={"human": "x"})
    before = await names(plain)
    assert not set(FILE_TOOLS) & set(before)
    await plain.update(tags=GIT)
    assert set(await names(plain)) == {*before, *FILE_TOOLS}
    await plain.update(tags=())
    assert await names(plain) == before


async def test_an_agent_without_base_tools_gets_none(home: Home):
    bare = await home.create_agent(model="scripted/demo", tags=GIT, include_base_tools=False)
    assert await names(bare) == []
    named = await home.create_agent(
        model="scripted/demo", tags=GIT, include_base_tools=False, tools=("memory_open", "load_skill")
    )
    assert await names(named) == ["memory_open", "load_skill"]


async def test_an_agent_reads_lists_searches_and_looks_back(home: Home, filed: Agent):
    told = await send(
        home,
        filed,
        'TOOL:memory_open {"path": "notes/ideas.md"}\n'
        'TOOL:memory_list {"path": "notes"}\n'
        'TOOL:memory_search {"query": "lisbon"}\n'
        'TOOL:memory_open {"path": ""}\nTHEN:\nSAY:Done.',
    )
    assert said(told) == [
        ("success", "A map of Lisbon.\n"),
        ("success", "notes/ideas.md"),
        ("success", "notes/ideas.md:4: A map of Lisbon."),
        ("success", "In the root of memory:\n- notes/ (1 file)\n- system/ (1 file)"),
    ]
    told = await send(home, filed, 'TOOL:memory_history {"path": "notes/ideas.md"}\nTHEN:\nSAY:Done.')
    assert said(told)[0][1].endswith("User: Write notes/ideas.md")


async def test_what_was_edited_in_a_step_is_read_in_the_next(home: Home, filed: Agent):
    told = await send(
        home,
        filed,
        'TOOL:memory_insert {"label": "notes/ideas", "new_string": "Tea."}\nTHEN:\n'
        'TOOL:memory_open {"path": "notes/ideas.md"}\nTHEN:\nSAY:Done.',
    )
    assert said(told)[-1] == ("success", "A map of Lisbon.\n\nTea.")


@pytest.mark.parametrize("path", ["../../eunoe.db", "/etc/passwd", "notes/../../x"])
async def test_no_path_leads_out_of_memory(home: Home, filed: Agent, path: str):
    told = await send(home, filed, f'TOOL:memory_open {{"path": "{path}"}}\nTHEN:\nSAY:Done.')
    assert [status for status, _ in said(told)] == ["error"]
    assert repr(path) in said(told)[0][1]


async def test_bad_arguments_are_told(home: Home, filed: Agent):
    told = await send(
        home,
        filed,
        'TOOL:memory_open {"path": "notes/ideas.md", "offset": -1}\nTOOL:memory_search {"query": " "}\n'
        'TOOL:memory_open {"file": "x"}\nTHEN:\nSAY:Done.',
    )
    assert [status for status, _ in said(told)] == ["error", "error", "error"]


async def test_an_agent_with_blocks_is_told_that_it_has_no_files(home: Home):
    agent = await home.create_agent(model="scripted/demo", memory={"human": "x"}, tools=("memory_list",))
    told = await send(home, agent, "TOOL:memory_list {}\nTHEN:\nSAY:Done.")
    assert said(told)[0][0] == "error"
    assert "is blocks, not files" in said(told)[0][1]


async def test_an_agent_s_files_go_aside_with_it(filed: Agent, tmp_path: Path):
    await filed.delete()
    with pytest.raises(NotFound):
        await filed.state()
    assert list((tmp_path / "memory" / "deleted").iterdir())


async def test_agents_of_a_store_that_had_fewer_tools_get_the_new_ones_once(tmp_path: Path):
    async with open_home(tmp_path) as home:
        made = {
            "files": await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": "x"}),
            "bare": await home.create_agent(model="scripted/demo", tags=GIT, include_base_tools=False),
            "blocks": await home.create_agent(model="scripted/demo", memory={"human": "x"}),
        }
        before = {name: await names(agent) for name, agent in made.items()}

        def forget(tx: Transaction) -> None:
            opened = named_id("tool", "memory_open")
            tx.execute("DELETE FROM agents_tools WHERE tool_id = ?", (opened,))
            tx.execute("DELETE FROM tools WHERE id = ?", (opened,))

        await home.runtime.db.write(forget)
        assert "memory_open" not in await names(made["files"])
    async with open_home(tmp_path) as home:
        agents = {name: await home.agent(agent.id) for name, agent in made.items()}
        assert {name: sorted(await names(agent)) for name, agent in agents.items()} == {
            name: sorted(held) for name, held in before.items()
        }
        kept = [tool.id for tool in (await agents["files"].state()).tools if tool.name != "memory_open"]
        await agents["files"].update(tool_ids=tuple(kept))
    async with open_home(tmp_path) as home:
        assert "memory_open" not in await names(await home.agent(made["files"].id)), "it was taken away by a person"
