"""Kill the process between the git commit and the store's, and at every step after: memory comes back whole."""

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio.to_thread
import pytest
from files_dying import NOT_YET, POINTS
from files_house import FilesHouse, git, path
from runtime_rig import open_home

from eunoe.memory.locks import writing

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

Next = Callable[[FilesHouse], Awaitable[object]]


async def _look(house: FilesHouse) -> None:
    await house.agent.prompt()


async def _hold_the_lock(house: FilesHouse) -> None:
    """A dead process holds no lock."""
    with writing(house.home.runtime.homes.repository(house.agent.id).git_folder, 0.1):
        pass


_NEXT: Final[dict[str, Next]] = {
    "a look": _look,
    "an edit of the same file": lambda house: house.edit("human"),
    "an edit of another file": lambda house: house.edit("plans"),
    "a tool": lambda house: house.use_tool("tea"),
    "a push": lambda house: house.push("plans"),
    "a lock": _hold_the_lock,
}


def _die(folder: Path, point: str, text: str) -> int:
    script = Path(__file__).with_name("files_dying.py")
    return subprocess.run(
        [sys.executable, str(script), str(folder), point, text], timeout=60, check=False, capture_output=True
    ).returncode


@pytest.mark.parametrize("then", _NEXT)
@pytest.mark.parametrize("point", POINTS)
async def test_edit_that_is_cut_off_is_whole_or_not_at_all(tmp_path: Path, point: str, then: str):
    folder = tmp_path / "home"
    async with open_home(folder) as home:
        house = await FilesHouse.build(home, tmp_path)
    assert await anyio.to_thread.run_sync(_die, folder, point, "Cut off.") == -signal.SIGKILL
    done = point not in NOT_YET
    async with open_home(folder) as home:
        house.home, house.agent = home, await home.agent(house.agent.id)
        values = {block.label: block.value for block in (await house.agent.state()).blocks}
        assert ("Cut off.\n" in (values["system/human"], values["system/tea"])) is done
        assert (values["system/human"] == values["system/tea"]) is done
        if done:
            house.written.append("Cut off.")
        await _NEXT[then](house)
        await house.check()
        main = git(house.tree, "rev-parse", "main").strip()
    async with open_home(folder) as home:
        house.home, house.agent = home, await home.agent(house.agent.id)
        await house.check()
        assert git(house.tree, "rev-parse", "main").strip() == main
        assert ("Cut off." in (house.tree / path("tea")).read_text()) is done


@pytest.mark.parametrize("point", POINTS)
async def test_git_that_throws_away_what_nothing_names_takes_no_edit_that_was_answered(tmp_path: Path, point: str):
    folder = tmp_path / "home"
    async with open_home(folder) as home:
        house = await FilesHouse.build(home, tmp_path)
    assert await anyio.to_thread.run_sync(_die, folder, point, "Cut off.") == -signal.SIGKILL
    done = point not in NOT_YET
    for words in (("reflog", "expire", "--expire=now", "--all"), ("gc", "-q", "--prune=now")):
        git(house.tree, *words)
    async with open_home(folder) as home:
        house.home, house.agent = home, await home.agent(house.agent.id)
        house.written += ["Cut off."] if done else []
        await house.check()
        assert (await house.agent.block("system/human")).value.startswith("Cut off." if done else "About human.")
        await house.edit("plans")
        await house.check()
        assert git(house.tree, "for-each-ref", "refs/eunoe") == "", "a name outlived its purpose"


async def test_commit_by_hand_before_the_store_knows_is_followed_after_a_crash(tmp_path: Path):
    folder = tmp_path / "home"
    async with open_home(folder) as home:
        house = await FilesHouse.build(home, tmp_path)
    await anyio.to_thread.run_sync(house._commit, house.tree, "plans", "By hand.")
    assert await anyio.to_thread.run_sync(_die, folder, "recorded", "Cut off.") == -signal.SIGKILL
    async with open_home(folder) as home:
        house.home, house.agent = home, await home.agent(house.agent.id)
        house.written += ["By hand.", "Cut off."]
        await house.check()
        assert (await house.agent.block("system/plans")).value == "By hand.\n"


async def test_commit_by_hand_beside_an_edit_that_was_recorded_is_merged(tmp_path: Path):
    folder = tmp_path / "home"
    async with open_home(folder) as home:
        house = await FilesHouse.build(home, tmp_path)
    assert await anyio.to_thread.run_sync(_die, folder, "recorded", "Cut off.") == -signal.SIGKILL
    await anyio.to_thread.run_sync(house._commit, house.tree, "plans", "By hand.")
    await anyio.to_thread.run_sync(house._commit, house.tree, "tea", "Tea by hand.")
    async with open_home(folder) as home:
        house.home, house.agent = home, await home.agent(house.agent.id)
        house.written += ["By hand.", "Cut off.", "Tea by hand."]
        await house.check()
        assert (await house.agent.block("system/human")).value == "Cut off.\n"
        assert (await house.agent.block("system/plans")).value == "By hand.\n"
        kept = git(house.tree, "ls-tree", "-r", "--name-only", "main", "conflicts").split()
        assert [name.split("/", 2)[2] for name in kept] == ["system/tea.md"]
        assert git(house.tree, "cat-file", "blob", f"main:{kept[0]}").endswith("Tea by hand.\n")
