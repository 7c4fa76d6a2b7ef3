"""Writing blocks through the API: the verdict of ``memory/`` and one transaction (I8, I9)."""

from datetime import datetime

from msgspec import structs

from eunoe.memory.verdict import check_change, check_new
from eunoe.state.blocks import DEFAULT_DESCRIPTIONS, Block, BlockChanges, BlockSpec
from eunoe.state.errors import StaleRevision
from eunoe.state.ids import new_id
from eunoe.store import blocks
from eunoe.store.database import Transaction


def with_default_description(spec: BlockSpec) -> BlockSpec:
    """Give a ``human`` or ``persona`` block of an agent its description when it comes without one."""
    if spec.description is None and spec.label in DEFAULT_DESCRIPTIONS:
        return structs.replace(spec, description=DEFAULT_DESCRIPTIONS[spec.label])
    return spec


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
    block_id: str,
    changes: BlockChanges,
    *,
    expected_revision: int | None = None,
    actor: str = "user",
    run_id: str | None = None,
    now: datetime,
) -> Block:
    """Change the named fields of a block; every agent that shares it sees the change.

    Raises ``NotFound``, ``StaleRevision`` (when ``expected_revision`` is given and is not the current one),
    ``BlockLimitExceeded``, ``ReadOnlyBlock``, ``LabelTaken`` and ``InvalidInput``.
    """
    current = blocks.get(tx, block_id)
    if expected_revision is not None and expected_revision != current.revision:
        raise StaleRevision("Block", block_id, expected_revision, current.revision)
    changed = check_change(current, changes)
    return blocks.update(tx, changed, expected_revision=current.revision, actor=actor, run_id=run_id, now=now)
