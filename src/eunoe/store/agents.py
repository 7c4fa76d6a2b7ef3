"""Agents, and the whole of an agent's state in a handful of queries."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import structs

from eunoe.state.agents import Agent, AgentState
from eunoe.state.errors import StaleRevision
from eunoe.store import blocks, conversations, identities, memory_heads, secrets, tags, tools
from eunoe.store.database import Row, Transaction
from eunoe.store.paging import Page, Where, page_rows, place_in
from eunoe.store.presence import agent_not_found
from eunoe.store.rows import Shape, marks, micros

_AGENTS: Final = Shape(Agent, "agents", apart=("tags",), fixed=("created_at",))

# An agent that never ran is listed as if it had run before all others: SQL gives no order to "no time".
_SORT_KEYS: Final = {
    "created_at": "agents.created_at",
    "updated_at": "agents.updated_at",
    "last_run_completion": "COALESCE(agents.last_run_completion, 0)",
}


class AgentQuery(Page, frozen=True, kw_only=True):
    """Which agents are wanted. ``query_text`` must occur in the name, whatever the case of letters.

    Hidden agents are left out unless asked for.
    """

    order_by: Literal["created_at", "updated_at", "last_run_completion"] = "created_at"
    name: str | None = None
    tags: tuple[str, ...] = ()
    match_all_tags: bool = False
    query_text: str | None = None
    identity_id: str | None = None
    identifier_keys: tuple[str, ...] | None = None
    last_stop_reason: str | None = None
    show_hidden: bool = False


def insert(tx: Transaction, agent: Agent) -> None:
    """Store a new agent; its blocks, tools, identities, secrets and conversations are stored apart."""
    tx.execute(_AGENTS.insert, _AGENTS.values(agent))
    if agent.tags:
        tags.put(tx, "agent", agent.id, agent.tags)


def get(tx: Transaction, agent_id: str) -> Agent:
    """Return an agent. Raises ``NotFound``."""
    return many(tx, [agent_id])[0]


def many(tx: Transaction, ids: Sequence[str]) -> list[Agent]:
    """Return these agents in this order. Raises ``NotFound`` for the first that is not there."""
    if not ids:
        return []
    found = {agent.id: agent for agent in _whole(tx, tx.rows(f"{_AGENTS.select} WHERE id IN ({marks(ids)})", ids))}
    for agent_id in ids:
        if agent_id not in found:
            raise agent_not_found(agent_id)
    return [found[agent_id] for agent_id in ids]


def known(tx: Transaction, ids: Sequence[str]) -> set[str]:
    """Return those of these ids that are agents."""
    return {row[0] for row in tx.rows(f"SELECT id FROM agents WHERE id IN ({marks(ids)})", ids)} if ids else set()


def update(tx: Transaction, agent: Agent, *, now: datetime) -> Agent:
    """Store a changed agent as the next revision and return it; write nothing when nothing differs.

    ``agent.revision`` is the revision that the change was based on. Raises ``NotFound``, and ``StaleRevision`` when
    the stored agent is at another revision (I8).
    """
    stored = get(tx, agent.id)
    if stored.revision != agent.revision:
        raise StaleRevision("Agent", agent.id, agent.revision, stored.revision)
    settled = structs.replace(agent, created_at=stored.created_at, updated_at=stored.updated_at)
    if settled == stored:
        return stored
    changed = structs.replace(settled, updated_at=now, revision=stored.revision + 1)
    if tx.execute(f"{_AGENTS.update} AND revision = ?", [*_AGENTS.new_values(changed), stored.revision]) != 1:
        raise StaleRevision("Agent", agent.id, agent.revision, get(tx, agent.id).revision)
    if changed.tags != stored.tags:
        tags.put(tx, "agent", agent.id, changed.tags)
    return changed


def set_last_run(
    tx: Transaction, agent_id: str, stop_reason: str | None, completed_at: datetime | None, duration_ms: int | None
) -> None:
    """Record how the agent's last run ended, in one statement. No change of the agent: its revision stays.

    Raises ``NotFound``.
    """
    changed = tx.execute(
        "UPDATE agents SET last_stop_reason = ?, last_run_completion = ?, last_run_duration_ms = ? WHERE id = ?",
        (stop_reason, None if completed_at is None else micros(completed_at), duration_ms, agent_id),
    )
    if changed == 0:
        raise agent_not_found(agent_id)


def delete(tx: Transaction, agent_id: str) -> None:
    """Delete an agent and all that is its own; blocks, tools and identities stay. Raises ``NotFound``."""
    if tx.execute("DELETE FROM agents WHERE id = ?", (agent_id,)) == 0:
        raise agent_not_found(agent_id)


def state(tx: Transaction, agent_id: str) -> AgentState:
    """Return the whole state of an agent (I1). Raises ``NotFound``."""
    return states(tx, [agent_id])[0]


def states(tx: Transaction, ids: Sequence[str]) -> list[AgentState]:
    """Return the whole states of these agents in this order, in a number of queries that does not grow with them.

    Raises ``NotFound`` for the first agent that is not there.
    """
    found = many(tx, ids)
    held_blocks = blocks.of_agents(tx, ids)
    held_tools = tools.of_agents(tx, ids)
    held_identities = identities.of_agents(tx, ids)
    held_secrets = secrets.of_agents(tx, ids)
    defaults = conversations.defaults(tx, ids)
    heads = memory_heads.of_agents(tx, ids)
    return [
        AgentState(
            agent=agent,
            blocks=held_blocks.get(agent.id, ()),
            tools=held_tools.get(agent.id, ()),
            identities=held_identities.get(agent.id, ()),
            secrets=held_secrets.get(agent.id, ()),
            conversation=defaults[agent.id],
            memory=heads.get(agent.id),
        )
        for agent in found
    ]


def page(tx: Transaction, query: AgentQuery) -> list[Agent]:
    """Return a page of agents. Raises ``NotFound`` for an unknown cursor."""
    key = _SORT_KEYS[query.order_by]
    rows = page_rows(
        tx,
        _AGENTS.select,
        _where(tx, query),
        query,
        key=key,
        id_column="agents.id",
        place_of=place_in(tx, "agents", key, "Agent"),
    )
    return _whole(tx, rows)


def count(tx: Transaction, query: AgentQuery) -> int:
    """Return how many agents match the query's conditions (cursors and limit do not count)."""
    where = _where(tx, query)
    row = tx.row(f"SELECT COUNT(*) FROM agents{where.sql()}", where.params)
    return row[0] if row is not None else 0


def _whole(tx: Transaction, rows: Sequence[Row]) -> list[Agent]:
    tagged = tags.of_many(tx, "agent", [row[0] for row in rows])
    return [_AGENTS.read(row, tags=tagged.get(row[0], ())) for row in rows]


def _where(tx: Transaction, query: AgentQuery) -> Where:
    where = Where()
    where.equals("agents.name", query.name)
    where.tagged("agent_tags", "agent_id", "agents.id", query.tags, query.match_all_tags)
    where.contains(tx, "agents.name", query.query_text)
    if query.identity_id is not None:
        where.add(
            "EXISTS (SELECT 1 FROM agents_identities ai WHERE ai.agent_id = agents.id AND ai.identity_id = ?)",
            query.identity_id,
        )
    if query.identifier_keys:
        where.add(
            "EXISTS (SELECT 1 FROM agents_identities ai JOIN identities i ON i.id = ai.identity_id "
            f"WHERE ai.agent_id = agents.id AND i.identifier_key IN ({marks(query.identifier_keys)}))",
            *query.identifier_keys,
        )
    where.equals("agents.last_stop_reason", query.last_stop_reason)
    if not query.show_hidden:
        where.add("agents.hidden = 0")
    return where
