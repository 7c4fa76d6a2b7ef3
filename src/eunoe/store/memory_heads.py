"""The recorded heads of memory repositories: which commit each agent's block rows were read from."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from eunoe.state.errors import StoreError
from eunoe.state.memory import MemoryHead, UnreadCommit
from eunoe.store.database import Row, Transaction
from eunoe.store.rows import Shape, marks, to_json

_HEADS: Final = Shape(MemoryHead, "memory_heads", apart=("names", "folders"))
_SELECT: Final = f"SELECT {_HEADS.columns}, memory_heads.names, memory_heads.folders FROM {_HEADS.table}"
_COLUMNS: Final = (*_HEADS.names, "names", "folders")
_INSERT: Final = f"INSERT INTO {_HEADS.table} ({', '.join(_COLUMNS)}) VALUES ({marks(_COLUMNS)})"
_KEPT: Final = 32
"""Lists of names that are kept as they were read: the same ones are read at each turn, and may be ten thousand."""


def get(tx: Transaction, agent_id: str) -> MemoryHead | None:
    """Return an agent's recorded head, ``None`` for an agent whose memory is no files."""
    return of_agents(tx, [agent_id]).get(agent_id)


def everyone(tx: Transaction) -> list[MemoryHead]:
    """Return all recorded heads by agent."""
    return [_whole(row) for row in tx.rows(f"{_SELECT} ORDER BY agent_id")]


def of_agents(tx: Transaction, agent_ids: Sequence[str]) -> dict[str, MemoryHead]:
    """Return the recorded heads of those of these agents that have one."""
    if not agent_ids:
        return {}
    rows = tx.rows(f"{_SELECT} WHERE agent_id IN ({marks(agent_ids)})", agent_ids)
    return {head.agent_id: head for head in map(_whole, rows)}


@lru_cache(maxsize=_KEPT)
def _listed(text: str) -> tuple[str, ...]:
    return msgspec.json.decode(text, type=tuple[str, ...])


def _whole(row: Row) -> MemoryHead:
    try:
        names, folders = _listed(row[_HEADS.width]), _listed(row[_HEADS.width + 1])
    except (msgspec.DecodeError, TypeError) as error:
        raise StoreError(
            f"The recorded head of the memory of agent {row[0]!r} is damaged and cannot be read ({error}). "
            f"Restore the store from a backup."
        ) from error
    return _HEADS.read(row, names=names, folders=folders)


def revision(tx: Transaction, agent_id: str) -> str | None:
    """Return the commit of an agent's recorded head alone, which is cheaper."""
    row = tx.row("SELECT revision FROM memory_heads WHERE agent_id = ?", (agent_id,))
    return None if row is None else row[0]


def standing(tx: Transaction, agent_id: str) -> tuple[str, bool] | None:
    """Return the commit of an agent's recorded head, and whether a newer one could not be read.

    Costs the same however many files there are.
    """
    row = tx.row("SELECT revision, unread IS NOT NULL FROM memory_heads WHERE agent_id = ?", (agent_id,))
    return None if row is None else (row[0], bool(row[1]))


def put(tx: Transaction, head: MemoryHead) -> None:
    """Record a head in place of the agent's last one."""
    tx.execute("DELETE FROM memory_heads WHERE agent_id = ?", (head.agent_id,))
    tx.execute(_INSERT, [*_HEADS.values(head), to_json(head.names), to_json(head.folders)])


def move(tx: Transaction, agent_id: str, revision: str) -> None:
    """Record another commit, which could be read, whose files have the names of the last one: only contents differ."""
    tx.execute("UPDATE memory_heads SET revision = ?, unread = NULL WHERE agent_id = ?", (revision, agent_id))


def tell_unread(tx: Transaction, agent_id: str, unread: UnreadCommit | None) -> None:
    """Record that a newer commit cannot be read, or that there is none such any more."""
    told = to_json(unread) if unread else None
    tx.execute("UPDATE memory_heads SET unread = ? WHERE agent_id = ?", (told, agent_id))


def delete(tx: Transaction, agent_id: str) -> None:
    """Forget an agent's head: its memory is blocks again."""
    tx.execute("DELETE FROM memory_heads WHERE agent_id = ?", (agent_id,))


def agent_of_block(tx: Transaction, block_id: str) -> str | None:
    """Return the agent whose memory files this block is one of, if it is one.

    A file belongs to one agent, so one holder is looked at, however many share the block (I6).
    """
    row = tx.row(
        "SELECT memory_heads.agent_id FROM memory_heads WHERE memory_heads.agent_id = "
        "(SELECT agent_id FROM agents_blocks WHERE block_id = ? LIMIT 1)",
        (block_id,),
    )
    return None if row is None else row[0]
