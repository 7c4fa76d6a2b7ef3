"""How lists are filtered and cut into pages.

A cursor is the id of an item that the page must not contain: ``after`` gives what follows it in the asked order, and
``before`` gives what comes right before it. Items with equal sort keys are ordered by id, so that following cursors
visits every item exactly once.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

from msgspec import Struct

from eunoe.state.errors import NotFound
from eunoe.store.database import Row, Transaction
from eunoe.store.rows import marks

Order = Literal["asc", "desc"]


class Page(Struct, frozen=True, kw_only=True):
    """Which part of a list is wanted. ``limit`` is the most items to return; ``None`` returns all."""

    before: str | None = None
    after: str | None = None
    limit: int | None = 50
    order: Order = "desc"


class Where:
    """Conditions that all hold, with their parameters."""

    def __init__(self) -> None:
        self.clauses: list[str] = []
        self.params: list[Any] = []

    def add(self, clause: str, *params: Any) -> None:
        """Add a condition."""
        self.clauses.append(clause)
        self.params.extend(params)

    def equals(self, column: str, value: Any) -> None:
        """Want this value, unless it is ``None``."""
        if value is not None:
            self.add(f"{column} = ?", value)

    def one_of(self, column: str, values: Collection[Any] | None) -> None:
        """Want one of these values, unless they are ``None``; an empty collection matches nothing."""
        if values is not None:
            self.add(f"{column} IN ({marks(values)})" if values else "1 = 0", *values)

    def none_of(self, column: str, values: Collection[Any] | None) -> None:
        """Want none of these values."""
        if values:
            self.add(f"{column} NOT IN ({marks(values)})", *values)

    def contains(self, tx: Transaction, column: str, text: str | None) -> None:
        """Want this text somewhere in the column, whatever the case of (ASCII) letters."""
        if text is not None:
            operator = "LIKE" if tx.dialect == "sqlite" else "ILIKE"
            self.add(f"{column} {operator} ? ESCAPE '\\'", like_pattern(text))

    def tagged(self, table: str, owner: str, key: str, tags: Collection[str], match_all: bool) -> None:
        """Want one of these tags, or all of them. ``table`` holds the tags; its ``owner`` is our ``key``."""
        wanted = sorted(set(tags))
        if not wanted:
            return
        if match_all:
            counted = (
                f"SELECT COUNT(DISTINCT t.tag) FROM {table} t WHERE t.{owner} = {key} AND t.tag IN ({marks(wanted)})"
            )
            self.add(f"({counted}) = ?", *wanted, len(wanted))
        else:
            self.add(
                f"EXISTS (SELECT 1 FROM {table} t WHERE t.{owner} = {key} AND t.tag IN ({marks(wanted)}))", *wanted
            )

    def sql(self) -> str:
        """Return the WHERE clause, or nothing when there are no conditions."""
        return f" WHERE {' AND '.join(self.clauses)}" if self.clauses else ""


def like_pattern(text: str) -> str:
    r"""Return the LIKE pattern for a text that contains this one literally (``ESCAPE '\'``)."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def page_rows(
    tx: Transaction,
    select: str,
    where: Where,
    page: Page,
    *,
    key: str,
    id_column: str,
    place_of: Callable[[str], Sequence[Any]],
) -> list[Row]:
    """Return one page of the rows of ``select``, sorted by ``key`` (an SQL expression) and id.

    ``place_of`` returns key and id of a cursor, and raises ``NotFound`` for one that it does not know.
    """
    ascending = page.order == "asc"
    backwards = page.before is not None and page.after is None
    if page.after is not None:
        where.add(f"({key}, {id_column}) {'>' if ascending else '<'} (?, ?)", *place_of(page.after))
    if page.before is not None:
        where.add(f"({key}, {id_column}) {'<' if ascending else '>'} (?, ?)", *place_of(page.before))
    direction = "ASC" if ascending != backwards else "DESC"
    sql = f"{select}{where.sql()} ORDER BY {key} {direction}, {id_column} {direction}"
    params = list(where.params)
    if page.limit is not None:
        sql += " LIMIT ?"
        params.append(page.limit)
    found = tx.rows(sql, params)
    return found[::-1] if backwards else found


def place_in(tx: Transaction, table: str, key: str, kind: str) -> Callable[[str], Sequence[Any]]:
    """Return the ``place_of`` for a table whose rows have an ``id``."""

    def place_of(cursor: str) -> Sequence[Any]:
        found = tx.row(f"SELECT {key}, {table}.id FROM {table} WHERE {table}.id = ?", (cursor,))
        if found is None:
            raise NotFound(kind, cursor)
        return found

    return place_of
