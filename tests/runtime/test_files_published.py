"""What an edit leaves in the repository and its working tree, when others are at work there too."""

from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from files_house import FilesHouse, git, path
from runtime_rig import open_home

from eunoe.embedded import Home
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.git_clients import take_push

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_push_whose_follow_up_comes_after_the_next_edit_still_reaches_the_working_tree(
    home: Home, tmp_path: Path
):
    house = await FilesHouse.build(home, tmp_path)
    await anyio.to_thread.run_sync(house._push, "human", "Pushed.")
    await house.edit("tea")
    await take_push(home.runtime, house.agent.id)
    assert (house.tree / path("human")).read_text().endswith("Pushed.\n")
    await house.check()


async def test_commit_by_hand_that_begins_while_an_edit_is_published_undoes_nothing(home: Home, tmp_path: Path):
    house = await FilesHouse.build(home, tmp_path)
    (house.tree / path("persona")).write_text("---\ndescription: Me\n---\nBy hand.\n")
    git(house.tree, "add", "-A")
    async with anyio.create_task_group() as both:
        both.start_soon(house.edit, "human")
        both.start_soon(anyio.to_thread.run_sync, lambda: git(house.tree, "commit", "-qm", "by hand", check=False))
    git(house.tree, "commit", "-qm", "by hand", check=False)
    await follow_memory(home.runtime, house.agent.id)
    assert (await house.agent.block("system/human")).value == house.written[-1]
    assert (await house.agent.block("system/persona")).value == "By hand.\n"
    await house.check()


async def test_edit_is_kept_and_published_later_when_a_person_holds_the_index(tmp_path: Path):
    async with open_home(tmp_path / "home") as home:
        house = await FilesHouse.build(home, tmp_path)
        lock = house.tree / ".git" / "index.lock"
        lock.write_bytes(b"")
        await house.edit("human")
        assert git(house.tree, "rev-parse", "main").strip() == house.main
        with anyio.fail_after(4):  # who waited in vain does not wait at each look
            for _ in range(4):
                assert house.written[-1] in await house.agent.prompt()
        assert "Main is behind" in (await house.agent.memory.status()).said[0]
        lock.unlink()
        assert (await house.agent.memory.status()).said == ()
        assert git(house.tree, "rev-parse", "main").strip() != house.main
    async with open_home(tmp_path / "home") as home:
        house.home, house.agent = home, await home.agent(house.agent.id)
        await house.check()
        assert house.written[-1] in (house.tree / path("human")).read_text()


async def test_main_that_a_person_moved_back_or_deleted_comes_forward_again(home: Home, tmp_path: Path):
    house = await FilesHouse.build(home, tmp_path)
    await house.edit("human")
    await house.edit("plans")
    newest = git(house.tree, "rev-parse", "main").strip()
    git(house.tree, "reset", "-q", "--hard", "HEAD~2")
    assert house.written[-1] in await house.agent.prompt()
    await house.check()
    assert git(house.tree, "rev-parse", "main").strip() == newest
    git(house.tree, "checkout", "-q", "--detach")
    git(house.tree, "branch", "-q", "-D", "main")
    assert house.written[-1] in await house.agent.prompt()
    git(house.tree, "checkout", "-q", "main")
    await house.check()
    assert git(house.tree, "rev-parse", "main").strip() == newest


async def test_repository_whose_hooks_cannot_be_written_is_still_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with open_home(tmp_path / "home") as home:
        house = await FilesHouse.build(home, tmp_path)
    hooks = house.tree / ".git" / "hooks"
    hooks.rename(tmp_path / "hooks")
    hooks.write_text("in the way")
    async with open_home(tmp_path / "home") as home:
        house.home, house.agent = home, await home.agent(house.agent.id)
        await house.edit("human")
        assert house.written[-1] in await house.agent.prompt()
    assert "are not checked before they are made" in caplog.text
