"""Reflection: a hidden agent goes over what was said and works on memory files in a branch, which is merged or kept.

The branch has a working tree of its own, where a person finds its files, and may work on what waits for a decision.

Main does not move while it works, and a conversation that goes on is not disturbed. The outcome is explicit: it is a
success only if its commits are memory, or there was nothing to change.
"""

import logging
from collections.abc import Callable
from typing import Final

import anyio
from msgspec import Struct, structs

from eunoe.memory import revisions
from eunoe.memory.locks import writing
from eunoe.memory.worktrees import add_worktree
from eunoe.runtime.agents import companions, create_agent
from eunoe.runtime.branch_edits import settle_branch
from eunoe.runtime.conversations import ConversationSpec, create_conversation
from eunoe.runtime.file_edits import FileStore
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.reflection_prompt import SYSTEM, TOOLS, reflection_message
from eunoe.runtime.reflection_review import (
    drop_branches,
    end_dead,
    merge_reflection,
    needless_branches,
    record,
)
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.runtime.turn import MemoryBranch, TurnRequest
from eunoe.state.agents import AgentSpec, AgentState
from eunoe.state.errors import Conflict, EunoeError
from eunoe.state.events import RunEnded
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, NewMessage, TextPart
from eunoe.state.reflections import Reflection, ReflectionPolicy, companion_tag
from eunoe.state.runs import COMPLETED_REASONS
from eunoe.store import agents, reflections
from eunoe.store.database import Transaction

_log: Final = logging.getLogger(__name__)

MOST_MESSAGES: Final = 2_000
"""Messages that one reflection goes over; later ones wait for the next."""

MOST_STEPS: Final = 40
DEFAULT_SECONDS: Final = 900.0
"""How long a reflection may take."""


class Begun(Struct, frozen=True, kw_only=True):
    """A reflection that was recorded, and what it is to go over."""

    reflection: Reflection
    state: AgentState
    messages: tuple[Message, ...]
    needless: tuple[Reflection, ...] = ()
    """Earlier ones whose branches are to go, if they are still there."""


async def reflect(
    runtime: Runtime,
    agent_id: str,
    *,
    policy: ReflectionPolicy = "auto",
    instructions: str = "",
    model: str | None = None,
    seconds: float = DEFAULT_SECONDS,
) -> Reflection:
    """Let an agent's memory be brought up to date from what was said since the last time, and return how it ended.

    ``policy`` says whether the edits are merged when nothing collides, or wait for a person. ``instructions`` say what
    to look for; ``model`` is the agent's by default. A failing model is no exception but the outcome ``failed``.
    Raises ``NotFound``, and ``Conflict`` for an agent whose memory is blocks and while a reflection of it goes on.
    """
    begun = await begin_reflection(runtime, agent_id, policy=policy)
    return await carry_reflection(runtime, begun, instructions=instructions, model=model, seconds=seconds)


async def start_reflection(
    runtime: Runtime,
    agent_id: str,
    *,
    policy: ReflectionPolicy = "auto",
    instructions: str = "",
    model: str | None = None,
) -> Reflection:
    """As ``reflect``, but it goes on in the background: look for its outcome in the list of reflections."""
    begun = await begin_reflection(runtime, agent_id, policy=policy)
    carry_beside(runtime, begun, instructions=instructions, model=model)
    return begun.reflection


def carry_beside(runtime: Runtime, begun: Begun, *, instructions: str, model: str | None) -> None:
    """Let what was recorded be done in the background, for as long as the store is open."""

    async def carry() -> None:
        try:
            await carry_reflection(runtime, begun, instructions=instructions, model=model)
        except EunoeError as error:
            _log.warning("reflection %s was not recorded: %s", begun.reflection.id, error)
        except Exception:  # noqa: BLE001 - the boundary of a background task: its fault must not end the others
            _log.exception("reflection %s was not carried to its end", begun.reflection.id)

    runtime.spawn(carry)


async def begin_reflection(
    runtime: Runtime, agent_id: str, *, policy: ReflectionPolicy, check: Callable[[Transaction], object] | None = None
) -> Begun:
    """Record a reflection. Raises as ``reflect`` does, and what ``check`` raises in the same transaction."""
    now = utc_now()

    def begin(tx: Transaction) -> Begun:
        agents.get(tx, agent_id)
        if check is not None:
            check(tx)
        files = FileStore(tx, runtime.homes, agent_id, now)
        end_dead(tx, runtime, agent_id, now)
        if reflections.going_on(tx, agent_id):
            raise Conflict(f"A reflection of agent {agent_id} goes on. Wait for its end.", agent_id=agent_id)
        last = reflections.last_seq(tx, agent_id)
        found = reflections.new_messages(tx, agent_id, MOST_MESSAGES)
        reflection_id = new_id("reflection")
        reflection = Reflection(
            id=reflection_id,
            agent_id=agent_id,
            branch=f"reflection/{reflection_id[-12:]}",
            base=files.head.revision,
            policy=policy,
            owner=runtime.db.owner,
            created_at=now,
            from_seq=last,
            to_seq=found[-1].seq if found else last,
        )
        needless = needless_branches(tx, agent_id)
        reflections.insert(tx, reflection)
        state = agents.state(tx, agent_id)
        return Begun(reflection=reflection, state=state, messages=tuple(found), needless=needless)

    return await runtime.db.write(begin)


async def carry_reflection(
    runtime: Runtime,
    begun: Begun,
    *,
    instructions: str = "",
    model: str | None = None,
    seconds: float = DEFAULT_SECONDS,
) -> Reflection:
    """Do what was recorded, and return the reflection as it ended. A cancelled one has failed."""
    reflection = begun.reflection
    if not begun.messages:
        done = structs.replace(reflection, outcome="nothing to do", detail="Nothing was said since the last time.")
        return await record(runtime, done)
    branch = MemoryBranch(agent_id=reflection.agent_id, name=reflection.branch)
    try:
        await anyio.to_thread.run_sync(_make_branch, runtime.homes, begun)
        over = await _work(runtime, begun, branch, instructions, model, seconds)
    except EunoeError as error:
        return await record(runtime, structs.replace(reflection, outcome="failed", detail=error.message))
    except BaseException:
        # Cancelled, or a fault of the program: nobody must wait for it for ever.
        with anyio.CancelScope(shield=True):
            await record(runtime, structs.replace(reflection, outcome="failed", detail="It was interrupted."))
        raise
    # What was merged must be told as merged; the locks of the store and of git bound how long this can take.
    finished: list[Reflection] = []
    with anyio.CancelScope(shield=True):
        finished.append(await _finish(runtime, structs.replace(reflection, run_id=over.run_id), branch, over))
    return finished[0]


async def _finish(runtime: Runtime, reflection: Reflection, branch: MemoryBranch, over: RunEnded) -> Reflection:
    try:
        # What could not be put on the branch when it was made must not be told as nothing that was changed.
        await anyio.to_thread.run_sync(settle_branch, runtime.homes, branch, utc_now())
        done = await _outcome(runtime, reflection, over)
    except EunoeError as error:
        done = structs.replace(reflection, outcome="failed", detail=error.message)
    return await record(runtime, done)


async def _work(
    runtime: Runtime, begun: Begun, branch: MemoryBranch, instructions: str, model: str | None, seconds: float
) -> RunEnded:
    """Run the turn of the hidden agent on the branch, bounded in time, and return its end."""
    agent = begun.state.agent
    companion = await _companion(runtime, begun.state)
    conversation = await create_conversation(
        runtime, ConversationSpec(agent_id=companion, summary=begun.reflection.id, model=model or agent.model)
    )
    info = runtime.models.resolve(model or agent.model)
    window = info.context_window if model else agent.context_window or info.context_window
    head = begun.state.memory
    text = reflection_message(
        agent.name,
        begun.state.blocks,
        head.names if head else (),
        begun.messages,
        window=window,
        instructions=instructions,
    )
    handle = await runtime.start(
        TurnRequest(
            agent_id=companion,
            conversation_id=conversation.id,
            messages=(NewMessage(role="user", parts=(TextPart(text=text),)),),
            max_steps=MOST_STEPS,
            memory_branch=branch,
        )
    )
    try:
        with anyio.move_on_after(seconds):
            return await handle.wait()
    finally:
        if handle.ended is None:
            handle.cancel()
            # Its branch must not move any more when its end is recorded.
            with anyio.CancelScope(shield=True):
                await handle.wait()
    return await handle.wait()


async def _companion(runtime: Runtime, state: AgentState) -> str:
    """Return the hidden agent that reflects for an agent; it is made once and kept, with what it did before."""
    tag = companion_tag(state.agent.id)
    found = await runtime.db.read(lambda tx: companions(tx, state.agent.id))
    if found:
        return found[0]
    spec = AgentSpec(
        name=f"Reflection of {state.agent.name}"[:255],
        model=state.agent.model,
        system=SYSTEM,
        tools=TOOLS,
        include_base_tools=False,
        tags=(tag,),
        model_settings=state.agent.model_settings,
        timezone=state.agent.timezone,
        hidden=True,
        description=f"Looks after the memory files of agent {state.agent.id}.",
    )
    return (await create_agent(runtime, spec)).agent.id


async def _outcome(runtime: Runtime, reflection: Reflection, over: RunEnded) -> Reflection:
    """Return the reflection with what becomes of its branch."""
    if over.error is not None or over.stop_reason not in COMPLETED_REASONS - {"max_steps"}:
        why = over.error.message if over.error else f"its turn ended with {over.stop_reason}"
        return structs.replace(reflection, outcome="failed", detail=f"The reflection did not come to its end: {why}")
    if not await anyio.to_thread.run_sync(_has_changes, runtime.homes, reflection):
        return structs.replace(reflection, outcome="nothing to do", detail="It left the files as they were.")
    if reflection.policy == "review":
        return structs.replace(reflection, outcome="waits for review", detail="Its edits wait for a person.")
    return await merge_reflection(runtime, reflection)


def _make_branch(homes: MemoryHomes, begun: Begun) -> None:
    reflection = begun.reflection
    drop_branches(homes, begun.needless)
    repository = homes.repository(reflection.agent_id)
    with writing(repository.git_folder):
        revisions.create_branch(repository, reflection.branch, reflection.base)
    add_worktree(
        repository, revisions.BRANCHES + reflection.branch, homes.worktree(reflection.agent_id, reflection.branch)
    )


def _has_changes(homes: MemoryHomes, reflection: Reflection) -> bool:
    repository = homes.repository(reflection.agent_id)
    tip = revisions.resolve(repository, reflection.branch)
    return repository.snapshot(tip).root.tree_id != repository.snapshot(reflection.base).root.tree_id
