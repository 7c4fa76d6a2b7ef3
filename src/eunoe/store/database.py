"""A store as the rest of the program sees it: transactions, and nothing of SQL engines.

Store functions (``store/agents.py`` and the like) are plain synchronous functions over a ``Transaction``. Async code
crosses into them once per transaction.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")

Row = tuple[Any, ...]


class Transaction(Protocol):
    """An open transaction. SQL uses ``?`` for parameters; rows are tuples."""

    dialect: Literal["sqlite", "postgres"]

    def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run one statement that changes rows, and return how many it changed."""
        ...

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run one statement that inserts a row, and return what the table's own counter (its ``seq``) gave that."""
        ...

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""
        ...

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run a query and return all rows."""
        ...

    def row(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        """Run a query and return its first row, or ``None``."""
        ...

    def after_commit(self, follow: Callable[[], object]) -> None:
        """Run ``follow`` once this transaction is committed, before its outcome is told; never if it is not.

        What it does must be such that doing it later does as well: a crash may come in between, and its own failure is
        logged and changes nothing about the transaction.
        """
        ...


class Database(Protocol):
    """A store that is open.

    ``owner`` names this opening of the store; leases are held in its name. It stays alive, for every process that asks
    ``is_alive``, exactly until this opening ends, however it ends.
    """

    owner: str
    location: str
    """Path or address for people, without any password."""

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a transaction that sees one snapshot and changes nothing."""
        ...

    async def write(self, work: Callable[[Transaction], T], meanwhile: Callable[[T], object] | None = None) -> T:
        """Run ``work`` in a transaction that alone may write; commit when it returns, roll back when it raises.

        ``meanwhile`` is called with what ``work`` returned, in the caller's event loop and while the commit is made:
        it may prepare what counts only if this returns. It must be such that it can be done later as well, for it is
        left out when the task is cancelled, and its own failure is logged and changes nothing.
        Once handed over, the transaction ends by itself even when the awaiting task is cancelled.
        Raises ``StoreLocked``, ``StoreFull`` or ``StoreUnwritable``.
        """
        ...

    def is_alive(self, owner: str) -> bool:
        """Say whether the opening of this name still lives (its leases count)."""
        ...

    async def aclose(self) -> None:
        """Finish what is queued and close."""
        ...
