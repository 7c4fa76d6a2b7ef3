"""Which steps made the schema what it is, and which are still to do.

A migration is a file in ``schema/``: ``<name>.sql`` in SQL that every database takes, or ``<name>.<dialect>.sql``
where they differ. Files never change once they are released; what comes later is a new file at the end of the list.
"""

import sqlite3
from collections.abc import Collection, Iterator
from importlib import resources
from typing import Final, Literal

from eunoe.state.errors import StoreTooNew

NAMES: Final = (
    "0001_tables",
    "0002_search",
    "0003_loop",
    "0004_memory_files",
    "0005_reflections",
    "0006_lean_turns",
    "0007_mcp",
    "0008_mirrors",
    "0009_reflection_triggers",
    "0010_why",
)
"""Every migration, in order."""

LEDGER: Final = "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at BIGINT NOT NULL)"
"""The table of the migrations that a store has had."""


def pending(applied: Collection[str], location: str) -> list[str]:
    """Return the migrations that a store still needs, in order.

    Raises ``StoreTooNew`` when it has had one that this program does not know.
    """
    unknown = sorted(set(applied) - set(NAMES))
    if unknown:
        raise StoreTooNew(
            f"The store {location} was changed by a newer Eunoe (migration {unknown[-1]!r}, which this version does "
            f"not know). Upgrade Eunoe, or open another store.",
            migration=unknown[-1],
        )
    return [name for name in NAMES if name not in applied]


def statements(name: str, dialect: Literal["sqlite", "postgres"]) -> Iterator[str]:
    """Yield the SQL statements of a migration."""
    folder = resources.files("eunoe.store") / "schema"
    file = folder / f"{name}.{dialect}.sql"
    if not file.is_file():
        file = folder / f"{name}.sql"
    statement = ""
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
