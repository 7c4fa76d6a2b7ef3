"""Identities, and which agents have them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import structs

from eunoe.state.errors import Conflict, NotFound
from eunoe.state.identities import Identity
from eunoe.store.database import Transaction
from eunoe.store.paging import Page, Where, page_rows, place_in
from eunoe.store.presence import require_agent
from eunoe.store.rows import Shape, marks

_IDENTITIES: Final = Shape(Identity, "identities")


class IdentityQuery(Page, frozen=True, kw_only=True):
    """Which identities are wanted. ``name`` must occur in the name, whatever the case of letters."""

    name: str | None = None
    identifier_key: str | None = None
    identity_type: str | None = None


def insert(tx: Transaction, identity: Identity) -> None:
    """Store a new identity. Raises ``Conflict`` when there is one of that identifier key."""
    _require_free(tx, identity)
    tx.execute(_IDENTITIES.insert, _IDENTITIES.values(identity))


def get(tx: Transaction, identity_id: str) -> Identity:
    """Return an identity. Raises ``NotFound``."""
    row = tx.row(f"{_IDENTITIES.select} WHERE id = ?", (identity_id,))
    if row is None:
        raise NotFound("Identity", identity_id)
    return _IDENTITIES.read(row)


def by_key(tx: Transaction, identifier_key: str) -> Identity | None:
    """Return the identity with this key of the caller's, if there is one."""
    row = tx.row(f"{_IDENTITIES.select} WHERE identifier_key = ?", (identifier_key,))
    return None if row is None else _IDENTITIES.read(row)


def update(tx: Transaction, identity: Identity, *, now: datetime) -> Identity:
    """Store a changed identity and return it. Raises ``NotFound``, or ``Conflict`` when another has the new key."""
    _require_free(tx, identity)
    changed = structs.replace(identity, updated_at=now)
    if tx.execute(_IDENTITIES.update, _IDENTITIES.new_values(changed)) == 0:
        raise NotFound("Identity", identity.id)
    return changed


def delete(tx: Transaction, identity_id: str) -> None:
    """Delete an identity and take it from every agent. Raises ``NotFound``."""
    if tx.execute("DELETE FROM identities WHERE id = ?", (identity_id,)) == 0:
        raise NotFound("Identity", identity_id)


def of_agent(tx: Transaction, agent_id: str) -> tuple[Identity, ...]:
    """Return an agent's identities in the order in which they were given."""
    return of_agents(tx, [agent_id]).get(agent_id, ())


def of_agents(tx: Transaction, agent_ids: Sequence[str]) -> dict[str, tuple[Identity, ...]]:
    """Return the identities of each of these agents that has some, in the order in which they were given."""
    if not agent_ids:
        return {}
    rows = tx.rows(
        f"SELECT {_IDENTITIES.columns}, agents_identities.agent_id FROM identities "
        f"JOIN agents_identities ON agents_identities.identity_id = identities.id "
        f"WHERE agents_identities.agent_id IN ({marks(agent_ids)}) ORDER BY agents_identities.position",
        agent_ids,
    )
    held: dict[str, list[Identity]] = {}
    for row in rows:
        held.setdefault(row[-1], []).append(_IDENTITIES.read(row))
    return {agent_id: tuple(identities) for agent_id, identities in held.items()}


def set_for_agent(tx: Transaction, agent_id: str, ids: Sequence[str]) -> None:
    """Give an agent these identities in place of those that it has. Raises ``NotFound`` for agent or identity."""
    require_agent(tx, agent_id)
    wanted = list(dict.fromkeys(ids))
    for identity_id in wanted:
        get(tx, identity_id)
    tx.execute("DELETE FROM agents_identities WHERE agent_id = ?", (agent_id,))
    if wanted:
        tx.execute_many(
            "INSERT INTO agents_identities (agent_id, identity_id, position) VALUES (?, ?, ?)",
            [(agent_id, identity_id, position) for position, identity_id in enumerate(wanted)],
        )


def agent_ids(tx: Transaction, identity_id: str) -> list[str]:
    """Return the agents that have this identity, by id."""
    rows = tx.rows("SELECT agent_id FROM agents_identities WHERE identity_id = ? ORDER BY 1", (identity_id,))
    return [key for (key,) in rows]


def page(tx: Transaction, query: IdentityQuery) -> list[Identity]:
    """Return a page of identities by creation time. Raises ``NotFound`` for an unknown cursor."""
    rows = page_rows(
        tx,
        _IDENTITIES.select,
        _where(tx, query),
        query,
        key="identities.created_at",
        id_column="identities.id",
        place_of=place_in(tx, "identities", "identities.created_at", "Identity"),
    )
    return _IDENTITIES.all(rows)


def count(tx: Transaction, query: IdentityQuery) -> int:
    """Return how many identities match the query's conditions (cursors and limit do not count)."""
    where = _where(tx, query)
    row = tx.row(f"SELECT COUNT(*) FROM identities{where.sql()}", where.params)
    return row[0] if row is not None else 0


def _require_free(tx: Transaction, identity: Identity) -> None:
    taken = tx.row(
        "SELECT id FROM identities WHERE identifier_key = ? AND id <> ?", (identity.identifier_key, identity.id)
    )
    if taken is not None:
        raise Conflict(
            f"The identifier key {identity.identifier_key!r} belongs to identity {taken[0]} already. "
            f"Change that identity, or use another key.",
            identity_id=taken[0],
        )


def _where(tx: Transaction, query: IdentityQuery) -> Where:
    where = Where()
    where.contains(tx, "name", query.name)
    where.equals("identifier_key", query.identifier_key)
    where.equals("identity_type", query.identity_type)
    return where
