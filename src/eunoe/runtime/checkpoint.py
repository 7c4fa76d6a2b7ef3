"""The transactions of a step: intent before effect (I4), then everything together (I2), under the fence (I11)."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct, structs

from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.memory_calls import run_memory_call
from eunoe.runtime.requests import RecordedRequest
from eunoe.runtime.turn import Turn
from eunoe.runtime.window import closing_message
from eunoe.state.approvals import Approval
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, ToolReturnPart
from eunoe.state.runs import RunError, Step, StopReason, status_for
from eunoe.store import agents, approvals, conversations, messages, runs, steps, texts
from eunoe.store.database import Transaction
from eunoe.tools.protocol import ToolResult


class End(Struct, frozen=True, kw_only=True):
    """How a run ends."""

    reason: StopReason
    error: RunError | None = None


def _append(tx: Transaction, turn: Turn, added: Sequence[Message], now: datetime) -> list[Message]:
    """Add messages at the end, if the lease still holds; if not, raise ``LeaseLost``."""
    conversation_id = turn.conversation.id
    if not added:
        conversations.hold(tx, conversation_id, turn.fence)
        return []
    end = conversations.hold_places(tx, conversation_id, turn.fence, len(added), now)
    return list(messages.append_reserved(tx, conversation_id, end, added))


def _close(tx: Transaction, turn: Turn, message: Message, now: datetime) -> Message:
    """Add the returns of the turn's calls: at the end, or before the messages that came with an approval's answer."""
    if turn.following:
        return messages.insert_after(tx, turn.conversation.id, message, turn.messages[-1].position)
    return _append(tx, turn, [message], now)[0]


def _insert_step(tx: Transaction, step: Step, record: RecordedRequest) -> None:
    for key, text in record.texts.items():
        texts.put_hashed(tx, key, text)
    steps.insert(tx, step)


def store_intent(
    tx: Transaction, turn: Turn, step: Step, record: RecordedRequest, message: Message, now: datetime
) -> Message:
    """Make the calls durable before any tool starts."""
    stored = _append(tx, turn, [message], now)
    _insert_step(tx, step, record)
    return stored[0]


def store_question(
    tx: Transaction,
    turn: Turn,
    step: Step,
    record: RecordedRequest,
    message: Message,
    expires_at: datetime | None,
    now: datetime,
) -> Message:
    """Store calls that need an answer, with the question and the end of the run that asked it."""
    stored = store_intent(tx, turn, step, record, message, now)
    approvals.insert(
        tx,
        Approval(
            id=new_id("approval"),
            agent_id=turn.run.agent_id,
            conversation_id=turn.conversation.id,
            run_id=turn.run.id,
            message_id=stored.id,
            calls=tuple(call for call in stored.tool_calls if call.id in stored.needs_approval),
            asked_at=now,
            expires_at=expires_at,
        ),
    )
    store_end(tx, turn, End(reason="requires_approval"), now)
    return stored


def store_answer(
    tx: Transaction, turn: Turn, step: Step, record: RecordedRequest, message: Message | None, end: End, now: datetime
) -> Message | None:
    """Store an answer without calls (or a step that gave none) with the end of the run."""
    stored = _append(tx, turn, [message] if message else [], now)
    _insert_step(tx, step, record)
    store_end(tx, turn, end, now)
    return stored[0] if stored else None


def store_returns(
    tx: Transaction,
    turn: Turn,
    step: Step,
    asked: Message,
    results: Mapping[str, ToolResult],
    end: End | None,
    now: datetime,
    homes: MemoryHomes,
) -> list[Message]:
    """Commit a step with calls: memory edits in order of the calls, all returns, step, run, and the end if it ends.

    ``results`` has what the tools with effects gave, by call id; a call that is not there is a memory edit, which is
    made here on the blocks as they are now, so that no concurrent edit is lost (I8). Messages that came with the reply
    to an approval follow the returns.
    """
    conversations.hold(tx, turn.conversation.id, turn.fence)
    parts: list[ToolReturnPart] = []
    for call in asked.tool_calls:
        result = results[call.id] if call.id in results else run_memory_call(tx, homes, turn, call, now)
        parts.append(
            ToolReturnPart(
                tool_call_id=call.id,
                name=call.name,
                content=result.content,
                status=result.status,
                refused=result.refused,
                stdout=result.stdout,
                stderr=result.stderr,
            )
        )
    message = Message(
        id=new_id("message"),
        agent_id=asked.agent_id,
        conversation_id=asked.conversation_id,
        role="tool",
        parts=tuple(parts),
        name=parts[0].name if len(parts) == 1 else None,
        run_id=turn.run.id,
        step_id=step.id,
        model=asked.model,
        created_at=now,
    )
    stored = _close(tx, turn, message, now)
    steps.update(tx, step)
    if end:
        store_end(tx, turn, end, now)
    else:
        runs.update(tx, structs.replace(turn.run, usage=turn.usage, step_count=turn.steps))
    return [stored, *turn.following]


def store_nudge(
    tx: Transaction, turn: Turn, step: Step, record: RecordedRequest, answer: Message, nudge: Message, now: datetime
) -> list[Message]:
    """Store an answer that may not end the turn yet, with the message that tells the model so."""
    stored = _append(tx, turn, [answer, nudge], now)
    _insert_step(tx, step, record)
    runs.update(tx, structs.replace(turn.run, usage=turn.usage, step_count=turn.steps))
    return stored


def store_end(tx: Transaction, turn: Turn, end: End, now: datetime) -> None:
    """Give the run its end and free the conversation. Part of a transaction that has checked the fence."""
    turn.run = structs.replace(
        turn.run,
        status=status_for(end.reason),
        stop_reason=end.reason,
        error=end.error,
        completed_at=now,
        usage=turn.usage,
        step_count=turn.steps,
    )
    runs.update(tx, turn.run)
    elapsed = int((now - turn.run.created_at).total_seconds() * 1000)
    agents.set_last_run(tx, turn.run.agent_id, end.reason, now, elapsed)
    conversations.release_lease(tx, turn.conversation.id, turn.fence)


def store_broken_end(
    tx: Transaction, turn: Turn, end: End, partial: Message | None, reason: str, now: datetime
) -> list[Message]:
    """End a run in the middle of a step: keep the text that was shown, and close its calls with ``reason``."""
    conversations.hold(tx, turn.conversation.id, turn.fence)
    added: list[Message] = []
    if partial:
        added += _append(tx, turn, [partial], now)
    if turn.asked:
        closing = closing_message(turn.asked, turn.asked.tool_calls, reason, run_id=turn.run.id, now=now)
        added.append(_close(tx, turn, closing, now))
    for step in steps.of_run(tx, turn.run.id):
        if step.status == "pending":
            status = "cancelled" if end.reason == "cancelled" else "failed"
            steps.update(
                tx,
                structs.replace(step, status=status, stop_reason=end.reason, error=end.error, completed_at=now),
            )
    store_end(tx, turn, end, now)
    return added
