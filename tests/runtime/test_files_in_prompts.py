"""A prompt shows one commit of memory files, the newest that can be read, as fresh as the policy says (I7)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from files_house import HEADER, LABELS, FilesHouse, git, path
from runtime_rig import open_home, send

from eunoe.embedded import Home
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.tree import TreeEntry
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.recompile import recompile

pytestmark = pytest.mark.anyio

_POLICIES: Final = ("recompile", "append", "defer")


MOST_READS: Final = 24
"""Reads of the repository that a compile after one commit makes at most."""


class Interrupted(MemoryRepository):
    """A repository in which somebody commits before a given read: of main, of a folder, of a file, of a size."""

    def __init__(self, path: Path, before: int) -> None:
        self.before = before
        self.reads = 0
        super().__init__(path)

    def _reading(self) -> None:
        self.reads += 1
        if self.reads == self.before:
            _commit(self.path, dict.fromkeys(LABELS, "Later."))

    def head(self) -> str | None:
        self._reading()
        return super().head()

    def read(self, blob_id: str) -> bytes:
        self._reading()
        return super().read(blob_id)

    def _read_object(self, object_id: str) -> bytes:
        self._reading()
        return super()._read_object(object_id)

    def with_sizes(self, entries: Sequence[TreeEntry]) -> tuple[TreeEntry, ...]:
        self._reading()
        return super().with_sizes(entries)


def _commit(tree: Path, texts: dict[str, str]) -> None:
    for label, text in texts.items():
        (tree / path(label)).write_text(f"{HEADER}{text}\n")
    git(tree, "add", "-A")
    git(tree, "commit", "--no-verify", "-qm", "by hand")


@pytest.mark.slow
@pytest.mark.parametrize("before", range(1, MOST_READS + 1))
async def test_commit_between_any_two_reads_never_gives_a_text_of_two_commits(home: Home, tmp_path: Path, before: int):
    house = await FilesHouse.build(home, tmp_path)
    _commit(house.tree, dict.fromkeys(LABELS, "Sooner."))
    repository = Interrupted(house.tree, before)
    home.runtime.homes.keep(house.agent.id, repository)
    text = await recompile(home.runtime, house.agent.id)
    repository.before = 0
    assert repository.reads <= MOST_READS, "there are reads before which nobody commits here"
    assert (text.count("Sooner."), text.count("Later.")) in {(4, 0), (0, 4)}
    await follow_memory(home.runtime, house.agent.id)
    newest = "Later." if "Later." in git(house.tree, "show", f"main:{path('tea')}") else "Sooner."
    assert (await recompile(home.runtime, house.agent.id)).count(newest) == 4


def _link(tree: Path) -> None:
    (tree / "system" / "bad.md").symlink_to("/etc/passwd")


def _submodule(tree: Path) -> None:
    git(tree, "update-index", "--add", "--cacheinfo", f"160000,{git(tree, 'rev-parse', 'HEAD').strip()},system/bad.md")


def _write(data: bytes) -> Any:
    return lambda tree: (tree / "system" / "bad.md").write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (_write(HEADER.encode() + b"\xff\xfe"), "encoding"),
        (_write(HEADER.encode() + b"<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n"), "conflict"),
        (_write(HEADER.encode() + b"x" * 5 * 1024 * 1024), "size"),
        (_link, "mode"),
        (_submodule, "mode"),
    ],
    ids=["encoding", "conflict", "5 MB", "link", "submodule"],
)
async def test_commit_that_cannot_be_read_leaves_the_last_good_one_until_a_good_one_comes(
    home: Home, tmp_path: Path, make: Any, rule: str
):
    house = await FilesHouse.build(home, tmp_path)
    make(house.tree)
    (house.tree / path("tea")).write_text(f"{HEADER}Beside the bad one.\n")
    git(house.tree, "add", "--", path("tea"))
    if make is not _submodule:
        git(house.tree, "add", "--", "system/bad.md")
    git(house.tree, "commit", "--no-verify", "-qm", "bad")
    await follow_memory(home.runtime, house.agent.id)
    head = (await house.agent.state()).memory
    assert head is not None
    assert head.unread is not None
    assert (head.revision, head.unread.revision) == (house.main, git(house.tree, "rev-parse", "main").strip())
    assert f"(rule: {rule})" in head.unread.reason
    prompt = await house.agent.prompt()
    assert "About tea." in prompt
    assert "Beside the bad one." not in prompt
    assert "system/bad.md" in prompt
    git(house.tree, "rm", "-q", "-f", "--cached", "system/bad.md")
    git(house.tree, "commit", "--no-verify", "-qm", "good again")
    await follow_memory(home.runtime, house.agent.id)
    prompt = await house.agent.prompt()
    assert "Beside the bad one." in prompt
    assert "bad.md" not in prompt


@pytest.mark.parametrize("by_request", [False, True], ids=["of the agent", "of the request"])
@pytest.mark.parametrize("changed", ["nothing", "memory", "system"])
@pytest.mark.parametrize("policy", _POLICIES)
async def test_refresh_policy_says_what_a_change_does_to_the_next_request(
    tmp_path: Path, policy: str, changed: str, by_request: bool
):
    """The table of the design: rows are what changed, columns the policies."""
    options: dict[str, Any] = {"memory_refresh": policy} if by_request else {}
    async with open_home(tmp_path / "home") as home:
        house = await FilesHouse.build(home, tmp_path)
        if not by_request:
            await house.agent.update(memory_refresh=policy)
        await send(home, house.agent, "SAY:First.", **options)
        before = (await house.agent.state()).conversation.compiled
        if changed == "memory":
            await house.edit("tea")
        if changed == "system":
            await house.agent.update(system="Be another.")
        told = await send(home, house.agent, "SAY:Second.", **options)
    async with open_home(tmp_path / "home") as home:
        agent = await home.agent(house.agent.id)
        after = (await agent.state()).conversation.compiled
        assert before is not None
        assert after is not None
        updates = [one for one in await agent.window() if one.meta.get("memory_update")]
        same = changed == "nothing" or (changed == "memory" and policy != "recompile")
        assert (after.hash == before.hash) is same
        assert len(updates) == (1 if (changed, policy) == ("memory", "append") else 0)
        if updates:
            assert house.written[-1] in updates[0].text
            # It stays for every later request, across restarts, and is not told twice.
            await send(home, agent, "SAY:Third.", **options)
            again = [one for one in await agent.window() if one.meta.get("memory_update")]
            assert [one.id for one in again] == [updates[0].id]
        assert told.ended.stop_reason == "end_turn"
        text = await recompile(home.runtime, agent.id)
        assert all(line in text for line in house.written)
        if changed == "system":
            assert text.startswith("Be another.")


async def test_C04_two_edits_in_one_run_leave_the_prefix_as_it_is_and_return_what_they_changed(
    home: Home, tmp_path: Path
):
    house = await FilesHouse.build(home, tmp_path)
    await house.agent.update(memory_refresh="defer")
    await send(home, house.agent, "SAY:First.")
    before = (await house.agent.state()).conversation.compiled
    calls = [f'TOOL:memory_insert {{"label": "system/tea.md", "new_string": "Cup {n}."}}' for n in (1, 2)]
    told = await send(home, house.agent, "\nTHEN:\n".join([*calls, "SAY:Done."]))
    after = (await house.agent.state()).conversation.compiled
    assert before is not None
    assert after is not None
    assert after.hash == before.hash
    assert [part.status for part in told.returns] == ["success", "success"]
    assert all("About human." not in str(part.content) for part in told.returns)
    assert (await house.agent.block("system/tea")).value == "About tea.\nCup 1.\nCup 2."
