"""Reflections that begin by themselves: when an agent has a trigger and enough was said since the last one.

Whether one is due is counted from what is stored, so a restart forgets nothing. It begins in programs that stay (a
server, a chat, an open store in Python), while no run of the agent goes on; one that fails is tried again, ever later.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

import anyio

from eunoe.runtime.following import require_files
from eunoe.runtime.reflection import Begun, begin_reflection, carry_beside
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.errors import Conflict, EunoeError, InvalidInput, NotFound
from eunoe.state.reflections import Reflection, ReflectionTrigger
from eunoe.store import agents, memory_heads, reflection_triggers, reflections
from eunoe.store.database import Transaction

_log: Final = logging.getLogger(__name__)

LOOK_EVERY: Final = 5.0
"""Seconds between looks for reflections that are due."""

MOST_AT_ONCE: Final = 2
"""Reflections that one process carries by itself at the same time."""

FIRST_WAIT: Final = timedelta(minutes=10)
LONGEST_WAIT: Final = timedelta(days=1)
"""After a failure, how long the next one waits; each failure in a row doubles it."""

MOST_STEPS: Final = 1_000_000
MOST_INSTRUCTIONS: Final = 20_000
_RECENT: Final = 20


async def set_trigger(runtime: Runtime, trigger: ReflectionTrigger) -> ReflectionTrigger:
    """Let an agent be reflected for by itself from now on, in place of an earlier trigger.

    Raises ``InvalidInput`` for one that never fires or names no model, ``NotFound``, and ``Conflict`` for an agent
    whose memory is blocks.
    """
    if trigger.every_steps is None and not trigger.after_compaction:
        raise InvalidInput("Say when: after how many steps (every_steps), or after_compaction.", field="every_steps")
    if trigger.every_steps is not None and not 1 <= trigger.every_steps <= MOST_STEPS:
        raise InvalidInput(
            f"every_steps must be from 1 to {MOST_STEPS}, not {trigger.every_steps}.", field="every_steps"
        )
    if len(trigger.instructions) > MOST_INSTRUCTIONS:
        raise InvalidInput(
            f"instructions take at most {MOST_INSTRUCTIONS} characters, and these have {len(trigger.instructions)}.",
            field="instructions",
        )
    if trigger.model is not None:
        await runtime.models.find(trigger.model)

    def put(tx: Transaction) -> None:
        agents.get(tx, trigger.agent_id)
        require_files(memory_heads.get(tx, trigger.agent_id), trigger.agent_id)
        reflection_triggers.put(tx, trigger)

    await runtime.db.write(put)
    return trigger


async def find_trigger(runtime: Runtime, agent_id: str) -> ReflectionTrigger | None:
    """Return an agent's trigger, ``None`` when it has none. Raises ``NotFound`` for no agent."""
    return await runtime.db.read(lambda tx: reflection_triggers.get(tx, agents.get(tx, agent_id).id))


async def remove_trigger(runtime: Runtime, agent_id: str) -> None:
    """Let an agent be reflected for only when somebody asks. Raises ``NotFound`` for no agent, or one without any."""

    def remove(tx: Transaction) -> None:
        agents.get(tx, agent_id)
        if reflection_triggers.get(tx, agent_id) is None:
            raise NotFound("Trigger", agent_id, f"Agent {agent_id} is not reflected for by itself.")
        reflection_triggers.delete(tx, agent_id)

    await runtime.db.write(remove)


@asynccontextmanager
async def reflecting(runtime: Runtime, every: float = LOOK_EVERY) -> AsyncGenerator[None, None]:
    """Begin the reflections that are due, as long as the block runs: a look every so many seconds."""
    scope = anyio.CancelScope()

    async def watch() -> None:
        looker = Looker(runtime)
        with scope:
            while True:
                await anyio.sleep(every)
                await looker.look()

    runtime.spawn(watch)
    try:
        yield
    finally:
        scope.cancel()


class Looker:
    """Looks for reflections that are due, and lets those that could not begin rest for a while."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._resting: dict[str, datetime] = {}

    async def look(self) -> list[Reflection]:
        """Begin reflections that are due, and return those that have begun."""
        begun: list[Reflection] = []
        try:
            wanted = await self._runtime.db.read(self._due)
        except EunoeError as error:
            _log.warning("whether a reflection is due cannot be found out now: %s", error)
            return begun
        for trigger in wanted:
            found = await self._begin(trigger)
            if found is not None:
                carry_beside(self._runtime, found, instructions=trigger.instructions, model=trigger.model)
                begun.append(found.reflection)
        return begun

    def _due(self, tx: Transaction) -> list[ReflectionTrigger]:
        room = MOST_AT_ONCE - reflections.carried_by(tx, self._runtime.db.owner)
        now = utc_now()
        wanted: list[ReflectionTrigger] = []
        for trigger in reflection_triggers.of_idle_agents(tx):
            if len(wanted) >= room:
                break
            if self._resting.get(trigger.agent_id, now) <= now and is_due(tx, self._runtime, trigger, now):
                wanted.append(trigger)
        return wanted

    async def _begin(self, trigger: ReflectionTrigger) -> Begun | None:
        agent_id = trigger.agent_id

        def check(tx: Transaction) -> None:
            if not is_due(tx, self._runtime, trigger, utc_now()):
                raise Conflict("Another process was faster.", agent_id=agent_id)

        try:
            return await begin_reflection(self._runtime, agent_id, policy=trigger.policy, check=check)
        except (Conflict, NotFound):
            return None  # another process was faster, or the agent or its files went
        except EunoeError as error:
            self._resting[agent_id] = utc_now() + FIRST_WAIT
            _log.warning("agent %s cannot be reflected for now: %s", agent_id, error)
            return None


def is_due(tx: Transaction, runtime: Runtime, trigger: ReflectionTrigger, now: datetime) -> bool:
    """Say whether a trigger fires now.

    It does not while a reflection of the agent goes on or waits for a person, nor soon after one that failed.
    """
    recent = reflections.of_agent(tx, trigger.agent_id, _RECENT)
    if any(one.outcome is None and runtime.db.is_alive(one.owner) for one in recent):
        return False
    over = [one for one in recent if one.outcome is not None]
    if any(one.outcome == "waits for review" for one in over):
        return False
    failed = list(takewhile(lambda one: one.outcome == "failed", over))
    if failed and now < (failed[0].ended_at or failed[0].created_at) + _wait_after(len(failed)):
        return False
    last = reflections.last_seq(tx, trigger.agent_id)
    if trigger.after_compaction and reflection_triggers.was_compacted(tx, trigger.agent_id, last):
        return True
    steps = trigger.every_steps
    return steps is not None and reflection_triggers.has_made_steps(tx, trigger.agent_id, last, steps)


def _wait_after(failures: int) -> timedelta:
    return min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failures - 1))
