"""What a label of an agent names: a block, or a memory file whose text is not in the prompt and so has no row."""

from datetime import datetime

from msgspec import structs

from eunoe.memory.file_blocks import spec_from
from eunoe.memory.paths import path_of
from eunoe.memory.verdict import check_change
from eunoe.runtime.blocks import update_block
from eunoe.runtime.file_edits import Commit, FileStore
from eunoe.runtime.following import read_file
from eunoe.runtime.homes import MemoryHomes
from eunoe.state.blocks import Block, BlockChanges
from eunoe.state.errors import NotFound, StaleRevision
from eunoe.state.ids import named_id
from eunoe.store import agents, blocks, memory_heads
from eunoe.store.database import Transaction


def block_by_label(tx: Transaction, homes: MemoryHomes, agent_id: str, label: str) -> Block:
    """Return the agent's block of this label, or the file that the label names, as a block. Raises ``NotFound``.

    A file's block has an id of its own from agent and path, and a revision that is a number from its content: it
    differs when the text does, and says nothing about order.
    """
    try:
        return blocks.by_label(tx, agent_id, label)
    except NotFound:
        found = _file_block(tx, homes, agent_id, label)
        if found is None:
            raise
        return found


def update_by_label(
    tx: Transaction,
    homes: MemoryHomes,
    agent_id: str,
    label: str,
    changes: BlockChanges,
    *,
    expected_revision: int | None = None,
    why: str = "",
    now: datetime,
) -> Block:
    """Change the named fields of what a label names, and return it as it is then. Raises as ``update_block`` does."""
    current = block_by_label(tx, homes, agent_id, label)
    if any(block.id == current.id for block in blocks.of_agent(tx, agent_id)):
        return update_block(tx, homes, current.id, changes, expected_revision=expected_revision, why=why, now=now)
    if expected_revision is not None and expected_revision != current.revision:
        raise StaleRevision("File", path_of(label), expected_revision, current.revision)
    changed = check_change(current, changes)
    files = FileStore(tx, homes, agent_id, now)
    files.change_blocks([(label, changed)], Commit(actor="user", subject=f"Change {label}", why=why))
    return block_by_label(tx, homes, agent_id, changed.label)


def _file_block(tx: Transaction, homes: MemoryHomes, agent_id: str, label: str) -> Block | None:
    head = memory_heads.get(tx, agent_id)
    if head is None:
        return None
    repository = homes.repository(agent_id)
    path = path_of(label)
    entry = repository.snapshot(head.revision).entry(path)
    if entry is None:
        return None
    made = agents.get(tx, agent_id).created_at
    spec = spec_from(read_file(repository, path, entry.blob_id, head.layout), label)
    return Block(
        id=named_id("block", f"{agent_id}/{path}"),
        created_at=made,
        updated_at=made,
        revision=1 + int(entry.blob_id[:7], 16),
        **structs.asdict(spec),
    )
