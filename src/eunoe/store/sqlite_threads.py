"""On which thread a transaction runs: one thread writes, others read, and the event loop never waits."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import Any, Final, Literal, TypeVar

import anyio.to_thread

from eunoe.state.errors import StoreError
from eunoe.store.database import Row, Transaction
from eunoe.store.faults import Faults
from eunoe.store.owners import Owner
from eunoe.store.sqlite_errors import damaged_text, store_error

T = TypeVar("T")

_log = logging.getLogger(__name__)


class SqliteTransaction:
    """A transaction on one connection. A reading one refuses ``execute``."""

    dialect: Literal["sqlite", "postgres"] = "sqlite"

    def __init__(self, connection: sqlite3.Connection, *, writes: bool, faults: Faults | None = None) -> None:
        self._connection = connection
        self._writes = writes
        self._faults = faults
        self._followers: list[Callable[[], object]] = []

    def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run one statement that changes rows, and return how many it changed."""
        self._require_writing()
        changed = self._connection.execute(sql, params).rowcount
        if self._faults is not None:
            self._faults.reached("write")
        return changed

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Run one statement that inserts a row, and return what the table's own counter (its ``seq``) gave that."""
        self._require_writing()
        number = self._connection.execute(sql, params).lastrowid
        if number is None:
            raise AssertionError("an insertion gives its row a number")
        if self._faults is not None:
            self._faults.reached("write")
        return number

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""
        self._require_writing()
        self._connection.executemany(sql, rows)
        if self._faults is not None:
            self._faults.reached("write")

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Run a query and return all rows. Raises ``StoreError`` for a text that cannot be read."""
        try:
            return self._connection.execute(sql, params).fetchall()
        except sqlite3.OperationalError as error:
            raise damaged_text(error) or error from None

    def row(self, sql: str, params: Sequence[Any] = ()) -> Row | None:
        """Run a query and return its first row, or ``None``. Raises ``StoreError`` for a text that cannot be read."""
        try:
            cursor = self._connection.execute(sql, params)
            found = cursor.fetchone()
        except sqlite3.OperationalError as error:
            raise damaged_text(error) or error from None
        # A query that is not read to its end would keep its snapshot open.
        cursor.close()
        return found

    def after_commit(self, follow: Callable[[], object]) -> None:
        """Run ``follow`` once this transaction is committed; see ``Transaction``."""
        self._require_writing()
        self._followers.append(follow)

    def begin(self) -> None:
        """Forget what was to follow an earlier transaction. For the thread that runs transactions."""
        self._followers.clear()

    def follow(self) -> None:
        """Do what was to follow the commit. For the thread that runs transactions."""
        for follow in self._followers:
            try:
                follow()
            except Exception:  # noqa: BLE001 -- the transaction is committed whatever becomes of this
                _log.exception("What was to follow a transaction failed; it is made up for later.")

    def _require_writing(self) -> None:
        if not self._writes:
            raise RuntimeError("A reading transaction cannot change rows; use Database.write.")


class Settings:
    """How an open database behaves. ``busy_timeout`` is in seconds."""

    def __init__(self, location: str, busy_timeout: float, faults: Faults | None) -> None:
        self.location: Final = location
        self.busy_timeout: Final = busy_timeout
        self.faults: Final = faults


class _Job:
    """A transaction that waits for its thread, and the task that waits for its outcome."""

    __slots__ = ("future", "loop", "meanwhile", "work")

    def __init__(self, work: Callable[[Transaction], Any], meanwhile: Callable[[Any], object] | None) -> None:
        self.work = work
        self.meanwhile = meanwhile
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def worked(self, result: Any) -> None:
        """Let the loop of the task that asked prepare what it can while the commit is made."""
        if self.meanwhile is not None:
            self._in_loop(self._prepare, result, None)

    def tell(self, result: Any, error: BaseException | None) -> None:
        """Hand the outcome to the loop of the task that asked."""
        self._in_loop(self._settle, result, error)

    def _in_loop(self, call: Callable[..., None], result: Any, error: BaseException | None) -> None:
        try:
            self.loop.call_soon_threadsafe(call, result, error)
        except RuntimeError:
            # The loop has closed, so nobody waits any more; the transaction itself ends either way.
            _log.info("A transaction went on after its event loop had closed.", exc_info=error)

    def _prepare(self, result: Any, _: None) -> None:
        if self.meanwhile is None or self.future.done():
            return
        try:
            self.meanwhile(result)
        except Exception:  # noqa: BLE001 -- the transaction has its outcome whatever becomes of this
            _log.exception("What could be prepared during a commit failed; it is done after it.")

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            if error is not None:
                _log.error("A transaction failed after its task had been cancelled.", exc_info=error)
        elif error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class _Lane:
    """Threads that take transactions from one queue, each with its own connection."""

    def __init__(self, connections: Sequence[sqlite3.Connection], settings: Settings, *, writes: bool) -> None:
        self._settings = settings
        self._writes = writes
        self._connections = connections
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        kind = "writer" if writes else "reader"
        self._threads = [
            threading.Thread(target=self._serve, args=(connection,), name=f"eunoe-store-{kind}", daemon=True)
            for connection in connections
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[Transaction], T], meanwhile: Callable[[T], object] | None = None) -> T:
        """Queue a transaction and wait for its outcome. Raises ``StoreError`` when the store was closed."""
        job = _Job(work, meanwhile)
        with self._gate:
            if self._closed:
                raise StoreError(f"The store {self._settings.location} is closed.")
            self._queue.put(job)
        return await job.future

    def finish(self) -> None:
        """Take no more transactions, wait until the queued ones have ended, and close the connections. Blocks."""
        with self._gate:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._queue.put(None)
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.close()

    def _serve(self, connection: sqlite3.Connection) -> None:
        transaction = SqliteTransaction(connection, writes=self._writes, faults=self._settings.faults)
        while (job := self._queue.get()) is not None:
            try:
                result = self._transact(connection, transaction, job)
            except BaseException as error:  # noqa: BLE001 -- whatever it is belongs to the task that asked
                job.tell(None, error)
            else:
                job.tell(result, None)
            # A thread that waits must keep nothing of the last transaction alive.
            del job
            result = None

    def _transact(self, connection: sqlite3.Connection, transaction: SqliteTransaction, job: _Job) -> object:
        faults = self._settings.faults if self._writes else None
        try:
            transaction.begin()
            connection.execute("BEGIN IMMEDIATE" if self._writes else "BEGIN")
            result: object = job.work(transaction)
            job.worked(result)
            if faults is not None:
                faults.reached("before_commit")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            meaning = store_error(error, self._settings.location, self._settings.busy_timeout)
            if meaning is None:
                raise
            raise meaning from error
        finally:
            # Only after a failure is it still open: SQLite has ended it itself after some of its errors.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if faults is not None:
            faults.reached("commit")
        transaction.follow()
        return result


class SqliteDatabase:
    """A ``Database`` in one file, made by ``open_sqlite``."""

    def __init__(
        self,
        settings: Settings,
        owner: Owner,
        *,
        writer: sqlite3.Connection,
        readers: Sequence[sqlite3.Connection],
    ) -> None:
        self.owner: str = owner.name
        self.location: str = settings.location
        self._settings = settings
        self._owner = owner
        self._writing = _Lane([writer], settings, writes=True)
        self._reading = _Lane(readers, settings, writes=False)
        self._ended = False

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a transaction that sees one snapshot and changes nothing."""
        return await self._reading.run(work)

    async def write(self, work: Callable[[Transaction], T], meanwhile: Callable[[T], object] | None = None) -> T:
        """Run ``work`` in a transaction that alone may write; commit when it returns, roll back when it raises.

        ``meanwhile`` is as in ``Database``. Once handed over, the transaction ends by itself even when the awaiting
        task is cancelled. Raises ``StoreLocked``, ``StoreFull`` or ``StoreUnwritable``.
        """
        return await self._writing.run(work, meanwhile)

    def is_alive(self, owner: str) -> bool:
        """Say whether the opening of this name still lives (its leases count)."""
        return self._owner.is_alive(owner)

    async def aclose(self) -> None:
        """Finish what is queued and close; closing twice does nothing more."""
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        self._reading.finish()
        self._writing.finish()
        if not self._ended:
            self._ended = True
            if self._settings.faults is not None:
                self._settings.faults.close()
            self._owner.release()
