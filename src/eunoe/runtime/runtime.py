"""An open store with its models: where turns are started, watched and ended."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from eunoe.models.protocol import Models
from eunoe.models.registry import ModelRegistry
from eunoe.runtime.act import act
from eunoe.runtime.checkpoint import End
from eunoe.runtime.commit import commit
from eunoe.runtime.failures import OWN_FAULT, describe_own_error
from eunoe.runtime.handles import RunHandle
from eunoe.runtime.loop import Ports, finish_broken, run_turn, tell_end
from eunoe.runtime.recovery import sweep
from eunoe.runtime.settings import Settings
from eunoe.runtime.turn import Turn, TurnRequest, open_turn
from eunoe.runtime.window import INTERRUPTED
from eunoe.state.conversations import Conversation
from eunoe.state.errors import ConversationBusy, EunoeError
from eunoe.state.ids import new_id
from eunoe.store import tools
from eunoe.store.cipher import Cipher, load_cipher
from eunoe.store.database import Database, Transaction
from eunoe.store.sqlite import open_sqlite
from eunoe.tools.builtin import builtin_tools

_log: Final = logging.getLogger(__name__)
_POLL: Final = 0.2
"""Seconds between looks at a conversation that another process holds."""


def utc_now() -> datetime:
    """Return the time: aware, in UTC."""
    return datetime.now(UTC)


class Runtime:
    """An open store, its models, and the runs that go on in this process. Open it with ``open_runtime``."""

    def __init__(self, settings: Settings, database: Database, models: Models, tasks: TaskGroup) -> None:
        self.settings: Final = settings
        self.db: Final = database
        self.models: Final = models
        self._tasks: Final = tasks
        self._running: Final[dict[str, RunHandle]] = {}

    @cached_property
    def cipher(self) -> Cipher:
        """What encrypts secrets. Made at first use, which may read the key's file: use it inside a transaction."""
        return load_cipher(self.settings.database)

    def is_running(self, conversation: Conversation) -> bool:
        """Say whether the run that holds this conversation's lease still lives, here or in another process."""
        if conversation.lease_owner == self.db.owner:
            return conversation.lease_run_id in self._running
        return conversation.lease_owner is not None and self.db.is_alive(conversation.lease_owner)

    def handle(self, run_id: str) -> RunHandle | None:
        """Return the handle of a run that goes on in this process."""
        return self._running.get(run_id)

    def runs_of(self, agent_id: str) -> list[str]:
        """Return the ids of an agent's runs that go on in this process."""
        return [run_id for run_id, handle in self._running.items() if handle.agent_id == agent_id]

    async def start(self, request: TurnRequest) -> RunHandle:
        """Start a turn. It goes on by itself; watch it by its handle.

        When this returns, the request's messages are stored. Raises ``NotFound``, ``ConversationBusy`` (at once, or
        after the settings' ``busy_wait`` for a request that waits), ``InvalidInput`` and ``StoreError``; then nothing
        is stored.
        """
        deadline = anyio.current_time() + self.settings.busy_wait
        while True:
            try:
                return await self._start(request)
            except ConversationBusy as busy:
                if request.on_busy == "reject" or anyio.current_time() >= deadline:
                    raise
                holder = self._running.get(str(busy.details["run_id"]))
            with anyio.move_on_after(deadline - anyio.current_time() if holder else _POLL):
                if holder:
                    await holder.wait()
                else:
                    await anyio.sleep_forever()

    async def _start(self, request: TurnRequest) -> RunHandle:
        run_id = new_id("run")
        scope = anyio.CancelScope()
        handle = RunHandle(run_id, request.agent_id, request.conversation_id or "default", scope.cancel)
        self._running[run_id] = handle

        def opening(tx: Transaction) -> Turn:
            return open_turn(
                tx,
                request,
                run_id=run_id,
                owner=self.db.owner,
                is_running=self.is_running,
                models=self.models,
                now=utc_now(),
            )

        try:
            turn = await commit(self.db, opening)
        except BaseException:
            del self._running[run_id]
            raise
        handle.opened(turn.conversation.id)
        self._tasks.start_soon(self._drive, turn, handle, scope)
        return handle

    async def _drive(self, turn: Turn, handle: RunHandle, scope: anyio.CancelScope) -> None:
        ports = Ports(
            database=self.db,
            models=self.models,
            act=lambda turn, asked: act(self.db, turn, asked, utc_now()),
            now=utc_now,
            emit=handle.publish,
        )
        try:
            with scope:
                await self._run(turn, ports)
            if handle.ended is None:
                await finish_broken(turn, End(reason="cancelled"), ports)
        except anyio.get_cancelled_exc_class():
            await finish_broken(turn, End(reason="cancelled"), ports, reason=INTERRUPTED)
            raise
        except EunoeError as error:
            _log.warning("run %s ended without a record: %s", turn.run.id, error)
        finally:
            self._running.pop(turn.run.id, None)
            if handle.ended is None:
                tell_end(turn, End(reason="error", error=OWN_FAULT), ports)

    async def _run(self, turn: Turn, ports: Ports) -> None:
        try:
            await run_turn(turn, ports)
        except EunoeError as error:
            _log.warning("run %s failed: %s", turn.run.id, error)
            await finish_broken(turn, End(reason="error", error=describe_own_error(error)), ports, reason=INTERRUPTED)
        except Exception:  # noqa: BLE001 - the boundary of a run: a fault in one must not end the others
            _log.exception("run %s failed by a fault of the program", turn.run.id)
            await finish_broken(turn, End(reason="error", error=OWN_FAULT), ports, reason=INTERRUPTED)

    async def cancel(self, run_id: str) -> bool:
        """End a run of this process as cancelled, wait for its end, and say whether it was running."""
        handle = self._running.get(run_id)
        if handle is None:
            return False
        handle.cancel()
        await handle.wait()
        return True

    async def aclose(self) -> None:
        """Let the running turns end for the settings' ``shutdown_wait``, then end them as cancelled."""
        with anyio.move_on_after(self.settings.shutdown_wait):
            for handle in list(self._running.values()):
                await handle.wait()
        for handle in list(self._running.values()):
            handle.cancel()


def _prepare(tx: Transaction, is_running: Callable[[Conversation], bool], now: datetime) -> int:
    for tool in builtin_tools(now):
        tools.upsert_builtin(tx, tool)
    return sweep(tx, is_running=is_running, now=now)


@asynccontextmanager
async def open_runtime(settings: Settings, *, models: Models | None = None) -> AsyncGenerator[Runtime, None]:
    """Open the store of these settings, end the runs that a dead process left, and be ready for turns.

    Raises ``StoreError`` and its kinds. ``models`` replaces the models of the settings' environment.
    """
    database = await open_sqlite(settings.database)
    try:
        asked = models or ModelRegistry.from_env(settings.environment)
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            runtime = Runtime(settings, database, asked, tasks)
            ended = await database.write(partial(_prepare, is_running=runtime.is_running, now=utc_now()))
            if ended:
                _log.info("ended %d runs that an earlier process left behind", ended)
            try:
                yield runtime
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group that would wrap it
                failure = error
            finally:
                with anyio.CancelScope(shield=True):
                    await runtime.aclose()
        with anyio.CancelScope(shield=True):
            await asked.aclose()
        if failure is not None:
            raise failure
    finally:
        with anyio.CancelScope(shield=True):
            await database.aclose()
