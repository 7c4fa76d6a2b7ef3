"""Blocks, their revisions, and which agents they are attached to."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import structs

from eunoe.state.blocks import Block, BlockRevision
from eunoe.state.errors import LabelTaken, NotFound, StaleRevision
from eunoe.store import tags
from eunoe.store.database import Row, Transaction
from eunoe.store.paging import Order, Page, Where, page_rows, place_in
from eunoe.store.presence import require_agent
from eunoe.store.rows import Shape, marks

_BLOCKS: Final = Shape(Block, "blocks", renamed={"limit": "char_limit"}, apart=("tags",), fixed=("created_at",))
_REVISIONS: Final = Shape(BlockRevision, "block_revisions", renamed={"limit": "char_limit"})


class BlockQuery(Page, frozen=True, kw_only=True):
    """Which blocks are wanted. The ``…_search`` texts must occur, whatever the case of letters.

    ``attached_to_…`` count the agents that the block is attached to. Hidden blocks are left out unless asked for.
    """

    order: Order = "asc"
    label: str | None = None
    tags: tuple[str, ...] = ()
    match_all_tags: bool = False
    label_search: str | None = None
    description_search: str | None = None
    value_search: str | None = None
    connected_to_agents_count_gt: int | None = None
    connected_to_agents_count_lt: int | None = None
    connected_to_agents_count_eq: tuple[int, ...] | None = None
    templates_only: bool = False
    show_hidden: bool = False


def insert(tx: Transaction, block: Block, *, actor: str = "user", run_id: str | None = None, why: str = "") -> None:
    """Store a new block and its first revision. ``actor`` and ``why`` are as in ``BlockRevision``."""
    tx.execute(_BLOCKS.insert, _BLOCKS.values(block))
    if block.extra:
        _mark_template(tx, block)
    if block.tags:
        tags.put(tx, "block", block.id, block.tags)
    _record(tx, block, actor, run_id, why)


def get(tx: Transaction, block_id: str) -> Block:
    """Return a block. Raises ``NotFound``."""
    row = tx.row(f"{_BLOCKS.select} WHERE id = ?", (block_id,))
    if row is None:
        raise NotFound("Block", block_id)
    return _whole(tx, [row])[0]


def many(tx: Transaction, ids: Sequence[str]) -> list[Block]:
    """Return these blocks in this order. Raises ``NotFound`` for the first that is not there."""
    if not ids:
        return []
    found = {block.id: block for block in _whole(tx, tx.rows(f"{_BLOCKS.select} WHERE id IN ({marks(ids)})", ids))}
    for block_id in ids:
        if block_id not in found:
            raise NotFound("Block", block_id)
    return [found[block_id] for block_id in ids]


def update(
    tx: Transaction,
    block: Block,
    *,
    expected_revision: int,
    actor: str,
    run_id: str | None,
    now: datetime,
    why: str = "",
) -> Block:
    """Store a changed block as the next revision and return it; write nothing when nothing differs.

    A new label holds for every agent that has the block. Raises ``NotFound``, ``StaleRevision`` when the stored
    revision is not the expected one (I8), and ``LabelTaken`` when an agent has another block of the new label.
    """
    stored = get(tx, block.id)
    if stored.revision != expected_revision:
        raise StaleRevision("Block", block.id, expected_revision, stored.revision)
    settled = structs.replace(
        block, created_at=stored.created_at, updated_at=stored.updated_at, revision=stored.revision
    )
    if settled == stored:
        return stored
    changed = structs.replace(settled, updated_at=now, revision=expected_revision + 1)
    if changed.label != stored.label:
        _rename(tx, changed)
    count = tx.execute(f"{_BLOCKS.update} AND revision = ?", [*_BLOCKS.new_values(changed), expected_revision])
    if count != 1:
        raise StaleRevision("Block", block.id, expected_revision, get(tx, block.id).revision)
    if changed.extra != stored.extra:
        _mark_template(tx, changed)
    if changed.tags != stored.tags:
        tags.put(tx, "block", block.id, changed.tags)
    _record(tx, changed, actor, run_id, why)
    return changed


def delete(tx: Transaction, block_id: str) -> None:
    """Delete a block and its revisions, and detach it from every agent. Raises ``NotFound``."""
    if tx.execute("DELETE FROM blocks WHERE id = ?", (block_id,)) == 0:
        raise NotFound("Block", block_id)


def of_agent(tx: Transaction, agent_id: str) -> tuple[Block, ...]:
    """Return an agent's blocks by label, in code point order."""
    return of_agents(tx, [agent_id]).get(agent_id, ())


def of_agents(tx: Transaction, agent_ids: Sequence[str]) -> dict[str, tuple[Block, ...]]:
    """Return the blocks of each of these agents that has some, by label in code point order."""
    if not agent_ids:
        return {}
    rows = tx.rows(
        f"SELECT {_BLOCKS.columns}, agents_blocks.agent_id, agents_blocks.block_id FROM agents_blocks "
        f"LEFT JOIN blocks ON blocks.id = agents_blocks.block_id WHERE agents_blocks.agent_id IN ({marks(agent_ids)})",
        agent_ids,
    )
    for row in rows:
        if row[0] is None:
            raise NotFound("Block", row[-1])
    tagged = tags.of_blocks_held_by(tx, agent_ids)
    found = {row[0]: _BLOCKS.read(row, tags=tagged.get(row[0], ())) for row in {row[0]: row for row in rows}.values()}
    held: dict[str, list[Block]] = {}
    for *_, agent_id, block_id in rows:
        held.setdefault(agent_id, []).append(found[block_id])
    # Sorted here, because databases order text by their own locale.
    return {agent_id: tuple(sorted(blocks, key=lambda block: block.label)) for agent_id, blocks in held.items()}


def by_label(tx: Transaction, agent_id: str, label: str) -> Block:
    """Return the agent's block of this label. Raises ``NotFound``."""
    row = tx.row("SELECT block_id FROM agents_blocks WHERE agent_id = ? AND label = ?", (agent_id, label))
    if row is None:
        raise NotFound("Block", label, f"No block with label {label!r} found for agent {agent_id!r}.")
    return get(tx, row[0])


def attach(tx: Transaction, agent_id: str, block_id: str) -> None:
    """Attach a block to an agent; nothing changes when it is attached already.

    Raises ``NotFound`` for agent or block, and ``LabelTaken`` when the agent has another block of that label.
    """
    require_agent(tx, agent_id)
    block = get(tx, block_id)
    row = tx.row("SELECT block_id FROM agents_blocks WHERE agent_id = ? AND label = ?", (agent_id, block.label))
    if row is None:
        tx.execute(
            "INSERT INTO agents_blocks (agent_id, block_id, label) VALUES (?, ?, ?)", (agent_id, block_id, block.label)
        )
    elif row[0] != block_id:
        raise LabelTaken(agent_id, block.label)


def detach(tx: Transaction, agent_id: str, block_id: str) -> None:
    """Detach a block from an agent; nothing changes when it is not attached. Raises ``NotFound`` for agent or block."""
    if tx.execute("DELETE FROM agents_blocks WHERE agent_id = ? AND block_id = ?", (agent_id, block_id)) == 0:
        require_agent(tx, agent_id)
        get(tx, block_id)


def page(tx: Transaction, query: BlockQuery) -> list[Block]:
    """Return a page of blocks by creation time. Raises ``NotFound`` for an unknown cursor."""
    rows = page_rows(
        tx,
        _BLOCKS.select,
        _where(tx, query),
        query,
        key="blocks.created_at",
        id_column="blocks.id",
        place_of=place_in(tx, "blocks", "blocks.created_at", "Block"),
    )
    return _whole(tx, rows)


def count(tx: Transaction, query: BlockQuery) -> int:
    """Return how many blocks match the query's conditions (cursors and limit do not count)."""
    where = _where(tx, query)
    row = tx.row(f"SELECT COUNT(*) FROM blocks{where.sql()}", where.params)
    return row[0] if row is not None else 0


def agent_ids(tx: Transaction, block_id: str) -> list[str]:
    """Return the agents that have this block, by id."""
    return [key for (key,) in tx.rows("SELECT agent_id FROM agents_blocks WHERE block_id = ? ORDER BY 1", (block_id,))]


def revisions(tx: Transaction, block_id: str, limit: int, before_revision: int | None = None) -> list[BlockRevision]:
    """Return past states of a block, newest first, at most ``limit``, older than ``before_revision`` if given."""
    where = Where()
    where.add("block_id = ?", block_id)
    if before_revision is not None:
        where.add("revision < ?", before_revision)
    sql = f"{_REVISIONS.select}{where.sql()} ORDER BY revision DESC LIMIT ?"
    return _REVISIONS.all(tx.rows(sql, [*where.params, limit]))


def _whole(tx: Transaction, rows: Sequence[Row]) -> list[Block]:
    tagged = tags.of_many(tx, "block", [row[0] for row in rows])
    return [_BLOCKS.read(row, tags=tagged.get(row[0], ())) for row in rows]


def _rename(tx: Transaction, block: Block) -> None:
    clash = tx.row(
        "SELECT taken.agent_id FROM agents_blocks taken JOIN agents_blocks ours ON ours.agent_id = taken.agent_id "
        "WHERE ours.block_id = ? AND taken.block_id <> ? AND taken.label = ? ORDER BY 1 LIMIT 1",
        (block.id, block.id, block.label),
    )
    if clash is not None:
        raise LabelTaken(clash[0], block.label)
    tx.execute("UPDATE agents_blocks SET label = ? WHERE block_id = ?", (block.label, block.id))


def _mark_template(tx: Transaction, block: Block) -> None:
    """Keep the one field of ``extra`` that lists are filtered by where SQL sees it."""
    is_template = int(bool(block.extra.get("is_template")))
    tx.execute("UPDATE blocks SET is_template = ? WHERE id = ?", (is_template, block.id))


def _record(tx: Transaction, block: Block, actor: str, run_id: str | None, why: str) -> None:
    revision = BlockRevision(
        block_id=block.id,
        revision=block.revision,
        label=block.label,
        value=block.value,
        limit=block.limit,
        description=block.description,
        read_only=block.read_only,
        actor=actor,
        run_id=run_id,
        created_at=block.updated_at,
        why=why,
    )
    tx.execute(_REVISIONS.insert, _REVISIONS.values(revision))


def _where(tx: Transaction, query: BlockQuery) -> Where:
    where = Where()
    where.equals("label", query.label)
    where.tagged("block_tags", "block_id", "blocks.id", query.tags, query.match_all_tags)
    where.contains(tx, "label", query.label_search)
    where.contains(tx, "description", query.description_search)
    where.contains(tx, "value", query.value_search)
    connected = "(SELECT COUNT(*) FROM agents_blocks ab WHERE ab.block_id = blocks.id)"
    if query.connected_to_agents_count_gt is not None:
        where.add(f"{connected} > ?", query.connected_to_agents_count_gt)
    if query.connected_to_agents_count_lt is not None:
        where.add(f"{connected} < ?", query.connected_to_agents_count_lt)
    where.one_of(connected, query.connected_to_agents_count_eq)
    if query.templates_only:
        where.add("is_template = 1")
    if not query.show_hidden:
        where.add("hidden = 0")
    return where
