"""Failures that users of memory files elsewhere have reported."""

import json
from pathlib import Path

import anyio
import pytest
from files_house import git
from runtime_rig import Told, open_home, send

from eunoe.embedded import Agent, Home
from eunoe.runtime.blocks import create_block
from eunoe.runtime.runtime import utc_now
from eunoe.state.blocks import Block, BlockSpec
from eunoe.state.errors import Conflict, InvalidInput, ReadOnlyBlock, StaleRevision, StoreError

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

GIT = ("git-memory-enabled",)
INSERT = 'TOOL:memory_insert {"label": "system/human", "new_string": "Likes tea."}\nTHEN:\nSAY:Done.'


async def blocks_of(agent: Agent) -> dict[str, Block]:
    return {block.label: block for block in (await agent.state()).blocks}


def folder_of(home: Home, agent: Agent) -> Path:
    return home.runtime.homes.path(agent.id)


def returned(told: Told) -> list[tuple[str, str]]:
    return [(part.status, part.content) for part in told.returns]


async def test_G01_two_sides_that_began_apart_become_one_and_neither_loses_a_file(home: Home, tmp_path: Path):
    memory = {f"block{number}": f"Held by the server, number {number}." for number in range(8)}
    agent = await home.create_agent(model="scripted/demo", tags=GIT, memory=memory)
    before = (await agent.memory.files()).commit
    client = tmp_path / "client"
    (client / "system").mkdir(parents=True)
    git(client, "init", "-q", "-b", "main")
    theirs = {
        f"system/file{number:02}.md": f"---\ndescription: One\n---\nOf the client, {number}.\n" for number in range(78)
    }
    theirs["system/block0.md"] = "---\ndescription: Mine\n---\nThe client's own form.\n"
    for path, text in theirs.items():
        (client / path).write_text(text)
    git(client, "add", "-A")
    git(client, "commit", "-qm", "79 files")
    tip = git(client, "rev-parse", "main").strip()

    first = await agent.memory.import_from(client)
    assert (first.outcome, first.conflicts) == ("merged", ("system/block0.md",))
    assert (await agent.memory.import_from(client)).outcome == "nothing to do"
    tree = folder_of(home, agent)
    for _ in range(2):
        git(client, "pull", "-q", "--no-rebase", str(tree), "main")
    assert git(client, "rev-parse", "main").strip() == first.commit
    assert (await agent.memory.import_from(client)).outcome == "nothing to do"

    held = {label: block.value for label, block in (await blocks_of(agent)).items()}
    assert {label.removeprefix("system/"): value for label, value in held.items() if "block" in label} == memory
    for path, text in theirs.items():
        kept = path if path != "system/block0.md" else f"conflicts/{tip[:10]}/{path}"
        assert await agent.memory.read(kept) == text
    for older in (before, tip):
        git(tree, "merge-base", "--is-ancestor", older, "main")


async def test_G02_blocks_that_become_files_keep_ids_texts_and_flags(tmp_path: Path):
    spec = BlockSpec(label="human", value="Likes maps.", description="Who: asks", limit=99, read_only=True)
    async with open_home(tmp_path) as home:
        agent = await home.create_agent(model="scripted/demo", memory=(spec,))
        before = (await blocks_of(agent))["human"]
        await agent.update(tags=GIT)
    async with open_home(tmp_path) as home:
        after = (await blocks_of(await home.agent(agent.id)))["system/human"]
    told = ("id", "value", "description", "limit", "read_only")
    assert {name: getattr(after, name) for name in told} == {name: getattr(before, name) for name in told}


async def test_G04_twenty_agents_made_and_renamed_at_once_are_all_whole(home: Home):
    made: list[Agent] = []

    async def make(number: int) -> None:
        agent = await home.create_agent(
            model="scripted/demo", tags=GIT, name=f"Agent {number}", memory={"human": f"Number {number}."}
        )
        made.append(agent)
        await agent.update(name=f"Renamed {number}", description=f"Was {number}")
        await agent.update_block("system/human", value=f"Still number {number}.")

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(make, number)
    assert len({agent.id for agent in made}) == 20
    seen: set[str] = set()
    for agent in made:
        state = await agent.state()
        number = (state.agent.description or "").removeprefix("Was ")
        assert state.agent.name == f"Renamed {number}"
        assert [block.value for block in state.blocks] == [f"Still number {number}."]
        tree = folder_of(home, agent)
        assert git(tree, "show", "main:system/human.md").endswith(f"Still number {number}.")
        assert (git(tree, "status", "--porcelain"), git(tree, "fsck", "--no-dangling")) == ("", "")
        seen.add(number)
    assert seen == {str(number) for number in range(20)}


async def test_G08_the_first_thing_in_an_empty_store_may_be_a_memory_tool(tmp_path: Path):
    async with open_home(tmp_path / "not" / "there yet") as home:
        agent = await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": "Likes maps."})
        told = await send(home, agent, INSERT)
        assert [status for status, _ in returned(told)] == ["success"]
        assert (await blocks_of(agent))["system/human"].value == "Likes maps.\nLikes tea."
        assert "Likes tea." in git(folder_of(home, agent), "show", "main:system/human.md")


async def test_G08_a_store_whose_memory_folder_did_not_come_along_says_so(tmp_path: Path):
    async with open_home(tmp_path) as home:
        agent = await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": "Likes maps."})
        tree = folder_of(home, agent)
    tree.rename(tmp_path / "elsewhere")
    async with open_home(tmp_path) as home:
        agent = await home.agent(agent.id)
        for look in (
            agent.memory.status,
            lambda: agent.ask("SAY:Hello."),
            lambda: agent.update_block("system/human", value="x"),
        ):
            with pytest.raises(StoreError, match="restore it from a backup or a clone") as failed:
                await look()
            assert str(tree) in str(failed.value)
        assert not tree.exists(), "an empty memory was made in the place of a full one"
        (tmp_path / "elsewhere").rename(tree)
        assert await agent.ask("SAY:Hello.") == "Hello."


async def test_G11_a_block_that_goes_out_as_a_file_comes_back_as_it_was(home: Home, tmp_path: Path):
    spec = BlockSpec(
        label="system/rules", value="Be kind: always.", description="Rules: all", limit=77, metadata={"by": ["Ada", 1]}
    )
    agent = await home.create_agent(model="scripted/demo", tags=GIT, memory=(spec,))
    await agent.update_block("system/rules", read_only=True)
    await agent.memory.export(tmp_path / "out")
    await agent.update_block("system/rules", read_only=False)
    await agent.memory.delete("system/rules.md")
    assert "system/rules" not in await blocks_of(agent)
    # In a history of its own, as a person's folder is.
    other = await home.create_agent(model="scripted/demo", tags=GIT)
    await other.memory.import_from(tmp_path / "out")
    back = (await blocks_of(other))["system/rules"]
    assert (back.value, back.description, back.limit, back.read_only, back.metadata) == (
        spec.value,
        spec.description,
        77,
        True,
        {"by": ["Ada", 1]},
    )


async def test_G11_a_file_without_front_matter_resets_nothing(home: Home):
    spec = BlockSpec(label="system/rules", value="Be kind.", description="Rules", limit=77, metadata={"by": "Ada"})
    agent = await home.create_agent(model="scripted/demo", tags=GIT, memory=(spec,))
    tree = folder_of(home, agent)
    (tree / "system" / "rules.md").write_text("Be kind and brief.")
    git(tree, "commit", "-qam", "only the text")
    block = (await blocks_of(agent))["system/rules"]
    assert (block.value, block.description, block.limit, block.metadata) == (
        "Be kind and brief.",
        "Rules",
        77,
        {"by": "Ada"},
    )


async def test_B07_what_a_person_wrote_in_a_file_is_not_overwritten_from_an_older_state(home: Home, tmp_path: Path):
    agent = await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": "Likes maps."})
    seen = await agent.block("system/human")
    commit = (await agent.memory.files()).commit
    tree = folder_of(home, agent)
    (tree / "system" / "human.md").write_text("---\ndescription: Who\n---\nWritten by hand.")
    git(tree, "commit", "-qam", "by hand")

    with pytest.raises(StaleRevision):
        await agent.update_block("system/human", value="The harness's.", expected_revision=seen.revision)
    with pytest.raises(StaleRevision):
        await agent.memory.write("system/human.md", "---\ndescription: x\n---\nThe harness's.", expected=commit)
    spec = BlockSpec(label="human", value="The harness's.")
    own = await home.runtime.db.write(lambda tx: create_block(tx, spec, now=utc_now()))
    with pytest.raises(Conflict, match="already"):
        await agent.update(block_ids=(seen.id, own.id))
    harness = tmp_path / "harness"
    (harness / "system").mkdir(parents=True)
    (harness / "system" / "human.md").write_text("---\ndescription: Its own\n---\nThe harness's.")
    outcome = await agent.memory.import_from(harness)
    assert outcome.conflicts == ("system/human.md",)
    assert (await agent.block("system/human")).value == "Written by hand."
    assert "The harness's." not in await agent.prompt()


async def test_B01_a_limit_is_one_limit_whoever_writes_the_file(home: Home):
    spec = BlockSpec(label="system/human", value="x", description="Who", limit=10)
    agent = await home.create_agent(model="scripted/demo", tags=GIT, memory=(spec,))
    long = "y" * 50
    with pytest.raises(InvalidInput, match="at most 10 characters"):
        await agent.update_block("system/human", value=long)
    with pytest.raises(InvalidInput, match="at most 10 characters"):
        await agent.memory.write("system/human.md", f"---\ndescription: Who\nlimit: 10\n---\n{long}")
    call = json.dumps({"label": "system/human", "new_string": long})
    told = await send(home, agent, f"TOOL:memory_insert {call}\nTHEN:\nSAY:Done.")
    assert [(status, "at most 10 characters" in text) for status, text in returned(told)] == [("error", True)]
    tree = folder_of(home, agent)
    (tree / "system" / "human.md").write_text(f"---\ndescription: Who\nlimit: 10\n---\n{long}")
    assert git(tree, "commit", "-qam", "too long", check=False) == ""
    git(tree, "commit", "-qam", "too long", "--no-verify")
    assert (await agent.block("system/human")).value == "x"
    status = await agent.memory.status()
    assert "at most 10 characters" in status.said[0]


async def test_a_restore_of_everything_leaves_read_only_files_and_says_so(home: Home):
    memory = {"human": "Likes maps.", "rules": "Be kind."}
    agent = await home.create_agent(model="scripted/demo", tags=GIT, memory=memory)
    first = (await agent.memory.files()).commit
    await agent.update_block("system/human", value="Likes tea.")
    await agent.update_block("system/rules", value="Be brief.", read_only=True)
    done = await agent.memory.restore(first)
    assert [(one.path, one.change) for one in done.files] == [("system/human.md", "changed")]
    ((path, why),) = [(one.path, one.why) for one in done.not_restored]
    assert (path, "read-only" in why) == ("system/rules.md", True)
    held = {label: block.value for label, block in (await blocks_of(agent)).items()}
    assert held == {"system/human": "Likes maps.", "system/rules": "Be brief."}
    # Nothing is left to do but what may not be done.
    again = await agent.memory.restore(first, "system")
    assert (again.commit, again.files, len(again.not_restored)) == (done.commit, (), 1)
    with pytest.raises(ReadOnlyBlock) as one_file:
        await agent.memory.restore(first, "system/rules.md")
    assert one_file.value.message == why, "one verdict, whichever way it is asked"
    await agent.update_block("system/rules", read_only=False)
    assert (await agent.memory.restore(first, "system/rules.md")).not_restored == ()
    assert (await agent.block("system/rules")).value == "Be kind."


async def test_blocks_that_cannot_be_files_leave_no_repository_behind(home: Home):
    marks = "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n"
    agent = await home.create_agent(model="scripted/demo", memory={"human": marks})
    with pytest.raises(InvalidInput, match="merge conflict"):
        await agent.update(tags=GIT)
    with pytest.raises(InvalidInput, match="merge conflict"):
        await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": marks})
    folder = home.runtime.homes.folder
    assert not folder.exists() or list(folder.iterdir()) == []
    await agent.update_block("human", value="Likes maps.")
    await agent.update(tags=GIT)
    assert [one.subject for one in await agent.memory.log()] == ["Begin memory"]


async def test_G02_blocks_become_files_and_blocks_again_and_nothing_leaves_the_prompt(home: Home):
    agent = await home.create_agent(
        model="scripted/demo", memory={"human": "Likes maps.", "projects/x": "Ships in May."}
    )
    ids = {block.id for block in (await agent.state()).blocks}
    for tags, prefix in ((GIT, "system/"), ((), ""), (GIT, "system/")):
        await agent.update(tags=tags)
        held = {label: block.value for label, block in (await blocks_of(agent)).items()}
        assert held == {f"{prefix}human": "Likes maps.", f"{prefix}projects/x": "Ships in May."}
        assert {block.id for block in (await agent.state()).blocks} == ids
        assert "Ships in May." in await agent.prompt()
    assert [one.subject for one in await agent.memory.log()] == ["Begin memory"], "what is the same is no commit"
    await agent.update(tags=())
    await agent.update_block("projects/x", value="Ships in June.")
    await agent.update(tags=GIT)
    assert [file.path for file in (await agent.memory.files()).files] == ["system/human.md", "system/projects/x.md"]
    assert [one.subject for one in await agent.memory.log()] == ["Take memory up again", "Begin memory"]
    assert (await agent.memory.diff("HEAD~1")).diff.count("\n+Ships in June.") == 1


async def test_files_of_the_other_layout_become_blocks_and_files_again(home: Home):
    agent = await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": "Likes maps."})
    tree = folder_of(home, agent)
    (tree / "MEMORY.md").write_text("# Index\n")
    (tree / "human.md").write_text("---\nname: human\ndescription: Who\n---\nLikes tea.")
    git(tree, "rm", "-q", "system/human.md")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "the other layout")
    before = {label: (block.id, block.value) for label, block in (await blocks_of(agent)).items()}
    assert {label: value for label, (_, value) in before.items()} == {"MEMORY": "# Index\n", "human": "Likes tea."}
    for tags in ((), GIT):
        await agent.update(tags=tags)
        assert {label: (block.id, block.value) for label, block in (await blocks_of(agent)).items()} == before
    await agent.update(tags=())
    await agent.update_block("human", value="Likes both.")
    await agent.update(tags=GIT)
    assert [file.path for file in (await agent.memory.files()).files] == ["MEMORY.md", "human.md"]
    assert await agent.memory.read("human.md") == "---\nname: human\ndescription: Who\n---\nLikes both."
    assert await agent.memory.read("MEMORY.md") == "# Index\n"
    assert ((await agent.memory.status()).layout, (await agent.memory.check()).ok) == (2, True)


async def test_a_block_whose_label_is_outside_the_prompt_is_a_file_and_no_block_any_more(home: Home):
    agent = await home.create_agent(model="scripted/demo", tags=GIT, memory={"human": "Likes maps."})
    spec = BlockSpec(label="notes/x", value="A note.")
    own = await home.runtime.db.write(lambda tx: create_block(tx, spec, now=utc_now()))
    ids = [block.id for block in (await agent.state()).blocks]
    await agent.update(block_ids=(*ids, own.id))
    assert list(await blocks_of(agent)) == ["system/human"]
    changed = await agent.update_block("notes/x", value="Changed.")
    assert (changed.value, (await agent.block("notes/x")).value) == ("Changed.", "Changed.")
    assert (await agent.memory.read("notes/x.md")).endswith("Changed.")
