"""An open store with its models: where turns are started, watched and ended."""

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any, Final
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from eunoe.models.protocol import Models
from eunoe.models.registry import ModelRegistry
from eunoe.runtime.act import act
from eunoe.runtime.checkpoint import End
from eunoe.runtime.commit import commit
from eunoe.runtime.drafts import Draft, draft_ahead
from eunoe.runtime.failures import OWN_FAULT, describe_own_error
from eunoe.runtime.file_reading import FileReader
from eunoe.runtime.file_tools import store_builtins
from eunoe.runtime.handles import RunHandle
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.loop import Ports, ended_event, finish_broken, run_turn
from eunoe.runtime.mcp_calls import McpServers
from eunoe.runtime.mirroring import Mirroring
from eunoe.runtime.opening import open_turn
from eunoe.runtime.recording import recording
from eunoe.runtime.recovery import close_expired, sweep
from eunoe.runtime.settings import Settings
from eunoe.runtime.skill_places import find_outside
from eunoe.runtime.turn import AlreadyStarted, Turn, TurnRequest
from eunoe.runtime.watching import watch
from eunoe.runtime.window import INTERRUPTED
from eunoe.state.conversations import Conversation
from eunoe.state.errors import ConversationBusy, EunoeError, PendingApproval
from eunoe.state.events import Event, RunEnded, RunStarted
from eunoe.state.ids import new_id
from eunoe.state.messages import Message
from eunoe.state.runs import UNFINISHED, RunError, Usage
from eunoe.store import full_text, run_events, runs
from eunoe.store.cipher import Cipher, load_cipher
from eunoe.store.database import Database, Transaction
from eunoe.store.sqlite import open_sqlite
from eunoe.tools.mcp.sessions import McpSessions

_log: Final = logging.getLogger(__name__)
_POLL: Final = 0.2
"""Seconds between looks at a conversation that another process holds."""
TICK: Final = 1.0
"""Seconds between looks at what other processes ask of this one's runs."""
TIDY_EVERY: Final = 15
"""Ticks between looks for dead runs and questions that expired."""
CANCEL_WAIT: Final = 10.0
"""Seconds that a cancel waits for another process to end its run."""


def utc_now() -> datetime:
    """Return the time: aware, in UTC."""
    return datetime.now(UTC)


def _foresee_nothing(events: Sequence[Event], ended: RunEnded) -> None:
    """Let nobody prepare for what is about to be told."""


class Runtime:
    """An open store, its models, and the runs that go on in this process. Open it with ``open_runtime``."""

    def __init__(self, settings: Settings, database: Database, models: Models, tasks: TaskGroup) -> None:
        self.settings: Final = settings
        self.db: Final = database
        self.models: Final = models
        self.homes: Final = MemoryHomes(settings.memory_folder)
        self.files: Final = FileReader(self.db, self.homes, settings.skills_folder)
        self.mcp: Final = McpServers(self.db, McpSessions(settings.mcp, self.spawn), lambda: self.cipher)
        self.mirroring: Final = Mirroring(self.db, self.homes, self.spawn, utc_now)
        self._tasks: Final = tasks
        self._running: Final[dict[str, RunHandle]] = {}
        self._lines: Final[WeakValueDictionary[tuple[str, str | None], anyio.Lock]] = WeakValueDictionary()

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

    def spawn(self, work: Callable[..., Coroutine[Any, Any, object]], *args: object) -> None:
        """Run something beside, for as long as the store is open. What it raises is logged, and ends nothing else."""

        async def beside() -> None:
            try:
                await work(*args)
            except EunoeError as error:
                _log.warning("%s came to nothing: %s", work.__qualname__, error)
            except Exception:  # noqa: BLE001 - the boundary of a background task: its fault must not end the others
                _log.exception("%s failed by a fault of the program", work.__qualname__)

        self._tasks.start_soon(beside)

    async def end_runs_of(self, agent_id: str) -> None:
        """Cancel the runs of an agent that go on in this process, and wait for their ends."""
        for handle in [one for one in self._running.values() if one.agent_id == agent_id]:
            handle.cancel()
            await handle.wait()

    async def start(self, request: TurnRequest) -> RunHandle:
        """Start a turn. It goes on by itself; watch it by its handle.

        When this returns, the request's messages are stored. A request that was taken before (same otid, or a reply to
        an approval that is answered) gets the handle of the run that it started then. Raises ``NotFound``,
        ``InvalidInput``, ``StoreError``, and — at once, or after the settings' ``busy_wait`` for a request that
        waits — ``ConversationBusy`` and ``PendingApproval``; then nothing is stored.
        """
        deadline = anyio.current_time() + self.settings.busy_wait
        queued, busy = False, None
        while True:
            try:
                return await (self._start(request) if busy is None else self._start_in_line(request, busy, deadline))
            except AlreadyStarted as before:
                return await watch(self, before.run_id)
            except ConversationBusy as taken:
                if not (queued or request.on_busy == "wait") or anyio.current_time() >= deadline:
                    raise
                busy = taken
            except PendingApproval:
                # Whoever waited for an answer waits for the turn that goes on from it too.
                queued, busy = queued or request.on_pending == "queue", None
                if not queued or anyio.current_time() >= deadline:
                    raise
                await anyio.sleep(_POLL)

    async def _start_in_line(self, request: TurnRequest, busy: ConversationBusy, deadline: float) -> RunHandle:
        """Wait until the conversation is free, in the order of arrival, and start then.

        Only who is first looks at the store, however many wait. Raises ``ConversationBusy`` at the deadline.
        """
        key = (request.agent_id, request.conversation_id)
        line = self._lines.setdefault(key, anyio.Lock())
        with anyio.move_on_after(max(0.0, deadline - anyio.current_time())):
            async with line:
                while True:
                    await self._wait_for(str(busy.details.get("run_id")))
                    try:
                        return await self._start(request)
                    except ConversationBusy as taken:
                        busy = taken
        raise busy

    async def _wait_for(self, run_id: str) -> None:
        """Wait for the end of a run of this process; for one of another, a moment."""
        holder = self._running.get(run_id)
        if holder is not None:
            await holder.wait()
        else:
            await anyio.sleep(_POLL)

    async def _start(self, request: TurnRequest) -> RunHandle:
        # What is awaited before the run is known to this process may fail or be cancelled, and leaves nothing behind.
        outside = await find_outside(self.settings.skills_folder, request.project)
        run_id = new_id("run")
        scope = anyio.CancelScope()
        handle = RunHandle(run_id, request.agent_id, scope.cancel)
        self._running[run_id] = handle

        def opening(tx: Transaction) -> Turn:
            return open_turn(
                tx,
                request,
                run_id=run_id,
                owner=self.db.owner,
                is_running=self.is_running,
                models=self.models,
                homes=self.homes,
                outside=outside,
                now=utc_now(),
            )

        drafts: list[Draft | None] = []

        def draft(opened: Turn) -> None:
            with suppress(EunoeError):  # the turn meets it again, and tells it
                drafts.append(draft_ahead(opened, self.models, utc_now()))

        try:
            turn = await commit(self.db, opening, draft)
        except BaseException:
            del self._running[run_id]
            # Nobody is given this handle, but who ends the runs of an agent, or all of them, may wait for it already.
            handle.publish(RunEnded(run_id=run_id, stop_reason="cancelled", usage=Usage(), step_count=0))
            raise
        handle.run, handle.agent_type = turn.run, turn.state.agent.agent_type
        self._tasks.start_soon(self._carry, turn, handle, scope, drafts[0] if drafts else None)
        return handle

    async def _carry(self, turn: Turn, handle: RunHandle, scope: anyio.CancelScope, ahead: Draft | None) -> None:
        """Run a turn with its events told, and for a background run stored first."""
        fault: RunError | None = None
        started = RunStarted(run_id=turn.run.id, agent_id=turn.run.agent_id, conversation_id=turn.conversation.id)
        try:
            if turn.run.background:
                async with recording(self.db, handle, utc_now) as emit:
                    emit(started)
                    # Its events are published once they are stored, so what was foreseen would lack some.
                    fault = await self._drive(turn, emit, _foresee_nothing, scope, ahead)
            else:
                handle.publish(started)
                fault = await self._drive(turn, handle.publish, handle.foresee, scope, ahead)
        except Exception:  # noqa: BLE001 - the boundary of a run's events: what stops them must not stop other runs
            _log.exception("the events of run %s could not be stored", turn.run.id)
        finally:
            self._running.pop(turn.run.id, None)
            if handle.ended is None:
                handle.publish(ended_event(turn, End(reason="error", error=fault or OWN_FAULT)))

    async def _drive(
        self,
        turn: Turn,
        emit: Callable[[Event], None],
        foresee: Callable[[Sequence[Event], RunEnded], None],
        scope: anyio.CancelScope,
        ahead: Draft | None,
    ) -> RunError | None:
        """Run a turn to its stored end. Returns what kept its end from being stored: a full disk, a locked store."""
        ports = Ports(
            database=self.db,
            models=self.models,
            homes=self.homes,
            act=lambda turn, asked, settled: act(self.db, self.files, self.mcp, turn, asked, settled, utc_now()),
            patience=self._patience,
            now=utc_now,
            emit=emit,
            foresee=foresee,
        )
        try:
            with scope:
                await self._run(turn, ports, ahead)
            if scope.cancelled_caught:
                await finish_broken(turn, End(reason="cancelled"), ports)
        except anyio.get_cancelled_exc_class():
            await finish_broken(turn, End(reason="cancelled"), ports, reason=INTERRUPTED)
            raise
        except EunoeError as error:
            _log.warning("run %s ended without a record: %s", turn.run.id, error)
            return describe_own_error(error)
        return None

    def _patience(self, turn: Turn, asked: Message) -> timedelta | None:
        client = {tool.name for tool in turn.request.client_tools}
        waits_for_client = any(call.name in client for call in asked.tool_calls if call.id in asked.needs_approval)
        seconds = self.settings.client_tool_wait if waits_for_client else self.settings.approval_wait
        return timedelta(seconds=seconds) if seconds else None

    async def _run(self, turn: Turn, ports: Ports, ahead: Draft | None) -> None:
        try:
            await run_turn(turn, ports, ahead)
        except EunoeError as error:
            _log.warning("run %s failed: %s", turn.run.id, error)
            await finish_broken(turn, End(reason="error", error=describe_own_error(error)), ports, reason=INTERRUPTED)
        except Exception:  # noqa: BLE001 - the boundary of a run: a fault in one must not end the others
            _log.exception("run %s failed by a fault of the program", turn.run.id)
            await finish_broken(turn, End(reason="error", error=OWN_FAULT), ports, reason=INTERRUPTED)

    async def cancel(self, run_id: str) -> bool:
        """End a run as cancelled, wait for its end, and say whether it was running.

        A run of another process is asked to end there, which that process does within a second or two; this waits at
        most ``CANCEL_WAIT`` for it. Raises ``NotFound``.
        """
        handle = self._running.get(run_id)
        if handle is not None:
            handle.cancel()
            await handle.wait()
            return True
        run = await self.db.read(lambda tx: runs.get(tx, run_id))
        if run.status not in UNFINISHED:
            return False
        await self.db.write(lambda tx: runs.ask_to_cancel(tx, run_id, utc_now()))
        with anyio.move_on_after(CANCEL_WAIT):
            await (await watch(self, run_id)).wait()
        return True

    async def look_after(self) -> None:
        """Do what is due: cancel what other processes ask to cancel, end dead runs, close what waited too long."""
        mine = list(self._running)
        if mine:
            for run_id in await self.db.read(lambda tx: runs.asked_to_cancel(tx, mine)):
                if handle := self._running.get(run_id):
                    handle.cancel()

    async def tidy(self) -> None:
        """End the runs of dead processes, close questions that expired, forget old events, and index what was said."""
        now = utc_now()

        def work(tx: Transaction) -> None:
            sweep(tx, is_running=self.is_running, now=now)
            close_expired(tx, is_running=self.is_running, now=now)
            run_events.forget(tx, now - timedelta(seconds=self.settings.events_kept))

        await self.db.write(work)
        while await self.db.write(full_text.catch_up):
            pass

    async def watch_over(self) -> None:
        """Look after the runs for as long as the store is open."""
        ticks = 0
        while True:
            await anyio.sleep(TICK)
            ticks += 1
            try:
                await self.look_after()
                if ticks % TIDY_EVERY == 0:
                    await self.tidy()
            except EunoeError as error:
                _log.warning("the store cannot be looked after now: %s", error)
            except Exception:  # noqa: BLE001 - the boundary of a background task: its fault must not end the turns
                _log.exception("the store cannot be looked after now, by a fault of the program")

    async def aclose(self) -> None:
        """Let the running turns end for the settings' ``shutdown_wait``, then end them as cancelled."""
        with anyio.move_on_after(self.settings.shutdown_wait):
            for handle in list(self._running.values()):
                await handle.wait()
        for handle in list(self._running.values()):
            handle.cancel()
            await handle.wait()


def _prepare(tx: Transaction, is_running: Callable[[Conversation], bool], now: datetime) -> int:
    store_builtins(tx, now)
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
            try:
                ended = await database.write(partial(_prepare, is_running=runtime.is_running, now=utc_now()))
                if ended:
                    _log.info("ended %d runs that an earlier process left behind", ended)
                tasks.start_soon(runtime.watch_over)
                tasks.start_soon(runtime.mirroring.watch)
                try:
                    yield runtime
                finally:
                    with anyio.CancelScope(shield=True):
                        await runtime.aclose()
                        await runtime.mirroring.close()
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group that would wrap it
                failure = error
            finally:
                tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await asked.aclose()
        if failure is not None:
            raise failure
    finally:
        with anyio.CancelScope(shield=True):
            await database.aclose()
