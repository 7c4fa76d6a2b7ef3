"""Edits of memory files by the API and by tools: one commit each, recorded together with the rows (I8, I9)."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from eunoe.memory.constraints import config_of
from eunoe.memory.file_blocks import render_block
from eunoe.memory.file_changes import Actor
from eunoe.memory.front_matter import MemoryFile
from eunoe.memory.git_library import Author
from eunoe.memory.judgement import change_problems
from eunoe.memory.merge import rebase_edit
from eunoe.memory.paths import in_prompt, label_of, path_of
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.repository_create import agent_author
from eunoe.memory.snapshot import changed_paths
from eunoe.memory.trailers import commit_message
from eunoe.memory.verdict import check_reason
from eunoe.runtime.following import follow, import_commit, keep_and_publish, problems_of, read_file, require_files
from eunoe.runtime.homes import MemoryHomes
from eunoe.state.blocks import Block, BlockSpec
from eunoe.state.errors import NotFound, StaleRevision
from eunoe.state.memory import MemoryHead
from eunoe.store import agents, blocks, memory_heads
from eunoe.store.database import Transaction


class Commit(Struct, frozen=True, kw_only=True):
    """Who changes memory, and why: what the commit will say. Without an author, the caller of this process signs."""

    actor: Actor
    subject: str
    why: str = ""
    author: Author | None = None
    trailers: Mapping[str, str] = {}
    run_id: str | None = None


class FileStore:
    """An agent's memory files within one transaction: the rows have followed, and what is written is recorded."""

    def __init__(self, tx: Transaction, homes: MemoryHomes, agent_id: str, now: datetime) -> None:
        self._tx = tx
        self._now = now
        self.agent_id = agent_id
        follow(tx, homes, agent_id, now)
        self.head: MemoryHead = require_files(memory_heads.get(tx, agent_id), agent_id)
        self.repository: MemoryRepository = homes.repository(agent_id)
        self.caller = homes.caller

    def rows(self) -> tuple[Block, ...]:
        """Return the blocks whose rows show files: those in the prompt."""
        return blocks.of_agent(self._tx, self.agent_id)

    def file(self, path: str) -> MemoryFile | None:
        """Return the file at a path as the head has it, ``None`` when there is none."""
        entry = self.repository.snapshot(self.head.revision).entry(path)
        return None if entry is None else read_file(self.repository, path, entry.blob_id, self.head.layout)

    def path_of(self, label: str) -> str:
        """Return the path of the file that a label names. Raises ``InvalidInput`` for one that cannot be a path."""
        return path_of(label)

    def commit(self, changes: Mapping[str, bytes | None], commit: Commit, *, expected: str | None = None) -> MemoryHead:
        """Write changes as one commit on the head, bring the rows there, and publish it after the transaction.

        ``expected`` is the commit that the change was based on: when the head is elsewhere, the change is made again on
        top of it, and where lines collide that were changed since, or a changed file is to be deleted, it raises
        ``StaleRevision``, which names the files. Raises the verdict on the first file that may not be so (I9).
        """
        check_reason(commit.why)
        if expected is not None:
            self.refuse_stale([path for path, data in changes.items() if data is None], expected)
        message = commit_message(commit.subject, commit.why, commit.trailers)
        made = rebase_edit(
            self.repository,
            expected or self.head.revision,
            changes,
            self.head.revision,
            author=commit.author or self.caller,
            message=message,
            when=self._now,
        )
        if made.commit is None:
            paths = [conflict.path for conflict in made.conflicts]
            raise StaleRevision("Memory", self.agent_id, expected or "", self.head.revision, paths)
        return self.adopt(made.commit, commit)

    def adopt(self, new: str, commit: Commit) -> MemoryHead:
        """Take a commit that comes after the head as memory: bring the rows there, and publish it afterwards.

        Raises the verdict on the first file that may not be so (I9).
        """
        before = self.head.revision
        if new == before:
            return self.head
        self.judge(before, new, commit.actor)
        actor = commit.actor if commit.actor == "user" else f"agent:{self.agent_id}"
        self.head = import_commit(
            self._tx,
            self.repository,
            self.agent_id,
            self.head,
            new,
            actor=actor,
            run_id=commit.run_id,
            now=self._now,
            why=commit.why,
        )
        keep_and_publish(self._tx, self.repository, new)
        return self.head

    def judge(self, before: str, after: str, actor: Actor) -> None:
        """Raise the verdict on the first file of a commit that this actor may not make so, against one before (I9)."""
        old, new = self.repository.snapshot(before), self.repository.snapshot(after)
        changes = changed_paths(old, new)
        problems = change_problems(
            [change.before for change in changes if change.before],
            [change.after for change in changes if change.after],
            lambda entry: self.repository.read(entry.blob_id),
            actor,
            (config_of(old.entries), config_of(new.entries)),
        )
        for problem in (*problems, *problems_of(self.repository, after, before)):
            raise problem.as_error()

    def refuse_stale(self, paths: Collection[str], expected: str) -> None:
        """Raise ``StaleRevision`` when one of the paths was changed since a commit, whichever lines of it."""
        since = changed_paths(self.repository.snapshot(expected), self.repository.snapshot(self.head.revision))
        changed = sorted({change.path for change in since} & set(paths))
        if changed:
            raise StaleRevision("Memory", self.agent_id, expected, self.head.revision, changed)

    def change_blocks(self, edits: Sequence[tuple[str | None, Block | BlockSpec | None]], commit: Commit) -> MemoryHead:
        """Write blocks as files in one commit: pairs of the label before (``None``: a new one) and the block after.

        A block that is ``None`` after is deleted.
        """
        changes: dict[str, bytes | None] = {}
        for old, block in edits:
            source = self.path_of(old) if old is not None else None
            before = self.file(source) if source is not None else None
            if old is not None and before is None and source not in changes:
                raise NotFound("File", source or "", f"Memory has no file {source!r}.")
            if source is not None and (block is None or self.path_of(block.label) != source):
                changes[source] = None
            if block is not None:
                path = self.path_of(block.label)
                named = block.label.rpartition("/")[2] if self.head.layout == 2 and before is None else None
                changes[path] = render_block(before, path, block, name=named)
        return self.commit(changes, commit)

    def shows(self, label: str) -> bool:
        """Say whether the text of the file of a label is in the prompt."""
        return in_prompt(self.path_of(label), self.head.layout)

    def labels(self) -> list[str]:
        """Return the labels of all files that are blocks, whether their text is in the prompt or not."""
        entries = self.repository.snapshot(self.head.revision).entries
        return [label for entry in entries if (label := label_of(entry.path)) is not None]


def agent_commit(
    tx: Transaction, agent_id: str, subject: str, *, trailers: Mapping[str, str], run_id: str | None
) -> Commit:
    """Return what the commit of an agent's own edit says."""
    name = agents.get(tx, agent_id).name
    return Commit(actor="agent", subject=subject, author=agent_author(agent_id, name), trailers=trailers, run_id=run_id)
