"""Memory as blocks, memory as files: from one to the other, with what is there and with its history."""

from datetime import datetime

from msgspec import structs

from eunoe.memory.file_blocks import render_block
from eunoe.memory.hooks import install_hook
from eunoe.memory.judgement import file_problems
from eunoe.memory.paths import path_of
from eunoe.memory.repository_create import create_repository
from eunoe.memory.trailers import commit_message
from eunoe.memory.tree import FILE, TreeEntry
from eunoe.runtime.blocks import IN_PROMPT, file_label
from eunoe.runtime.following import head_at, import_commit, keep_and_publish, problems_of
from eunoe.runtime.homes import MemoryHomes
from eunoe.state.agents import Agent
from eunoe.state.blocks import Block
from eunoe.state.ids import new_id
from eunoe.state.memory import GIT_TAG, MemoryHead, MemoryKind
from eunoe.store import blocks, memory_heads
from eunoe.store.database import Transaction


def wants_files(tags: tuple[str, ...]) -> bool:
    """Say whether an agent with these tags keeps its memory as files."""
    return GIT_TAG in tags


def tagged(tags: tuple[str, ...], kind: MemoryKind | None) -> tuple[str, ...]:
    """Return an agent's tags with the one that says what its memory is; as they are when that is not said."""
    if kind is None or wants_files(tags) == (kind == "git"):
        return tags
    return (*tags, GIT_TAG) if kind == "git" else tuple(tag for tag in tags if tag != GIT_TAG)


def _own_rows(tx: Transaction, agent_id: str, now: datetime) -> list[Block]:
    """Give the agent rows of its own under the labels of files: a shared block is copied, the others are renamed."""
    owned: list[Block] = []
    for block in blocks.of_agent(tx, agent_id):
        label = file_label(block.label)
        path_of(label)
        if len(blocks.agent_ids(tx, block.id)) > 1:
            blocks.detach(tx, agent_id, block.id)
            copy = structs.replace(block, id=new_id("block"), label=label, revision=1, created_at=now, updated_at=now)
            blocks.insert(tx, copy)
            blocks.attach(tx, agent_id, copy.id)
            owned.append(copy)
        elif label != block.label:
            named = structs.replace(block, label=label)
            owned.append(blocks.update(tx, named, expected_revision=block.revision, actor="user", run_id=None, now=now))
        else:
            owned.append(block)
    return owned


def begin_files(tx: Transaction, homes: MemoryHomes, agent: Agent, now: datetime) -> MemoryHead:
    """Keep the agent's memory as files from now on: its blocks become files under ``system/``.

    A repository from an earlier time is taken up again, with its history: the blocks go on top of it. Raises
    ``InvalidInput`` without the extra ``git`` and for a label that cannot be a file, and what is wrong with a file.
    """
    rows = _own_rows(tx, agent.id, now)
    if homes.exists(agent.id):
        return _take_up(tx, homes, agent, rows, now)
    files = {path_of(row.label): render_block(None, path_of(row.label), row) for row in rows}
    entries = [TreeEntry(path=path, blob_id="", mode=FILE, size=len(files[path])) for path in sorted(files)]
    for problem in file_problems(entries, lambda entry: files[entry.path]):
        raise problem.as_error()  # before there is a repository, which no failed transaction takes back
    homes.clear_unfinished()
    repository = create_repository(
        homes.path(agent.id),
        agent_id=agent.id,
        agent_name=agent.name,
        files=files,
        message=commit_message("Begin memory", "The blocks of the agent as files.", {}),
        when=now,
    )
    homes.keep(agent.id, repository)
    install_hook(repository)
    first = repository.head()
    if first is None:
        raise AssertionError("a repository that was just made has its first commit")
    head = head_at(repository, agent.id, first)
    memory_heads.put(tx, head)
    return import_commit(tx, repository, agent.id, None, first, actor="user", run_id=None, now=now)


def _take_up(tx: Transaction, homes: MemoryHomes, agent: Agent, rows: list[Block], now: datetime) -> MemoryHead:
    repository = homes.repository(agent.id)
    old = repository.head()
    changes: dict[str, bytes | None] = {}
    if old is not None:
        changes = {
            entry.path: None
            for entry in repository.snapshot(old).entries
            if entry.path.startswith(IN_PROMPT) and entry.path.endswith(".md")
        }
    for row in rows:
        changes[path_of(row.label)] = render_block(None, path_of(row.label), row)
    message = commit_message("Take memory up again", "The blocks of the agent as files, on top of what was here.", {})
    new = repository.write_commit(old, changes, author=homes.caller, message=message, when=now)
    for problem in problems_of(repository, new, None):
        raise problem.as_error()
    head = import_commit(tx, repository, agent.id, None, new, actor="user", run_id=None, now=now)
    keep_and_publish(tx, repository, new)
    return head


def end_files(tx: Transaction, agent_id: str, now: datetime) -> None:
    """Keep the agent's memory as blocks from now on; the repository stays where it is, with its history.

    Files under ``system/`` become blocks of the names below it; other files are in the repository only.
    """
    memory_heads.delete(tx, agent_id)
    taken = {block.label for block in blocks.of_agent(tx, agent_id)}
    for block in blocks.of_agent(tx, agent_id):
        label = block.label.removeprefix(IN_PROMPT)
        if label != block.label and label not in taken:
            named = structs.replace(block, label=label)
            blocks.update(tx, named, expected_revision=block.revision, actor="user", run_id=None, now=now)
