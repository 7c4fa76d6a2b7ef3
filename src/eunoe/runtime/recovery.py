"""What a crash left behind: leases of dead runs, calls without returns, runs without an end (I1, I3, I4)."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from msgspec import structs

from eunoe.runtime.approvals import EXPIRED, denials, settled_results
from eunoe.runtime.window import INTERRUPTED, MISSING, asking_message, closing_message, strays, unanswered
from eunoe.state.approvals import Answer, Approval
from eunoe.state.conversations import Conversation
from eunoe.state.errors import ConversationBusy, EunoeError, NotFound, StoreError
from eunoe.state.events import Event, MessageStored, RunEnded, RunStarted
from eunoe.state.messages import Message
from eunoe.state.runs import UNFINISHED, Run, RunError
from eunoe.store import approvals, conversations, messages, run_events, runs, steps
from eunoe.store.database import Transaction
from eunoe.store.messages import MessageQuery

_log: Final = logging.getLogger(__name__)

PROCESS_STOPPED: Final = RunError(
    type="interrupted", message="The process that carried this run stopped before the run ended."
)


def end_interrupted_run(tx: Transaction, run: Run, now: datetime) -> None:
    """Give a run whose process died its end, and its open steps theirs."""
    for step in steps.of_run(tx, run.id):
        if step.status == "pending":
            steps.update(
                tx,
                structs.replace(step, status="failed", stop_reason="error", error=PROCESS_STOPPED, completed_at=now),
            )
    ended = structs.replace(run, status="failed", stop_reason="error", error=PROCESS_STOPPED, completed_at=now)
    runs.update(tx, ended)
    if run.background:
        try:
            told = run_events.of_run(tx, run.id)
        except StoreError as error:
            # What cannot be told any more must not keep the run from its end, nor the conversation from its next one.
            _log.warning("run %s has ended, and its stream is lost: %s", run.id, error)
        else:
            run_events.append(tx, run.id, len(told) + 1, untold(tx, ended, told), now)


def untold(tx: Transaction, run: Run, told: Sequence[Event]) -> list[Event]:
    """Return what the watchers of an ended run lack when its events stop short: its messages, and its end.

    A process can stop after it has stored what happened and before it has stored the events that tell of it.
    """
    known = {event.message.id for event in told if isinstance(event, MessageStored)}
    query = MessageQuery(run_id=run.id, roles=("assistant", "tool", "summary"), order="asc", limit=None)
    lacking: list[Event] = [
        MessageStored(message=message) for message in messages.page(tx, query) if message.id not in known
    ]
    if not told:
        lacking.insert(0, RunStarted(run_id=run.id, agent_id=run.agent_id, conversation_id=run.conversation_id))
    return [*lacking, stored_end(run)]


def stored_end(run: Run) -> RunEnded:
    """Return the terminal event of a run as its row tells it."""
    return RunEnded(
        run_id=run.id,
        stop_reason=run.stop_reason or "error",
        usage=run.usage,
        step_count=run.step_count,
        error=run.error,
    )


def close_broken_calls(tx: Transaction, conversation: Conversation, *, run_id: str | None, now: datetime) -> int:
    """Give each unanswered call of the window its recorded error return, and return how many calls that were.

    A call at the end of the window was cut off by a crash, and so was one that was approved (messages may have come
    with the answer); any other came with a broken history. Calls that wait for an answer are not broken. Returns whose
    calls are lost get a message that asks.
    """
    window = _asked_window(tx, conversation, now)
    return _close_in(tx, conversation, window, run_id, now)


def healed_window(
    tx: Transaction, conversation: Conversation, *, run_id: str | None, now: datetime
) -> tuple[Message, ...]:
    """Close the unanswered calls as ``close_broken_calls`` does, and return the window as it is then."""
    window = _asked_window(tx, conversation, now)
    closed = _close_in(tx, conversation, window, run_id, now)
    return conversations.window(tx, conversations.get(tx, conversation.id)) if closed else window


def _asked_window(tx: Transaction, conversation: Conversation, now: datetime) -> tuple[Message, ...]:
    window = conversations.window(tx, conversation)
    if not ask_again(tx, conversation, window, now):
        return window
    return conversations.window(tx, conversations.get(tx, conversation.id))


def ask_again(tx: Transaction, conversation: Conversation, window: Sequence[Message], now: datetime) -> int:
    """Put a message that asks before each tool message whose own is lost, and return how many that were."""
    lost = strays(window)
    for stray in lost:
        asking = asking_message(stray, conversation.id, now)
        # Right before it; positions are wide apart.
        put = messages.insert_after(tx, conversation.id, asking, stray.position - 2)
        if put.position < conversation.window_from:
            moved = structs.replace(conversations.get(tx, conversation.id), window_from=put.position)
            conversation = conversations.update(tx, moved, now=now)
    return len(lost)


def _close_in(
    tx: Transaction, conversation: Conversation, window: Sequence[Message], run_id: str | None, now: datetime
) -> int:
    broken_off = unanswered(window)
    if not broken_off:
        return 0
    end = next((message.id for message in reversed(window) if message.role != "approval"), None)
    answered = {message.meta.get("approval_request_id") for message in window if message.role == "approval"}
    waiting = approvals.open_of(tx, conversation.id)
    closed = 0
    for broken in broken_off:
        if waiting and waiting.message_id == broken.message.id:
            continue
        last = broken.after.id == end
        cut_off = last or broken.message.id in answered
        reason = INTERRUPTED if cut_off else MISSING
        closing = closing_message(broken.message, broken.calls, reason, run_id=run_id, now=now)
        # In a fork, the message that asked was written in another conversation; what closes its calls is this one's.
        closing = structs.replace(closing, conversation_id=conversation.id)
        if last:
            messages.append(tx, conversation.id, [closing], now)
        else:
            messages.insert_after(tx, conversation.id, closing, broken.after.position)
        closed += len(broken.calls)
    return closed


def close_approval(
    tx: Transaction,
    approval: Approval,
    answers: Sequence[Answer] = (),
    *,
    by: str,
    run_id: str | None,
    reason: str = EXPIRED,
    now: datetime,
) -> None:
    """Close a question without asking further: its message's calls get error returns, and the record says by whom.

    Without ``answers`` every call is closed with ``reason``; calls that waited only for the others are closed too.
    """
    given = tuple(answers) or denials(approval, reason)
    asked = messages.get(tx, approval.message_id, conversation_id=approval.conversation_id)
    settled = settled_results(given) if answers else {}
    closing = closing_message(asked, asked.tool_calls, reason, run_id=run_id, now=now)
    parts = tuple(
        structs.replace(part, content=settled[part.tool_call_id].content) if part.tool_call_id in settled else part
        for part in closing.tool_returns
    )
    messages.append(tx, approval.conversation_id, [structs.replace(closing, parts=parts)], now)
    approvals.answer(tx, approval, given, by=by, run_id=run_id, now=now)


def settle_lease(
    tx: Transaction, conversation: Conversation, *, is_running: Callable[[Conversation], bool], now: datetime
) -> None:
    """Pass when the conversation is free; free it from a dead run; raise ``ConversationBusy`` for a living one."""
    holder = conversation.lease_run_id
    if holder is None:
        return
    if is_running(conversation):
        raise ConversationBusy(conversation.id, holder)
    release_dead_lease(tx, conversation, now)


def release_dead_lease(tx: Transaction, conversation: Conversation, now: datetime) -> None:
    """Close the calls of the run that held the lease, and end it. The caller has made sure that the run is dead."""
    close_broken_calls(tx, conversation, run_id=conversation.lease_run_id, now=now)
    if conversation.lease_run_id is not None:
        try:
            run = runs.get(tx, conversation.lease_run_id)
        except NotFound:
            run = None  # a run may be deleted by the API while its lease is still written down
        if run is not None and run.status in UNFINISHED:
            end_interrupted_run(tx, run, now)
    conversations.release_lease(tx, conversation.id, conversation.fence)


def sweep(tx: Transaction, *, is_running: Callable[[Conversation], bool], now: datetime) -> int:
    """End every unfinished run whose process is dead, and return how many there were. Runs at each opening."""

    def end(run: Run) -> bool:
        conversation = conversations.get(tx, run.conversation_id)
        if conversation.lease_run_id != run.id:
            end_interrupted_run(tx, run, now)
            return True
        if is_running(conversation):
            return False
        release_dead_lease(tx, conversation, now)
        return True

    return sum(_unless_damaged(tx, f"run {run.id}", partial(end, run)) for run in runs.unfinished(tx))


def close_expired(tx: Transaction, *, is_running: Callable[[Conversation], bool], now: datetime) -> int:
    """Close every question whose time is over, and return how many there were."""

    def close(approval: Approval) -> bool:
        conversation = conversations.get(tx, approval.conversation_id)
        if conversation.lease_run_id is not None and is_running(conversation):
            return False
        close_approval(tx, approval, by="timeout", run_id=None, now=now)
        return True

    return sum(_unless_damaged(tx, f"approval {one.id}", partial(close, one)) for one in approvals.expired(tx, now))


def _unless_damaged(tx: Transaction, what: str, settle: Callable[[], bool]) -> bool:
    """Settle one thing; when what is stored of it is damaged, leave it to a repair, and go on with the others."""
    tx.execute("SAVEPOINT settling")
    try:
        settled = settle()
    except EunoeError as error:
        tx.execute("ROLLBACK TO settling")
        _log.warning("%s is left as it is: %s", what, error)
        settled = False
    tx.execute("RELEASE settling")
    return settled
