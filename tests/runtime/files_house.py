"""An agent whose memory is files, and everybody who writes to it: the API, its tools, a person with git, a clone."""

import os
import subprocess
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

import eunoe
from eunoe.embedded import Agent, Home
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.git_clients import repository_for_clients, take_push
from eunoe.runtime.recompile import recompile
from eunoe.store import memory_heads

TAGS: Final = ("git-memory-enabled",)
LABELS: Final = ("human", "persona", "plans", "tea")
HEADER: Final = "---\ndescription: About it\n---\n"
_OPEN: Final = "git -c receive.denyCurrentBranch=ignore receive-pack"
"""How a clone beside the server pushes to main; over HTTP the server says the same."""


def git(folder: Path, *words: str, check: bool = True) -> str:
    """Run git as a person who has no settings."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_EDITOR": "true",
        "LC_ALL": "C.UTF-8",
    }
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "Nell", f"GIT_{who}_EMAIL": "nell@example.org"}
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"git {words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout if done.returncode == 0 else ""


def path(label: str) -> str:
    return f"system/{label}.md"


class FilesHouse:
    """One agent, and what its writers were told is done. Each edit writes a text of its own."""

    def __init__(self, home: Home, agent: Agent, beside: Path) -> None:
        self.home = home
        self.agent = agent
        self.tree = home.runtime.homes.path(agent.id)
        self.clone = beside / "clone"
        self.written: list[str] = []
        self._texts = 0
        self.main = git(self.tree, "rev-parse", "main").strip()

    @classmethod
    async def build(cls, home: Home, beside: Path) -> "FilesHouse":
        memory = {label: f"About {label}." for label in LABELS}
        return cls(home, await home.create_agent(model="scripted/demo", memory=memory, tags=TAGS), beside)

    def text(self) -> str:
        self._texts += 1
        self.written.append(f"Text number {self._texts}.")
        return self.written[-1]

    async def edit(self, label: str) -> None:
        """Change a block by the API."""
        text = self.text()
        await follow_memory(self.home.runtime, self.agent.id)
        block = await self.agent.update_block(f"system/{label}", value=text)
        assert block.value == text

    async def use_tool(self, label: str) -> None:
        """Let the model change a block."""
        text = self.text()
        name = path(label)
        await self.agent.ask(f'TOOL:memory_insert {{"label": "{name}", "new_string": "{text}"}}\nTHEN:\nSAY:Done.')
        assert text in (await self.agent.block(f"system/{label}")).value

    async def commit_by_hand(self, label: str) -> None:
        """Change a file in the working tree and commit it with git."""
        await repository_for_clients(self.home.runtime, self.agent.id)
        text = self.text()
        await anyio.to_thread.run_sync(self._commit, self.tree, label, text)
        await follow_memory(self.home.runtime, self.agent.id)
        assert (await self.agent.block(f"system/{label}")).value == f"{text}\n"

    async def push(self, label: str) -> None:
        """Pull into a clone, change a file there, and push."""
        await repository_for_clients(self.home.runtime, self.agent.id)
        text = self.text()
        await anyio.to_thread.run_sync(self._push, label, text)
        await take_push(self.home.runtime, self.agent.id)
        assert (await self.agent.block(f"system/{label}")).value == f"{text}\n"

    async def restore(self, back: int) -> None:
        """Make all files as they were some commits ago."""
        log = await self.agent.memory.log()
        await self.agent.memory.restore(log[min(back, len(log) - 1)].id)

    async def merge(self, label: str) -> None:
        """Change a file on a branch that began some commits ago, and merge that; where both changed it, keep both."""
        log = await self.agent.memory.log()
        text = self.text()
        name = f"draft-{self._texts}"
        await self.agent.memory.branch(name, log[min(2, len(log) - 1)].id)
        await anyio.to_thread.run_sync(self._push_branch, name, label, text)
        assert (await self.agent.memory.merge(name, policy="both")).outcome == "merged"
        await self.agent.memory.delete_branch(name)

    async def dirty(self, label: str) -> None:
        """Begin an edit in the working tree, let memory change elsewhere, and give the edit up."""
        file = self.tree / path(label)
        before = git(self.tree, "show", f"main:{path(label)}")
        file.write_text("half a thought")
        await follow_memory(self.home.runtime, self.agent.id)
        assert "half a thought" not in await self.agent.prompt()
        assert (await self.agent.block(f"system/{label}")).value in before
        git(self.tree, "checkout", "-q", "--", path(label))

    async def together(self) -> None:
        """Let the four kinds of writers write at the same time, each to a file of its own."""
        texts = [self.text() for _ in LABELS]
        await repository_for_clients(self.home.runtime, self.agent.id)
        given_up: list[str] = []

        async def by_tool(label: str, text: str) -> None:
            call = f'TOOL:memory_insert {{"label": "{path(label)}", "new_string": "{text}"}}\nTHEN:\nSAY:Done.'
            await self.agent.ask(call)

        async def by_api(label: str, text: str) -> None:
            await self.agent.update_block(f"system/{label}", value=text)

        async def by_push(label: str, text: str) -> None:
            await anyio.to_thread.run_sync(self._push_until_taken, label, text)
            await take_push(self.home.runtime, self.agent.id)

        async def by_hand(label: str, text: str) -> None:
            if not await anyio.to_thread.run_sync(self._try_commit, label, text):
                self.written.remove(text)  # git found the index in use, and told the person
                given_up.append(label)

        async with anyio.create_task_group() as writers:
            for write, label, text in zip((by_tool, by_api, by_hand, by_push), LABELS, texts, strict=True):
                writers.start_soon(write, label, text)
        for label in given_up:
            git(self.tree, "checkout", "-q", "HEAD", "--", path(label))

    def _commit(self, folder: Path, label: str, text: str) -> None:
        (folder / path(label)).write_text(f"{HEADER}{text}\n")
        git(folder, "add", "--", path(label))
        git(folder, "commit", "-qm", f"{label} by hand", "--", path(label))

    def _try_commit(self, label: str, text: str) -> bool:
        (self.tree / path(label)).write_text(f"{HEADER}{text}\n")
        git(self.tree, "add", "--", path(label), check=False)
        git(self.tree, "commit", "-qm", f"{label} by hand", "--", path(label), check=False)
        return text in git(self.tree, "log", "-p", "--format=", "main")

    def _begin_clone(self) -> None:
        if not self.clone.exists():
            git(self.tree, "clone", "-q", str(self.tree), str(self.clone))

    def _push(self, label: str, text: str) -> None:
        self._begin_clone()
        git(self.clone, "pull", "-q", "--ff-only")
        self._commit(self.clone, label, text)
        git(self.clone, "push", "-q", f"--receive-pack={_OPEN}", "origin", "main")

    def _push_until_taken(self, label: str, text: str) -> None:
        self._begin_clone()
        git(self.clone, "pull", "-q", "--ff-only")
        self._commit(self.clone, label, text)
        for _ in range(20):
            git(self.clone, "push", "-q", f"--receive-pack={_OPEN}", "origin", "main", check=False)
            git(self.clone, "pull", "-q", "--rebase")
            if git(self.clone, "rev-list", "origin/main..main") == "":
                return
        raise AssertionError("a push was refused twenty times in a row")

    def _push_branch(self, name: str, label: str, text: str) -> None:
        self._begin_clone()
        git(self.clone, "fetch", "-q")
        git(self.clone, "checkout", "-q", "-b", name, f"origin/{name}")
        self._commit(self.clone, label, text)
        git(self.clone, "push", "-q", "origin", name)
        git(self.clone, "checkout", "-q", "main")
        git(self.clone, "branch", "-q", "-D", name)

    async def check(self) -> None:
        """Hold what must be true whatever was done, by what git itself says."""
        runtime = self.home.runtime
        await repository_for_clients(runtime, self.agent.id)
        main = git(self.tree, "rev-parse", "main").strip()
        recorded = await runtime.db.read(lambda tx: memory_heads.get(tx, self.agent.id))
        assert recorded is not None
        assert (recorded.revision, recorded.unread) == (main, None)
        assert git(self.tree, "merge-base", self.main, main).strip() == self.main, "history was rewritten"
        self.main = main
        files = {
            name.removesuffix(".md"): git(self.tree, "cat-file", "blob", f"main:{name}").split("---\n", 2)[-1]
            for name in git(self.tree, "ls-tree", "-rz", "--name-only", "main", "system").split("\0")
            if name
        }
        assert {block.label: block.value for block in (await self.agent.state()).blocks} == files
        history = git(self.tree, "log", "-p", "-m", "--format=", "main")
        assert [text for text in self.written if text not in history] == []
        prompt = await self.agent.prompt()
        assert prompt == await recompile(runtime, self.agent.id, dry_run=True)
        async with eunoe.open(runtime.settings.home, environment={}) as other:
            assert prompt == await recompile(other.runtime, self.agent.id, dry_run=True), (
                "an opening that knows nothing"
            )
        assert [line for text in files.values() for line in text.splitlines() if line not in prompt] == []
        assert (await self.agent.verify()).ok
        assert git(self.tree, "status", "--porcelain") == ""
        assert git(self.tree, "fsck", "--no-dangling") == ""
