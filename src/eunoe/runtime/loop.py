"""The loop: one turn, step by step, until it ends. It exists once; every door uses it.

Decisions are pure functions (``rules``, ``window``), transactions are in ``checkpoint``; this module puts them in
order. Whatever is told as stored is stored first (I12).
"""

import time
from contextlib import aclosing
from datetime import datetime

from msgspec import structs

from eunoe.models.protocol import (
    Completed,
    Failed,
    FinishReason,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
)
from eunoe.runtime.answer_shape import answer_fault, ask_again, describe_fault
from eunoe.runtime.approvals import settled_results
from eunoe.runtime.calls import Judged, history, judge_calls, repetitions, uses_of
from eunoe.runtime.checkpoint import (
    End,
    store_answer,
    store_broken_end,
    store_intent,
    store_nudge,
    store_question,
    store_returns,
)
from eunoe.runtime.commit import commit
from eunoe.runtime.drafts import Draft, draft_step
from eunoe.runtime.failures import EMPTY_RESPONSE, MOST_REPETITIONS, REPEATED, describe_barred, describe_model_error
from eunoe.runtime.making_room import make_room, make_room_after
from eunoe.runtime.overflow import fixed_overflow
from eunoe.runtime.ports import Ports
from eunoe.runtime.requests import current_offer
from eunoe.runtime.rules import Nudge, after_calls, after_text, needs_approval
from eunoe.runtime.turn import Turn
from eunoe.runtime.window import CANCELLED, unique_call_ids
from eunoe.state.events import Event, MessageStored, ReasoningDelta, RunEnded, StepEnded, TextDelta, ToolCallDelta
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, Part, TextPart, ToolCallPart
from eunoe.state.runs import Step
from eunoe.tools.protocol import ToolResult


async def run_turn(turn: Turn, ports: Ports, ahead: Draft | None = None) -> None:
    """Run a turn to its end: ask, intend, act, commit, decide, and again.

    ``ahead`` is its first step, if that was drafted before. Raises ``EunoeError`` when the store fails or the lease is
    lost; the caller ends the run then.
    """
    overflow = None if ahead else fixed_overflow(turn)
    if overflow:
        await finish_broken(turn, overflow, ports)
        return
    if turn.asked and turn.asked_step and await go_on(turn, turn.asked, turn.asked_step, ports):
        return
    while True:
        barred = None if ahead else current_offer(turn).reason
        if barred:
            await finish_broken(turn, End(reason="no_tool_call", error=describe_barred(barred)), ports)
            return
        draft = ahead or draft_step(turn, await make_room(turn, ports), ports.models, ports.now())
        ahead = None
        answer = await ask(turn, draft, ports)
        if isinstance(answer, Failed) and await make_room_after(turn, answer.error, ports):
            continue
        turn.steps += 1
        if isinstance(answer, Failed):
            reason, error = describe_model_error(answer.error)
            await finish(turn, draft, None, End(reason=reason, error=error), ports)
            return
        turn.usage = turn.usage.plus(answer.usage)
        turn.context_tokens = answer.usage.total_tokens or turn.context_tokens
        message = answer_message(turn, draft, answer, ports.now())
        if message is None:
            await finish(turn, draft, None, End(reason="invalid_llm_response", error=EMPTY_RESPONSE), ports)
            return
        if not message.tool_calls:
            if await accept_text(turn, draft, message, answer.finish_reason, ports):
                return
        elif await carry_out(turn, draft, message, ports):
            return


async def ask(turn: Turn, draft: Draft, ports: Ports) -> Completed | Failed:
    """Stream the model's answer to whoever watches, and return its terminal event."""
    began = time.monotonic_ns()
    async with aclosing(ports.models.stream(draft.request, draft.payload)) as stream:
        async for event in stream:
            if isinstance(event, Completed | Failed):
                usage = event.usage if isinstance(event, Completed) else draft.step.usage
                draft.step = structs.replace(draft.step, usage=usage, model_ns=time.monotonic_ns() - began)
                return event
            show(turn, draft, event, ports)
    raise AssertionError(f"the stream of {turn.model.handle} ended without a terminal event")


def show(turn: Turn, draft: Draft, event: ModelEvent, ports: Ports) -> None:
    """Tell a piece of the answer, and remember its text in case the turn is cancelled."""
    ids = {"message_id": draft.message_id, "step_id": draft.step.id}
    if isinstance(event, TextPiece):
        turn.shown.append(event.text)
        turn.shown_as = draft.message_id
        ports.emit(TextDelta(**ids, part=event.part, text=event.text))
    elif isinstance(event, ReasoningPiece):
        ports.emit(ReasoningDelta(**ids, part=event.part, text=event.text))
    elif not isinstance(event, Completed | Failed):
        if event.name is not None and waits(turn, event.name):
            draft.gated.add(event.tool_call_id)
        ports.emit(
            ToolCallDelta(
                **ids,
                part=event.part,
                tool_call_id=event.tool_call_id,
                name=event.name,
                arguments=event.arguments,
                gated=event.tool_call_id in draft.gated,
            )
        )


def waits(turn: Turn, tool_name: str) -> bool:
    """Say whether a call of this tool will wait for a person or the client."""
    names = [tool.name for tool in turn.offered]
    client = {tool.name for tool in turn.request.client_tools}
    return needs_approval(turn.state.agent.tool_rules, names, client, tool_name)


def answer_message(turn: Turn, draft: Draft, answer: Completed, now: datetime) -> Message | None:
    """Return the message to store, its call ids unique in the window, or ``None`` for an answer with nothing in it."""
    parts = list(answer.parts)
    places = [index for index, part in enumerate(parts) if isinstance(part, ToolCallPart)]
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    if not calls and not any(isinstance(part, TextPart) and part.text.strip() for part in parts):
        return None
    taken = {call.id for message in turn.messages for call in message.tool_calls}
    for index, call_id in unique_call_ids(calls, taken).items():
        parts[places[index]] = structs.replace(calls[index], id=call_id)
    return _message(turn, draft, tuple(parts), now)


def _message(turn: Turn, draft: Draft, parts: tuple[Part, ...], now: datetime) -> Message:
    return Message(
        id=draft.message_id,
        agent_id=turn.run.agent_id,
        conversation_id=turn.conversation.id,
        role="assistant",
        parts=parts,
        run_id=turn.run.id,
        step_id=draft.step.id,
        model=turn.model.handle,
        created_at=now,
    )


async def accept_text(turn: Turn, draft: Draft, message: Message, finish_reason: FinishReason, ports: Ports) -> bool:
    """End the turn with this answer, or tell the model what is still missing or wrong; say whether it is over."""
    names = [tool.name for tool in turn.offered]
    outcome = after_text(turn.state.agent.tool_rules, names, history(turn.messages), finish_reason)
    fault = answer_fault(draft.request, message.text) if outcome == "end_turn" else None
    if fault and (turn.repaired or turn.steps >= turn.request.max_steps):
        await finish(turn, draft, message, End(reason="invalid_llm_response", error=describe_fault(fault)), ports)
        return True
    if fault:
        outcome, turn.repaired = ask_again(fault), True
    if not isinstance(outcome, Nudge):
        await finish(turn, draft, message, End(reason=outcome), ports)
        return True
    if turn.steps >= turn.request.max_steps:
        await finish(turn, draft, message, End(reason="max_steps"), ports)
        return True
    nudge = nudge_message(turn, outcome, ports.now())
    step = structs.replace(draft.step, status="success", completed_at=ports.now())
    stored = await commit(
        ports.database, lambda tx: store_nudge(tx, turn, step, draft.record, message, nudge, ports.now())
    )
    turn.shown = []
    turn.messages.extend(stored)
    ports.emit(MessageStored(message=stored[0], streamed=True))
    ports.emit(StepEnded(step_id=step.id, usage=step.usage))
    return False


def nudge_message(turn: Turn, nudge: Nudge, now: datetime) -> Message:
    """Return the message that tells the model why the turn goes on; people are not shown it."""
    return Message(
        id=new_id("message"),
        agent_id=turn.run.agent_id,
        conversation_id=turn.conversation.id,
        role="user",
        parts=(TextPart(text=nudge.text),),
        run_id=turn.run.id,
        created_at=now,
        meta={"nudge": list(nudge.missing)},
    )


def judge(turn: Turn, message: Message) -> Judged:
    """Judge the calls of an answer by the agent's rules and what was called before."""
    before = [one for one in turn.messages if one.id != message.id]
    client = {tool.name for tool in turn.request.client_tools}
    return judge_calls(message, turn.state.agent.tool_rules, turn.offered, client, history(before))


async def carry_out(turn: Turn, draft: Draft, message: Message, ports: Ports) -> bool:
    """Store the calls and run them, or ask about them; say whether the turn is over."""
    judged = judge(turn, message)
    if judged.gated:
        await put_question(turn, draft, judged.message, ports)
        return True
    asked = await commit(
        ports.database, lambda tx: store_intent(tx, turn, draft.step, draft.record, judged.message, ports.now())
    )
    turn.asked, turn.shown = asked, []
    turn.messages.append(asked)
    ports.emit(MessageStored(message=asked, streamed=True))
    return await run_calls(turn, draft.step, asked, judged.settled, ports)


async def put_question(turn: Turn, draft: Draft, message: Message, ports: Ports) -> None:
    """Store calls that wait for a person or the client, and end the run there."""
    end = End(reason="requires_approval")
    step = structs.replace(draft.step, status="success", stop_reason=end.reason, completed_at=ports.now())
    wait = ports.patience(turn, message)
    asked = await commit(
        ports.database,
        lambda tx: store_question(
            tx, turn, step, draft.record, message, ports.now() + wait if wait else None, ports.now()
        ),
    )
    turn.shown = []
    ports.emit(MessageStored(message=asked, streamed=True))
    ports.emit(StepEnded(step_id=step.id, usage=step.usage))
    tell_end(turn, end, ports)


async def go_on(turn: Turn, asked: Message, step: Step, ports: Ports) -> bool:
    """Go on from an answered approval: run what was approved, and say whether the turn is over."""
    settled = {**judge(turn, asked).settled, **settled_results(turn.answers)}
    return await run_calls(turn, step, asked, settled, ports)


async def run_calls(turn: Turn, step: Step, asked: Message, settled: dict[str, ToolResult], ports: Ports) -> bool:
    """Run the calls that are not settled, commit the step, and say whether the turn is over."""
    began = time.monotonic_ns()
    results = {**settled, **await ports.act(turn, asked, settled)}
    reason = after_calls(
        turn.state.agent.tool_rules,
        [tool.name for tool in turn.offered],
        uses_of(asked, results),
        history(turn.messages),
        steps_done=turn.steps,
        max_steps=turn.request.max_steps,
    )
    end = End(reason=reason) if reason else None
    if end is None and repetitions(turn.messages, asked) >= MOST_REPETITIONS:
        end = End(reason="invalid_tool_call", error=REPEATED)
    step = structs.replace(
        step,
        status="success",
        stop_reason=end.reason if end else None,
        tools_ns=time.monotonic_ns() - began,
        completed_at=ports.now(),
    )
    stored = await commit(
        ports.database, lambda tx: store_returns(tx, turn, step, asked, results, end, ports.now(), ports.homes)
    )
    turn.asked, turn.following = None, ()
    turn.messages.extend(stored)
    ports.emit(MessageStored(message=stored[0]))
    ports.emit(StepEnded(step_id=step.id, usage=step.usage))
    if end:
        tell_end(turn, end, ports)
    return end is not None


async def finish(turn: Turn, draft: Draft, message: Message | None, end: End, ports: Ports) -> None:
    """Commit the last step of a turn together with the end of its run."""
    status = "failed" if end.error else "success"
    step = structs.replace(draft.step, status=status, stop_reason=end.reason, error=end.error, completed_at=ports.now())
    ended = ended_event(turn, end)

    def news(stored: Message | None) -> list[Event]:
        told = [MessageStored(message=stored, streamed=True)] if stored else []
        return [*told, StepEnded(step_id=step.id, usage=step.usage)]

    stored = await commit(
        ports.database,
        lambda tx: store_answer(tx, turn, step, draft.record, message, end, ports.now()),
        lambda stored: ports.foresee(news(stored), ended),
    )
    turn.shown = []
    if stored:
        turn.messages.append(stored)
    for event in [*news(stored), ended]:
        ports.emit(event)


async def finish_broken(turn: Turn, end: End, ports: Ports, *, reason: str = CANCELLED) -> None:
    """End a run that was stopped in the middle: keep the text that was shown, close its calls with ``reason``."""
    partial, shown = None, "".join(turn.shown)
    if shown.strip() and turn.asked is None:
        partial = Message(
            id=turn.shown_as,
            agent_id=turn.run.agent_id,
            conversation_id=turn.conversation.id,
            role="assistant",
            parts=(TextPart(text=shown),),
            run_id=turn.run.id,
            model=turn.model.handle,
            created_at=ports.now(),
            meta={"partial": end.reason},
        )
    stored = await commit(ports.database, lambda tx: store_broken_end(tx, turn, end, partial, reason, ports.now()))
    turn.asked = None
    for message in stored:
        ports.emit(MessageStored(message=message, streamed=message.role == "assistant"))
    tell_end(turn, end, ports)


def ended_event(turn: Turn, end: End) -> RunEnded:
    """Return the terminal event of a run."""
    return RunEnded(
        run_id=turn.run.id,
        stop_reason=end.reason,
        usage=turn.usage,
        step_count=turn.steps,
        context_tokens=turn.context_tokens,
        error=end.error,
    )


def tell_end(turn: Turn, end: End, ports: Ports) -> None:
    """Tell the end of the run, which is stored by now."""
    ports.emit(ended_event(turn, end))
