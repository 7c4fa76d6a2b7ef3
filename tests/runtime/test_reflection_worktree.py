"""A reflection works in a working tree of its own, where a person may go on with what waits for a decision."""

import shutil
from pathlib import Path

import pytest
from files_house import git
from runtime_rig import send

from eunoe.embedded import Agent, Home
from eunoe.runtime.agents import delete_agent
from eunoe.state.errors import Conflict
from eunoe.state.reflections import Reflection

pytestmark = pytest.mark.anyio

TEA = 'TOOL:memory_replace {"label": "human", "old_string": "maps", "new_string": "tea"}\nTHEN:\n'
NOTE = 'TOOL:memory {"command": "create", "path": "notes/lisbon", "description": "A plan.", "file_text": "In May."}\n'


@pytest.fixture
async def filed(home: Home) -> Agent:
    """An agent with memory files that somebody has talked with."""
    memory = {"human": "Likes maps."}
    agent = await home.create_agent(model="scripted/demo", tags=("git-memory-enabled",), memory=memory)
    await send(home, agent, "SAY:Noted.")
    return agent


async def waiting(agent: Agent) -> tuple[Reflection, Path]:
    """Reflect, and return what waits for a review, and the folder of its files."""
    done = await agent.memory.reflect(policy="review", instructions=NOTE + TEA + "SAY:Done.")
    assert done.outcome == "waits for review"
    shown = await agent.memory.reflection(done.id)
    assert shown.worktree is not None
    return done, Path(shown.worktree)


def trees(home: Home, agent: Agent) -> list[str]:
    """Return the folders that git knows as working trees of the agent's repository."""
    told = git(home.runtime.homes.path(agent.id), "worktree", "list", "--porcelain")
    return [line.removeprefix("worktree ") for line in told.splitlines() if line.startswith("worktree ")]


async def test_its_files_are_those_of_its_branch_and_mains_stay(home: Home, filed: Agent):
    main = home.runtime.homes.path(filed.id)
    done, tree = await waiting(filed)
    assert git(tree, "rev-parse", "--abbrev-ref", "HEAD").strip() == done.branch
    assert git(tree, "rev-parse", "HEAD").strip() == done.tip
    assert git(tree, "status", "--porcelain") == ""
    assert (tree / "system/human.md").read_text().endswith("Likes tea.")
    assert (tree / "notes/lisbon.md").read_text().endswith("In May.")
    assert (main / "system/human.md").read_text().endswith("Likes maps.")
    assert git(main, "status", "--porcelain") == ""
    assert trees(home, filed) == [str(main), str(tree)]


async def test_what_a_person_commits_there_is_reviewed_and_merged_with_it_and_then_the_folder_goes(
    home: Home, filed: Agent
):
    done, tree = await waiting(filed)
    (tree / "notes/lisbon.md").write_text("---\ndescription: A plan.\n---\n\nIn June.\n")
    git(tree, "commit", "-q", "-a", "-m", "Rather June")
    shown = await filed.memory.reflection(done.id)
    assert "+In June." in shown.diff
    assert shown.commits[0].author.name == "Nell"
    assert (await filed.memory.accept(done.id)).outcome == "merged"
    assert (await filed.memory.read("notes/lisbon.md")).endswith("In June.\n")
    assert trees(home, filed) == [str(home.runtime.homes.path(filed.id))]
    assert not tree.exists()


async def test_a_conflict_is_solved_there_with_git(home: Home, filed: Agent):
    main = home.runtime.homes.path(filed.id)
    done, tree = await waiting(filed)
    (main / "system/human.md").write_text((main / "system/human.md").read_text().replace("maps", "trains"))
    git(main, "commit", "-q", "-a", "-m", "Trains")
    with pytest.raises(Conflict, match=r"both changed system/human\.md"):
        await filed.memory.accept(done.id)
    git(tree, "merge", "-q", "main", check=False)
    assert "<<<<<<<" in (tree / "system/human.md").read_text()
    before = (main / "system/human.md").read_text()
    (tree / "system/human.md").write_text(before.replace("trains", "trains and tea"))
    git(tree, "commit", "-q", "-a", "-m", "Both")
    assert (await filed.memory.accept(done.id)).outcome == "merged"
    assert (await filed.block("system/human")).value == "Likes trains and tea."


async def test_the_hook_checks_what_is_committed_there(filed: Agent):
    _, tree = await waiting(filed)
    (tree / "system/human.md").write_text("<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n")
    with pytest.raises(AssertionError, match=r"system/human\.md"):
        git(tree, "commit", "-q", "-a", "-m", "Broken")
    assert git(tree, "log", "-1", "--format=%s").strip() != "Broken"


@pytest.mark.parametrize("accepted", [True, False])
async def test_edits_that_nobody_has_committed_there_are_not_lost(home: Home, filed: Agent, accepted: bool):
    done, tree = await waiting(filed)
    (tree / "notes/draft.md").write_text("Not yet.\n")
    await (filed.memory.accept(done.id) if accepted else filed.memory.reject(done.id))
    assert (tree / "notes/draft.md").read_text() == "Not yet.\n"
    await send(home, filed, "SAY:More.")
    await filed.memory.reflect(instructions="SAY:Nothing.")
    assert tree.exists()
    (tree / "notes/draft.md").unlink()
    await send(home, filed, "SAY:More.")
    await filed.memory.reflect(instructions="SAY:Nothing.")
    assert not tree.exists()
    assert [one.name for one in await filed.memory.branches()] == ["main"]


@pytest.mark.parametrize("accepted", [True, False])
async def test_what_is_committed_there_after_the_decision_is_not_lost(home: Home, filed: Agent, accepted: bool):
    done, tree = await waiting(filed)
    (tree / "notes/draft.md").write_text("Later.\n")
    await (filed.memory.accept(done.id) if accepted else filed.memory.reject(done.id))
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "Mine")
    await send(home, filed, "SAY:More.")
    await filed.memory.reflect(instructions="SAY:Nothing.")
    assert git(tree, "log", "-1", "--format=%s").strip() == "Mine"
    await filed.memory.merge(done.branch)
    await send(home, filed, "SAY:More.")
    await filed.memory.reflect(instructions="SAY:Nothing.")
    assert await filed.memory.read("notes/draft.md") == "Later.\n"
    assert [one.name for one in await filed.memory.branches()] == ["main"]
    assert not tree.exists()


async def test_rejecting_drops_what_a_person_committed_there_and_was_shown(filed: Agent):
    done, tree = await waiting(filed)
    git(tree, "commit", "-q", "--allow-empty", "-m", "Mine")
    await filed.memory.reject(done.id)
    assert not tree.exists()
    assert [one.name for one in await filed.memory.branches()] == ["main"]


async def test_a_damaged_folder_keeps_nobody_from_a_decision_or_the_next_reflection(home: Home, filed: Agent):
    done, tree = await waiting(filed)
    (home.runtime.homes.path(filed.id) / ".git/worktrees" / tree.name / "HEAD").unlink()
    assert (await filed.memory.accept(done.id)).outcome == "merged"
    await send(home, filed, "SAY:More.")
    assert (await filed.memory.reflect(instructions="SAY:Nothing.")).outcome == "nothing to do"


async def test_a_folder_that_cannot_be_made_is_told(home: Home, filed: Agent):
    (home.runtime.homes.folder / "worktrees").write_text("x")
    done = await filed.memory.reflect(instructions=TEA + "SAY:Done.")
    assert done.outcome == "failed"
    assert "cannot be checked out" in done.detail


async def test_one_that_changes_nothing_leaves_no_folder(home: Home, filed: Agent):
    done = await filed.memory.reflect(instructions="SAY:All is well.")
    assert done.outcome == "nothing to do"
    assert (await filed.memory.reflection(done.id)).worktree is None
    assert trees(home, filed) == [str(home.runtime.homes.path(filed.id))]


async def test_a_folder_that_somebody_removed_keeps_nobody_from_a_decision(home: Home, filed: Agent):
    done, tree = await waiting(filed)
    shutil.rmtree(tree)
    assert "+Likes tea." in (await filed.memory.reflection(done.id)).diff
    assert (await filed.memory.accept(done.id)).outcome == "merged"
    assert trees(home, filed) == [str(home.runtime.homes.path(filed.id))]
    assert [one.name for one in await filed.memory.branches()] == ["main"]


async def test_the_folder_is_put_aside_with_the_files_of_a_deleted_agent(home: Home, filed: Agent):
    _, tree = await waiting(filed)
    (tree / "notes/draft.md").write_text("Not yet.\n")
    await delete_agent(home.runtime, filed.id)
    assert not tree.exists()
    (kept,) = (home.runtime.homes.folder / "deleted").glob(f"{filed.id}-*.worktrees/*/notes/draft.md")
    assert kept.read_text() == "Not yet.\n"
