"""Neither opening an agent nor a checkpoint grows with what is stored or in the window (I6)."""

import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
from msgspec import structs

from bench.clock import in_turn, quiet, seconds_of
from bench.figures import Figure, against
from eunoe.runtime.agents import create_agent
from eunoe.runtime.checkpoint import End, store_answer
from eunoe.runtime.commit import commit
from eunoe.runtime.opening import new_message, open_turn
from eunoe.runtime.requests import record_request, turn_request
from eunoe.runtime.runtime import Runtime, open_runtime, utc_now
from eunoe.runtime.settings import Settings
from eunoe.runtime.skill_places import OutsideSkills
from eunoe.runtime.turn import Turn, TurnRequest
from eunoe.state.agents import AgentSpec, AgentState
from eunoe.state.blocks import BlockSpec
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, NewMessage, TextPart
from eunoe.state.runs import Step
from eunoe.store import conversations, messages
from eunoe.store.database import Transaction

FEW: Final = 10
MANY_STORED: Final = 100_000
MANY_IN_WINDOW: Final = 1_000
ROUNDS: Final = 400
TIMES: Final = 1.2
_BATCH: Final = 5_000
_REQUEST: Final = NewMessage(role="user", parts=(TextPart(text="Which map should I look at today?"),))
_ANSWER: Final = TextPart(text="The one of the coast. It shows the new harbour and the old road.")

Sample = Callable[[], Awaitable[float]]


def measure() -> list[Figure]:
    """Measure openings and checkpoints, each with little and with much, in turn."""
    return anyio.run(_measure)


async def _measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_runtime(Settings(home=Path(folder))) as runtime:
            return [await _openings(runtime), await _checkpoints(runtime)]


async def _openings(runtime: Runtime) -> Figure:
    few = await _agent_with(runtime, stored=FEW, in_window=FEW)
    many = await _agent_with(runtime, stored=MANY_STORED, in_window=FEW)
    ones, others = await in_turn(_opening_of(runtime, few), _opening_of(runtime, many), ROUNDS)
    return against(
        f"opening a turn of an agent with {MANY_STORED:,} messages (floor: {FEW})",
        quiet(others) * 1e3,
        quiet(ones) * 1e3,
        TIMES,
        "ms",
        f"lower quartiles of {ROUNDS} openings of each, in turn, rolled back before the commit",
    )


async def _checkpoints(runtime: Runtime) -> Figure:
    few = await _agent_with(runtime, stored=FEW, in_window=FEW)
    many = await _agent_with(runtime, stored=MANY_IN_WINDOW, in_window=MANY_IN_WINDOW)
    ones, others = await in_turn(await _checkpoint_of(runtime, few), await _checkpoint_of(runtime, many), ROUNDS)
    return against(
        f"checkpoint with {MANY_IN_WINDOW:,} messages in the window (floor: {FEW})",
        quiet(others) * 1e3,
        quiet(ones) * 1e3,
        TIMES,
        "ms",
        f"lower quartiles of {ROUNDS} durable checkpoints of each, in turn",
    )


async def _agent_with(runtime: Runtime, *, stored: int, in_window: int) -> AgentState:
    """Make an agent with so many messages, the last of which are its window."""
    blocks = (BlockSpec(label="human", value="Likes maps."), BlockSpec(label="persona", value="I am careful."))
    state = await create_agent(runtime, AgentSpec(model="scripted/demo", memory_blocks=blocks))
    left = stored
    while left:
        taken = min(left, _BATCH)
        await runtime.db.write(lambda tx, size=taken: _append(tx, state, size))
        left -= taken

    def move_window(tx: Transaction) -> None:
        conversation = conversations.get(tx, state.conversation.id)
        first = messages.page(
            tx, messages.MessageQuery(conversation_id=conversation.id, order="desc", limit=in_window)
        )[-1]
        conversations.update(tx, structs.replace(conversation, window_from=first.position), utc_now())

    await runtime.db.write(move_window)
    return state


def _append(tx: Transaction, state: AgentState, size: int) -> None:
    now = utc_now()
    pair = (_REQUEST, structs.replace(_REQUEST, role="assistant", parts=(_ANSWER,)))
    batch = [new_message(pair[number % 2], state.agent.id, state.conversation.id, None, now) for number in range(size)]
    messages.append(tx, state.conversation.id, batch, now)


def _open(tx: Transaction, runtime: Runtime, state: AgentState, run_id: str) -> Turn:
    return open_turn(
        tx,
        TurnRequest(agent_id=state.agent.id, messages=(_REQUEST,)),
        run_id=run_id,
        owner=runtime.db.owner,
        is_running=runtime.is_running,
        models=runtime.models,
        homes=runtime.homes,
        outside=OutsideSkills(),
        now=utc_now(),
    )


class _Measured(Exception):
    """Ends a transaction that must leave nothing behind; ``seconds`` is how long its work took."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds: Final = seconds


def _opening_of(runtime: Runtime, state: AgentState) -> Sample:
    def work(tx: Transaction) -> None:
        began = time.perf_counter()
        _open(tx, runtime, state, new_id("run"))
        raise _Measured(time.perf_counter() - began)

    async def sample() -> float:
        try:
            await runtime.db.write(work)
        except _Measured as measured:
            return measured.seconds
        raise AssertionError("the transaction was to be rolled back")

    return sample


async def _checkpoint_of(runtime: Runtime, state: AgentState) -> Sample:
    """Open a turn and return what commits an answer to it, with the end of its run, once more each time."""
    run_id = new_id("run")
    turn = await commit(runtime.db, lambda tx: _open(tx, runtime, state, run_id))
    request = turn_request(turn)
    record = record_request(turn, request, runtime.models.payload(request))

    async def sample() -> float:
        now = utc_now()
        step = Step(
            id=new_id("step"),
            run_id=run_id,
            agent_id=state.agent.id,
            conversation_id=state.conversation.id,
            ordinal=0,
            created_at=now,
            status="success",
            model=turn.model.handle,
            request=record.request,
            completed_at=now,
        )
        answer = Message(
            id=new_id("message"),
            agent_id=state.agent.id,
            conversation_id=state.conversation.id,
            role="assistant",
            parts=(_ANSWER,),
            created_at=now,
            run_id=run_id,
            step_id=step.id,
        )
        end = End(reason="end_turn")
        return await seconds_of(
            lambda: commit(runtime.db, lambda tx: store_answer(tx, turn, step, record, answer, end, now))
        )

    return sample
