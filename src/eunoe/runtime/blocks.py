"""Writing blocks through the API: the verdict of ``memory/`` and one transaction (I8, I9).

A block of an agent whose memory is files is a view of a file: writing it is a commit.
"""

from datetime import datetime

from msgspec import structs

from eunoe.memory.verdict import check_change, check_new, check_reason
from eunoe.runtime.file_edits import Commit, FileStore
from eunoe.runtime.homes import MemoryHomes
from eunoe.state.blocks import DEFAULT_DESCRIPTIONS, Block, BlockChanges, BlockSpec
from eunoe.state.errors import Conflict, NotFound, StaleRevision
from eunoe.state.ids import new_id
from eunoe.store import blocks, memory_heads
from eunoe.store.database import Transaction

IN_PROMPT = "system/"
"""The folder of files whose text is in the prompt (layout 1); blocks of such agents have it in their labels."""


def with_default_description(spec: BlockSpec) -> BlockSpec:
    """Give a ``human`` or ``persona`` block of an agent its description when it comes without one."""
    default = DEFAULT_DESCRIPTIONS.get(spec.label.removeprefix(IN_PROMPT))
    return structs.replace(spec, description=default) if spec.description is None and default else spec


def file_label(label: str) -> str:
    """Return the label that a plain block has as a file: under ``system/``, unless it names a folder itself."""
    return label if "/" in label else f"{IN_PROMPT}{label}"


def create_block(
    tx: Transaction, spec: BlockSpec, *, now: datetime, actor: str = "user", run_id: str | None = None
) -> Block:
    """Store a new block. Raises ``InvalidInput`` (label, text or limit)."""
    check_new(spec)
    block = Block(id=new_id("block"), created_at=now, updated_at=now, **structs.asdict(spec))
    blocks.insert(tx, block, actor=actor, run_id=run_id)
    return block


def update_block(
    tx: Transaction,
    homes: MemoryHomes,
    block_id: str,
    changes: BlockChanges,
    *,
    expected_revision: int | None = None,
    actor: str = "user",
    run_id: str | None = None,
    why: str = "",
    now: datetime,
) -> Block:
    """Change the named fields of a block; every agent that shares it sees the change.

    ``why`` is kept with the block's revision, and said by the commit when the block is a memory file. Raises
    ``NotFound``, ``StaleRevision`` (when ``expected_revision`` is given and is not the current one),
    ``BlockLimitExceeded``, ``ReadOnlyBlock``, ``LabelTaken`` and ``InvalidInput``.
    """
    check_reason(why)
    agent_id = memory_heads.agent_of_block(tx, block_id)
    files = FileStore(tx, homes, agent_id, now) if agent_id is not None else None
    current = blocks.get(tx, block_id)
    if expected_revision is not None and expected_revision != current.revision:
        raise StaleRevision("Block", block_id, expected_revision, current.revision)
    changed = check_change(current, changes)
    if files is None:
        return blocks.update(
            tx, changed, expected_revision=current.revision, actor=actor, run_id=run_id, now=now, why=why
        )
    commit = Commit(actor="user", subject=f"Change {current.label}", why=why)
    return _change_file(tx, files, current, changed, commit, now)


def _change_file(
    tx: Transaction, files: FileStore, current: Block, changed: Block, commit: Commit, now: datetime
) -> Block:
    """Write a changed block as its file; what files do not hold (tags and the like) is kept in the row alone."""
    beside = structs.replace(
        current, label=changed.label, tags=changed.tags, hidden=changed.hidden, extra=changed.extra
    )
    row = blocks.update(
        tx,
        beside,
        expected_revision=current.revision,
        actor=commit.actor,
        run_id=commit.run_id,
        now=now,
        why=commit.why,
    )
    files.change_blocks([(current.label, changed)], commit)
    try:
        return blocks.get(tx, row.id)
    except NotFound:
        return changed  # it was moved to where its text is not in the prompt: a file, and no block any more


def attach_block(
    tx: Transaction, homes: MemoryHomes, agent_id: str, block_id: str, *, now: datetime, why: str = ""
) -> None:
    """Attach a block to an agent; twice is the same as once.

    An agent whose memory is files takes the block over as a file. Raises ``NotFound``, ``LabelTaken``, and
    ``Conflict`` for a block that other agents share: files belong to one agent.
    """
    check_reason(why)
    if memory_heads.revision(tx, agent_id) is None:
        if (owner := memory_heads.agent_of_block(tx, block_id)) is not None:
            raise Conflict(
                f"Block {block_id} is a file in the memory of agent {owner} and cannot be shared. Create a block with "
                f"its text instead."
            )
        blocks.attach(tx, agent_id, block_id)
        return
    files = FileStore(tx, homes, agent_id, now)
    block = blocks.get(tx, block_id)
    holders = blocks.agent_ids(tx, block_id)
    if agent_id in holders:
        return
    if holders:
        raise Conflict(
            f"Block {block_id} is shared by {len(holders)} agents, and the memory of agent {agent_id} is files, which "
            f"belong to one agent. Create a block with its text instead."
        )
    label = file_label(block.label)
    named = structs.replace(block, label=label)
    if label != block.label:
        blocks.update(tx, named, expected_revision=block.revision, actor="user", run_id=None, now=now)
    blocks.attach(tx, agent_id, block_id)
    files.change_blocks([(None, named)], Commit(actor="user", subject=f"Add {label}", why=why))
    if not files.shows(label):
        blocks.delete(tx, block_id)  # it is a file whose text is not in the prompt, and no block any more


def detach_block(
    tx: Transaction, homes: MemoryHomes, agent_id: str, block_id: str, *, now: datetime, why: str = ""
) -> None:
    """Detach a block from an agent; it stays in the store.

    Raises ``NotFound``, ``ReadOnlyBlock`` and ``InvalidInput``.
    """
    check_reason(why)
    files = FileStore(tx, homes, agent_id, now) if memory_heads.revision(tx, agent_id) is not None else None
    held = agent_id in blocks.agent_ids(tx, block_id)
    block = blocks.get(tx, block_id)
    blocks.detach(tx, agent_id, block_id)
    if files is not None and held:
        commit = Commit(actor="user", subject=f"Remove {block.label}", why=why)
        files.change_blocks([(block.label, None)], commit)


def delete_block(tx: Transaction, homes: MemoryHomes, block_id: str, *, now: datetime, why: str = "") -> None:
    """Delete a block for good, and detach it everywhere. A file stays in the history.

    Raises ``NotFound`` and ``InvalidInput``.
    """
    check_reason(why)
    owner = memory_heads.agent_of_block(tx, block_id)
    if owner is not None:
        detach_block(tx, homes, owner, block_id, now=now, why=why)
    blocks.delete(tx, block_id)


def create_file_block(tx: Transaction, files: FileStore, spec: BlockSpec, commit: Commit) -> Block | None:
    """Create a block of an agent whose memory is files; ``None`` when its text is not in the prompt."""
    check_new(spec)
    if files.file(files.path_of(spec.label)) is not None:
        raise Conflict(f"Memory has a file {files.path_of(spec.label)!r} already.")
    files.change_blocks([(None, spec)], commit)
    return blocks.by_label(tx, files.agent_id, spec.label) if files.shows(spec.label) else None
