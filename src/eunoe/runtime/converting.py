"""Memory as blocks, memory as files: from one to the other, with what is there and with its history."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from eunoe.memory.file_blocks import render_block
from eunoe.memory.front_matter import MemoryFile, parse
from eunoe.memory.hooks import install_hook
from eunoe.memory.judgement import file_problems
from eunoe.memory.paths import Layout, in_prompt, is_index, layout_of, path_of
from eunoe.memory.repository_create import create_repository
from eunoe.memory.trailers import commit_message
from eunoe.memory.tree import EXECUTABLE, FILE, TreeEntry
from eunoe.runtime.blocks import IN_PROMPT
from eunoe.runtime.following import import_commit, keep_and_publish, problems_of
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


def _own_rows(tx: Transaction, agent_id: str, layout: Layout, now: datetime) -> list[Block]:
    """Give the agent rows of its own under the labels of files: a shared block is copied, the others are renamed.

    Every block is in the prompt and stays there: in layout 1 its label begins with ``system/`` then. In layout 2 a
    label with a folder cannot be in the prompt.
    """
    owned: list[Block] = []
    for block in blocks.of_agent(tx, agent_id):
        within = layout == 2 or block.label.startswith(IN_PROMPT)
        label = block.label if within else f"{IN_PROMPT}{block.label}"
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
    if homes.exists(agent.id):
        return _take_up(tx, homes, agent, now)
    rows = _own_rows(tx, agent.id, 1, now)
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
    return import_commit(tx, repository, agent.id, None, first, actor="user", run_id=None, now=now)


def _take_up(tx: Transaction, homes: MemoryHomes, agent: Agent, now: datetime) -> MemoryHead:
    repository = homes.repository(agent.id)
    old = repository.head()
    entries = repository.snapshot(old).entries if old is not None else ()
    layout = layout_of(entry.path for entry in entries)
    rows = _own_rows(tx, agent.id, layout, now)
    before = {entry.path: entry for entry in entries if entry.mode in (FILE, EXECUTABLE)}
    changes: dict[str, bytes | None] = {path: None for path in before if in_prompt(path, layout)}
    for row in rows:
        path = path_of(row.label)
        entry = before.get(path)
        file = parse(repository.read(entry.blob_id), path, index=is_index(path, layout)) if entry else None
        known = file if isinstance(file, MemoryFile) else None
        name = row.label.rpartition("/")[2] if layout == 2 and known is None else None
        changes[path] = render_block(known, path, row, name=name)
    message = commit_message("Take memory up again", "The blocks of the agent as files, on top of what was here.", {})
    new = repository.write_commit(old, changes, author=homes.caller, message=message, when=now)
    for problem in problems_of(repository, new, None):
        raise problem.as_error()
    _drop_unshown(tx, rows, layout_of(entry.path for entry in repository.snapshot(new).entries))
    head = import_commit(tx, repository, agent.id, None, new, actor="user", run_id=None, now=now)
    keep_and_publish(tx, repository, new)
    return head


def _drop_unshown(tx: Transaction, rows: Sequence[Block], layout: Layout) -> None:
    """Delete the rows of blocks whose files are not in the prompt: they are files now, and blocks no more."""
    for row in rows:
        if not in_prompt(path_of(row.label), layout):
            blocks.delete(tx, row.id)


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
