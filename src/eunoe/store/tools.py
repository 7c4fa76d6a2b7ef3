"""Tools, and which agents have them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Final

from msgspec import structs

from eunoe.state.errors import Conflict, NotFound
from eunoe.state.tools import Tool
from eunoe.store.database import Row, Transaction
from eunoe.store.paging import Page, Where, page_rows, place_in
from eunoe.store.presence import require_agent
from eunoe.store.rows import Shape, marks

_TOOLS: Final = Shape(Tool, "tools")

_KEPT: Final = 64
"""How many decoded tools are kept."""


class ToolQuery(Page, frozen=True, kw_only=True):
    """Which tools are wanted. ``search`` must occur in the name, whatever the case of letters."""

    name: str | None = None
    names: tuple[str, ...] | None = None
    search: str | None = None
    tool_types: tuple[str, ...] | None = None
    exclude_tool_types: tuple[str, ...] = ()
    tool_ids: tuple[str, ...] | None = None


def insert(tx: Transaction, tool: Tool) -> None:
    """Store a new tool. Raises ``Conflict`` when there is one of that name."""
    _require_free(tx, tool)
    tx.execute(_TOOLS.insert, _TOOLS.values(tool))


def upsert_builtin(tx: Transaction, tool: Tool) -> Tool:
    """Make a built-in tool be stored as given, and return what is stored; write nothing when nothing differs.

    A tool of the user's that already has the name stays as it is and is what is returned.
    """
    stored = by_names(tx, [tool.name]).get(tool.name)
    if stored is None:
        tx.execute(_TOOLS.insert, _TOOLS.values(tool))
        return tool
    if stored.id != tool.id:
        return stored
    settled = structs.replace(tool, created_at=stored.created_at)
    if structs.replace(settled, updated_at=stored.updated_at) == stored:
        return stored
    tx.execute(_TOOLS.update, _TOOLS.new_values(settled))
    return settled


def update(tx: Transaction, tool: Tool, *, now: datetime) -> Tool:
    """Store a changed tool and return it. Raises ``NotFound``, or ``Conflict`` when another has the new name."""
    _require_free(tx, tool)
    changed = structs.replace(tool, updated_at=now)
    if tx.execute(_TOOLS.update, _TOOLS.new_values(changed)) == 0:
        raise NotFound("Tool", tool.id)
    return changed


def delete(tx: Transaction, tool_id: str) -> None:
    """Delete a tool and take it from every agent. Raises ``NotFound``."""
    if tx.execute("DELETE FROM tools WHERE id = ?", (tool_id,)) == 0:
        raise NotFound("Tool", tool_id)


def get(tx: Transaction, tool_id: str) -> Tool:
    """Return a tool. Raises ``NotFound``."""
    row = tx.row(f"{_TOOLS.select} WHERE id = ?", (tool_id,))
    if row is None:
        raise NotFound("Tool", tool_id)
    return _TOOLS.read(row)


def by_names(tx: Transaction, names: Iterable[str]) -> dict[str, Tool]:
    """Return those of these tools that there are, by name."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    found = _TOOLS.all(tx.rows(f"{_TOOLS.select} WHERE name IN ({marks(wanted)})", wanted))
    return {tool.name: tool for tool in found}


def of_agent(tx: Transaction, agent_id: str) -> tuple[Tool, ...]:
    """Return an agent's tools in the order in which they were attached."""
    return of_agents(tx, [agent_id]).get(agent_id, ())


def of_agents(tx: Transaction, agent_ids: Sequence[str]) -> dict[str, tuple[Tool, ...]]:
    """Return the tools of each of these agents that has some, in the order in which they were attached."""
    if not agent_ids:
        return {}
    rows = tx.rows(
        f"SELECT {_TOOLS.columns}, agents_tools.position, agents_tools.agent_id, agents_tools.tool_id "
        f"FROM agents_tools LEFT JOIN tools ON tools.id = agents_tools.tool_id "
        f"WHERE agents_tools.agent_id IN ({marks(agent_ids)})",
        agent_ids,
    )
    rows.sort(key=itemgetter(_TOOLS.width))  # here, because a database copies whole schemas to sort them
    found: dict[str, Tool] = {}
    held: dict[str, list[Tool]] = {}
    for row in rows:
        *_, agent_id, tool_id = row
        if row[0] is None:
            raise NotFound("Tool", tool_id)
        if tool_id not in found:
            found[tool_id] = _read_again(row[: _TOOLS.width])
        held.setdefault(agent_id, []).append(found[tool_id])
    return {agent_id: tuple(tools) for agent_id, tools in held.items()}


@lru_cache(maxsize=_KEPT)
def _read_again(row: Row) -> Tool:
    """Return the tool of a row; many turns read the same rows, whose schemas take long to decode."""
    return _TOOLS.read(row)


def attach(tx: Transaction, agent_id: str, tool_id: str) -> None:
    """Give an agent a tool, after those that it has; nothing changes when it has it. Raises ``NotFound``."""
    require_agent(tx, agent_id)
    get(tx, tool_id)
    tx.execute(
        "INSERT INTO agents_tools (agent_id, tool_id, position) "
        "SELECT ?, ?, (SELECT COALESCE(MAX(position), 0) + 1 FROM agents_tools WHERE agent_id = ?) "
        "WHERE NOT EXISTS (SELECT 1 FROM agents_tools WHERE agent_id = ? AND tool_id = ?)",
        (agent_id, tool_id, agent_id, agent_id, tool_id),
    )


def detach(tx: Transaction, agent_id: str, tool_id: str) -> None:
    """Take a tool from an agent; nothing changes when it does not have it. Raises ``NotFound`` for agent or tool."""
    if tx.execute("DELETE FROM agents_tools WHERE agent_id = ? AND tool_id = ?", (agent_id, tool_id)) == 0:
        require_agent(tx, agent_id)
        get(tx, tool_id)


def page(tx: Transaction, query: ToolQuery) -> list[Tool]:
    """Return a page of tools by creation time. Raises ``NotFound`` for an unknown cursor."""
    rows = page_rows(
        tx,
        _TOOLS.select,
        _where(tx, query),
        query,
        key="tools.created_at",
        id_column="tools.id",
        place_of=place_in(tx, "tools", "tools.created_at", "Tool"),
    )
    return _TOOLS.all(rows)


def count(tx: Transaction, query: ToolQuery) -> int:
    """Return how many tools match the query's conditions (cursors and limit do not count)."""
    where = _where(tx, query)
    row = tx.row(f"SELECT COUNT(*) FROM tools{where.sql()}", where.params)
    return row[0] if row is not None else 0


def _require_free(tx: Transaction, tool: Tool) -> None:
    if tx.row("SELECT 1 FROM tools WHERE name = ? AND id <> ?", (tool.name, tool.id)) is not None:
        raise Conflict(f"There is already a tool named {tool.name!r}. Change that tool, or give this one another name.")


def _where(tx: Transaction, query: ToolQuery) -> Where:
    where = Where()
    where.equals("name", query.name)
    where.one_of("name", query.names)
    where.contains(tx, "name", query.search)
    where.one_of("tool_type", query.tool_types)
    where.none_of("tool_type", query.exclude_tool_types)
    where.one_of("id", query.tool_ids)
    return where
