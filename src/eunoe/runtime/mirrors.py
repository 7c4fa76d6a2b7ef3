"""Mirrors of memory files, for people: set where an agent's memory is mirrored, see how that stands, and try it."""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from eunoe.memory.git_library import MAIN
from eunoe.memory.mirror_address import check_mirror_address, local_folder
from eunoe.memory.mirror_push import mirrored_refs, refs_hash
from eunoe.memory.repository import MemoryRepository
from eunoe.runtime.following import require_files
from eunoe.runtime.memory_history import in_repository
from eunoe.runtime.mirror_outcomes import failure_sentence
from eunoe.runtime.runtime import Runtime
from eunoe.state.errors import Conflict, InvalidInput, NotFound, StoreLocked
from eunoe.state.memory import MemoryHead
from eunoe.state.mirrors import Mirror, MirrorFault
from eunoe.store import agents, memory_heads, memory_mirrors
from eunoe.store.database import Transaction

PUSH_WAIT: Final = 10.0
"""Seconds that a push which somebody asked for waits for one that goes on."""

MirrorState = Literal["up to date", "due", "retrying", "needs a person"]


class MirrorStatus(Struct, frozen=True, kw_only=True):
    """How a mirror stands.

    ``state``: ``up to date`` (it has main and all tags), ``due`` (a push comes soon), ``retrying`` (the last push
    failed and the next may succeed), ``needs a person``. ``pushed`` is the commit of main that it has, ``main`` the
    one that there is. ``said`` is what is wrong and what to do; ``detail`` are git's own words. ``attempts`` have
    failed in a row since ``since``; the next one is at ``next_at``.
    """

    agent_id: str
    url: str
    state: MirrorState
    main: str | None
    pushed: str | None
    pushed_at: datetime | None
    fault: MirrorFault | None = None
    said: str | None = None
    detail: str = ""
    since: datetime | None = None
    attempts: int = 0
    next_at: datetime | None = None


async def set_mirror(runtime: Runtime, agent_id: str, url: str) -> MirrorStatus:
    """Let an agent's memory be mirrored at an address, in place of an earlier one; the first push comes soon.

    Raises ``InvalidInput`` for an address that may not be (one with a password among them), ``NotFound``, and
    ``Conflict`` for an agent whose memory is blocks.
    """
    check_mirror_address(url)

    def work(tx: Transaction) -> None:
        _require_files(tx, agent_id)
        folder = local_folder(url)
        # Memory files may look like a repository, with hooks that somebody has written through the API.
        if folder is not None and folder.resolve().is_relative_to(runtime.settings.home.resolve()):
            raise InvalidInput("A mirror cannot be in the folder of the store. Name another place.", field="url")
        before = memory_mirrors.get(tx, agent_id)
        memory_mirrors.put(tx, Mirror(agent_id=agent_id, url=url, told=before.told if before else False))

    await runtime.db.write(work)
    return await mirror_status(runtime, agent_id)


async def remove_mirror(runtime: Runtime, agent_id: str) -> None:
    """Let an agent's memory be mirrored no more; what the mirror has stays there. Raises ``NotFound`` without one."""

    def work(tx: Transaction) -> None:
        _require_mirror(tx, agent_id)
        memory_mirrors.delete(tx, agent_id)

    await runtime.db.write(work)


async def mirror_status(runtime: Runtime, agent_id: str) -> MirrorStatus:
    """Return how the mirror of an agent stands.

    Raises ``NotFound`` for an agent without one, and ``Conflict`` for one whose memory is blocks.
    """
    mirror = await runtime.db.read(lambda tx: _require_mirror(tx, agent_id))

    def work(repository: MemoryRepository, head: MemoryHead) -> MirrorStatus:
        del head
        return mirror_shown(repository, mirror)

    return await in_repository(runtime, agent_id, work)


async def push_mirror(runtime: Runtime, agent_id: str) -> MirrorStatus:
    """Push an agent's memory to its mirror now, and return how the mirror stands then; a failed push is no exception.

    Raises ``NotFound`` for an agent without a mirror, and ``Conflict`` while another push goes on.
    """
    await runtime.db.read(lambda tx: _require_mirror(tx, agent_id))
    try:
        await runtime.mirroring.push_now(agent_id, wait=PUSH_WAIT)
    except StoreLocked as error:
        raise Conflict(
            f"A push of agent {agent_id} to its mirror goes on. Look at the mirror in a moment.", agent_id=agent_id
        ) from error
    return await mirror_status(runtime, agent_id)


def mirror_shown(repository: MemoryRepository, mirror: Mirror) -> MirrorStatus:
    """Return a mirror as people are told of it. Raises ``StoreError`` when the repository cannot be read."""
    refs = mirrored_refs(repository)
    failure = mirror.failure
    state: MirrorState = "up to date" if mirror.pushed_refs == refs_hash(refs) else "due"
    if failure is not None:
        state = "needs a person" if failure.needs_person else "retrying"
    return MirrorStatus(
        agent_id=mirror.agent_id,
        url=mirror.url,
        state=state,
        main=refs.get(MAIN),
        pushed=mirror.pushed,
        pushed_at=mirror.pushed_at,
        fault=failure.fault if failure else None,
        said=failure_sentence(mirror),
        detail=failure.detail if failure else "",
        since=failure.since if failure else None,
        attempts=failure.attempts if failure else 0,
        next_at=mirror.next_at,
    )


def _require_files(tx: Transaction, agent_id: str) -> None:
    agents.get(tx, agent_id)
    require_files(memory_heads.get(tx, agent_id), agent_id)


def _require_mirror(tx: Transaction, agent_id: str) -> Mirror:
    _require_files(tx, agent_id)
    mirror = memory_mirrors.get(tx, agent_id)
    if mirror is None:
        raise NotFound(
            "Mirror",
            agent_id,
            f"The memory of agent {agent_id} has no mirror, so it is on this machine only. Set one with `eunoe memory "
            f"mirror set`, or PUT /v1/agents/{agent_id}/memory/mirror.",
        )
    return mirror
