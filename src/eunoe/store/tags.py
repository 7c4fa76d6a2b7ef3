"""Tags of agents and of blocks, in the order in which they were given."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, Literal

from eunoe.store.database import Row, Transaction
from eunoe.store.rows import marks

Tagged = Literal["agent", "block"]

_TABLES: Final[dict[Tagged, tuple[str, str]]] = {
    "agent": ("agent_tags", "agent_id"),
    "block": ("block_tags", "block_id"),
}


def of_many(tx: Transaction, kind: Tagged, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tags of each of these objects that has some."""
    if not ids:
        return {}
    table, owner = _TABLES[kind]
    # By owner first, as the primary key has it: then nothing is sorted.
    return _gathered(
        tx.rows(f"SELECT {owner}, tag FROM {table} WHERE {owner} IN ({marks(ids)}) ORDER BY {owner}, position", ids)
    )


def of_blocks_held_by(tx: Transaction, agent_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the tags of each of these agents' blocks that has some; for few agents cheaper than by the blocks' ids."""
    rows = tx.rows(
        "SELECT block_tags.block_id, block_tags.tag, block_tags.position FROM agents_blocks "
        "JOIN block_tags ON block_tags.block_id = agents_blocks.block_id "
        f"WHERE agents_blocks.agent_id IN ({marks(agent_ids)})",
        agent_ids,
    )
    return _gathered([(key, tag) for key, tag, _ in sorted(set(rows), key=itemgetter(2))])


def _gathered(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for key, tag in rows:
        found[key].append(tag)
    return {key: tuple(tags) for key, tags in found.items()}


def put(tx: Transaction, kind: Tagged, key: str, tags: Iterable[str]) -> None:
    """Give an object these tags in place of those that it has."""
    table, owner = _TABLES[kind]
    tx.execute(f"DELETE FROM {table} WHERE {owner} = ?", (key,))
    rows = [(key, tag, position) for position, tag in enumerate(tags)]
    if rows:
        tx.execute_many(f"INSERT INTO {table} ({owner}, tag, position) VALUES (?, ?, ?)", rows)
