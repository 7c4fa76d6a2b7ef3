"""Mirrors follow memory: what is due is pushed soon after, whoever made the commit and whatever process died.

The queue is derived: an agent is due while its main and tags are not what was pushed last. Pushing goes on beside the
turns, and holds nothing of the store while it waits for a network.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

import anyio
import anyio.to_thread

from eunoe.memory.locks import held
from eunoe.memory.mirror_answer import PushOutcome
from eunoe.memory.mirror_push import PUSH_SECONDS, Refs, mirrored_refs, push, refs_hash
from eunoe.memory.repository import MemoryRepository
from eunoe.runtime.commit import commit
from eunoe.runtime.following import follow, lags
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.mirror_outcomes import after_push, failure_sentence
from eunoe.state.errors import EunoeError, StoreLocked
from eunoe.state.memory import MemoryHead
from eunoe.state.mirrors import Mirror
from eunoe.store import memory_heads, memory_mirrors
from eunoe.store.database import Database, Transaction

_log: Final = logging.getLogger(__name__)

LOOK: Final = 1.0
"""Seconds between looks at which mirrors are behind."""

LOOK_AT_ALL: Final = 15
"""Looks between those at every mirrored repository: for tags, and for commits that nobody has followed yet."""

MOST_AT_ONCE: Final = 8
CLOSING_SECONDS: Final = 5.0
"""How long the last pushes may take when the store is closed; what is left is due at the next opening."""

_CLOSED: Final = PushOutcome(
    main_taken=False,
    fault="timeout",
    detail=f"the program ended, and waited {CLOSING_SECONDS:g} seconds for the push",
)


class Mirroring:
    """Pushes to mirrors in an open store. ``spawn`` runs something beside, for as long as the store is open."""

    def __init__(
        self,
        database: Database,
        homes: MemoryHomes,
        spawn: Callable[[Callable[..., Coroutine[Any, Any, object]], str], None],
        now: Callable[[], datetime],
        *,
        look_at_all: int = LOOK_AT_ALL,
    ) -> None:
        self._db = database
        self._homes = homes
        self._spawn = spawn
        self._now = now
        self._look_at_all = look_at_all
        self._going: dict[str, anyio.CancelScope] = {}
        self._places = anyio.CapacityLimiter(MOST_AT_ONCE)
        self._ended = anyio.Event()
        self._closing = False

    async def watch(self) -> None:
        """Push what is due, for as long as the store is open."""
        looks = 0
        while True:
            await anyio.sleep(LOOK)
            looks += 1
            try:
                await self._begin(everything=looks % self._look_at_all == 0)
            except EunoeError as error:
                _log.warning("mirrors cannot be looked after now: %s", error)
            except Exception:  # noqa: BLE001 - the boundary of a background task: its fault must not end the turns
                _log.exception("mirrors cannot be looked after now, by a fault of the program")

    async def close(self) -> None:
        """Push what is due once more, for at most ``CLOSING_SECONDS``; what goes on then is ended.

        A mirror that was not reached in this time counts as a failed try, so that the next program need not wait again.
        """
        with anyio.move_on_after(CLOSING_SECONDS):
            try:
                await self._begin(everything=False)
            except EunoeError as error:
                _log.warning("mirrors were not looked at: %s", error)
            await self._idle()
        self._closing = True
        for scope in self._going.values():
            scope.cancel()
        await self._idle()

    async def push_now(self, agent_id: str, *, wait: float) -> None:
        """Push an agent's memory to its mirror whether it is due or not, and record how that went.

        Raises ``StoreLocked`` when another push goes on for so many seconds, and ``StoreError``.
        """
        await self._push(agent_id, wait=wait, always=True)

    async def _idle(self) -> None:
        while self._going:
            self._ended = anyio.Event()
            await self._ended.wait()

    async def _begin(self, *, everything: bool) -> None:
        if not self._homes.folder.exists():
            return  # no agent of this store has memory files
        now = self._now()
        look = memory_mirrors.waiting_for_nothing if everything else memory_mirrors.behind
        for agent_id in await self._db.read(lambda tx: look(tx, now)):
            if agent_id not in self._going and not self._closing:
                self._going[agent_id] = anyio.CancelScope()
                self._spawn(self._carry, agent_id)

    async def _carry(self, agent_id: str) -> None:
        scope = self._going[agent_id]
        try:
            with scope:
                async with self._places:
                    await self._push(agent_id, wait=0, always=False)
            if scope.cancelled_caught and self._closing:
                await self._record(agent_id, None, {}, _CLOSED)
        except StoreLocked:
            _log.debug("another process pushes the memory of %s, or holds the store", agent_id)
        except EunoeError as error:
            _log.warning("the memory of %s was not pushed to its mirror: %s", agent_id, error)
        except Exception:  # noqa: BLE001 - the boundary of a background task: its fault must not end the others
            _log.exception("the memory of %s was not pushed to its mirror", agent_id)
        finally:
            del self._going[agent_id]
            self._ended.set()

    async def _push(self, agent_id: str, *, wait: float, always: bool) -> None:
        mirror, head = await self._db.read(lambda tx: _found(tx, agent_id))
        if mirror is None or head is None:
            return
        try:
            repository = await anyio.to_thread.run_sync(self._homes.repository, agent_id)
            async with _alone(repository, wait):
                await self._push_alone(agent_id, repository, head, always=always)
        except StoreLocked:
            raise
        except EunoeError as error:
            # The repository is damaged or gone: that is told here too, and not looked at again at once.
            await self._record(
                agent_id, mirror.url, {}, PushOutcome(main_taken=False, fault="unknown", detail=error.message)
            )
            raise

    async def _push_alone(self, agent_id: str, repository: MemoryRepository, head: MemoryHead, *, always: bool) -> None:
        if await anyio.to_thread.run_sync(lags, repository, head.revision):
            await self._db.write(lambda tx: follow(tx, self._homes, agent_id, self._now()))
        refs = await anyio.to_thread.run_sync(mirrored_refs, repository)
        # Somebody may have pushed it, or set another address, while this one waited.
        mirror, _ = await self._db.read(lambda tx: _found(tx, agent_id))
        if mirror is None or not (always or mirror.failure or mirror.pushed_refs != refs_hash(refs)):
            return
        outcome = await push(repository, refs, mirror.url, seconds=PUSH_SECONDS)
        await self._record(agent_id, mirror.url, refs, outcome)

    async def _record(self, agent_id: str, url: str | None, refs: Refs, outcome: PushOutcome) -> None:
        """Record how a push ended, unless the mirror was removed or moved meanwhile (``None``: wherever it is)."""

        def work(tx: Transaction) -> Mirror | None:
            mirror = memory_mirrors.get(tx, agent_id)
            if mirror is None or url not in {None, mirror.url}:
                return None
            after = after_push(mirror, refs, outcome, self._now())
            memory_mirrors.put(tx, after)
            return after if after.failure and not (mirror.failure and mirror.failure.needs_person) else None

        news = await commit(self._db, work)
        if news is not None and news.failure is not None and news.failure.needs_person:
            _log.warning("agent %s: %s", agent_id, failure_sentence(news))


def _found(tx: Transaction, agent_id: str) -> tuple[Mirror | None, MemoryHead | None]:
    return memory_mirrors.get(tx, agent_id), memory_heads.get(tx, agent_id)


@asynccontextmanager
async def _alone(repository: MemoryRepository, wait: float) -> AsyncGenerator[None, None]:
    """Be the one who pushes a repository, among all processes. Raises ``StoreLocked`` after so many seconds."""
    lock = held(repository.git_folder / "eunoe-mirror.lock", wait)
    await anyio.to_thread.run_sync(lock.__enter__)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)
