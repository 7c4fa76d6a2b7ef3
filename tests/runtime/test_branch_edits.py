"""A branch that a turn works on has what the turn made, whoever else commits there, or it is told that it has not."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from files_house import git

from eunoe.embedded import Agent, Home
from eunoe.memory.git_library import Author
from eunoe.memory.revisions import BRANCHES, resolve
from eunoe.memory.worktrees import add_worktree
from eunoe.runtime.branch_edits import BranchStore, settle_branch
from eunoe.runtime.file_edits import Commit
from eunoe.runtime.turn import MemoryBranch
from eunoe.state.errors import NotFound, StaleRevision
from eunoe.store.database import Transaction

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def filed(home: Home) -> Agent:
    memory = {"human": "Likes maps."}
    return await home.create_agent(model="scripted/demo", tags=("git-memory-enabled",), memory=memory)


@pytest.fixture
async def branch(home: Home, filed: Agent) -> MemoryBranch:
    await filed.memory.branch("reflection/work")
    repository = home.runtime.homes.repository(filed.id)
    found = MemoryBranch(agent_id=filed.id, name="reflection/work")
    add_worktree(repository, BRANCHES + found.name, folder(home, found))
    return found


def folder(home: Home, branch: MemoryBranch) -> Path:
    return home.runtime.homes.worktree(branch.agent_id, branch.name)


def edit(home: Home, branch: MemoryBranch, changes: dict[str, bytes]) -> Callable[[Transaction], None]:
    def work(tx: Transaction) -> None:
        files = BranchStore(tx, home.runtime.homes, branch, NOW)
        files.commit(changes, Commit(actor="agent", subject="An edit", author=Author("Ada", "ada@example.org")))

    return work


def person_commits(tree: Path, path: str, text: str) -> None:
    (tree / path).parent.mkdir(exist_ok=True)
    (tree / path).write_text(text)
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "A person's")


async def test_both_are_kept_when_a_person_commits_between_two_edits(home: Home, branch: MemoryBranch):
    tree = folder(home, branch)
    await home.runtime.db.write(edit(home, branch, {"notes/one.md": b"one\n"}))
    person_commits(tree, "notes/two.md", "two\n")
    await home.runtime.db.write(edit(home, branch, {"notes/three.md": b"three\n"}))
    assert sorted(path.name for path in (tree / "notes").iterdir()) == ["one.md", "three.md", "two.md"]
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("text", ["two\n", "one\n"])
async def test_what_was_not_put_on_the_branch_is_put_there_later_or_told(home: Home, branch: MemoryBranch, text: str):
    tree = folder(home, branch)
    repository = home.runtime.homes.repository(branch.agent_id)
    before = resolve(repository, branch.name)
    await home.runtime.db.write(edit(home, branch, {"notes/one.md": b"one\n"}))
    made = branch.tip
    git(tree, "reset", "-q", "--hard", before)
    path = "notes/one.md" if text == "two\n" else "notes/other.md"
    person_commits(tree, path, text)
    if text == "two\n":
        with pytest.raises(StaleRevision, match=r"."):
            settle_branch(home.runtime.homes, branch, NOW)
        assert (tree / path).read_text() == "two\n"
    else:
        settle_branch(home.runtime.homes, branch, NOW)
        assert repository.is_ancestor(made or "", resolve(repository, branch.name))
        assert (tree / "notes/one.md").read_bytes() == b"one\n"
    assert git(tree, "status", "--porcelain") == ""


async def test_a_branch_that_somebody_deleted_is_told(home: Home, branch: MemoryBranch):
    await home.runtime.db.write(edit(home, branch, {"notes/one.md": b"one\n"}))
    git(home.runtime.homes.path(branch.agent_id), "update-ref", "-d", BRANCHES + branch.name)
    with pytest.raises(NotFound, match="Somebody deleted the branch"):
        settle_branch(home.runtime.homes, branch, NOW)
