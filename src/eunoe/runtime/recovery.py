"""What a crash left behind: leases of dead runs, calls without returns, runs without an end (I1, I3, I4)."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from msgspec import structs

from eunoe.runtime.window import INTERRUPTED, MISSING, closing_message, unanswered
from eunoe.state.conversations import Conversation
from eunoe.state.errors import ConversationBusy, NotFound
from eunoe.state.runs import Run, RunError
from eunoe.store import conversations, messages, runs, steps
from eunoe.store.database import Transaction

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
    runs.update(
        tx,
        structs.replace(run, status="failed", stop_reason="error", error=PROCESS_STOPPED, completed_at=now),
    )


def close_broken_calls(tx: Transaction, conversation: Conversation, *, run_id: str | None, now: datetime) -> int:
    """Give each unanswered call of the window its recorded error return, and return how many calls that were.

    A call at the end of the window was cut off by a crash; one further up came with a broken history.
    """
    window = conversations.window(tx, conversation)
    closed = 0
    for broken in unanswered(window):
        last = broken.after.id == window[-1].id
        closing = closing_message(
            broken.message, broken.calls, INTERRUPTED if last else MISSING, run_id=run_id, now=now
        )
        if last:
            messages.append(tx, conversation.id, [closing], now)
        else:
            messages.insert_after(tx, conversation.id, closing, broken.after.position)
        closed += len(broken.calls)
    return closed


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
    """End the run that held the lease and close its calls. The caller has made sure that the run is dead."""
    if conversation.lease_run_id is not None:
        try:
            run = runs.get(tx, conversation.lease_run_id)
        except NotFound:
            run = None  # a run may be deleted by the API while its lease is still written down
        if run is not None and run.status in {"created", "running"}:
            end_interrupted_run(tx, run, now)
    close_broken_calls(tx, conversation, run_id=conversation.lease_run_id, now=now)
    conversations.release_lease(tx, conversation.id, conversation.fence)


def sweep(tx: Transaction, *, is_running: Callable[[Conversation], bool], now: datetime) -> int:
    """End every unfinished run whose process is dead, and return how many there were. Runs at each opening."""
    ended = 0
    for run in runs.unfinished(tx):
        conversation = conversations.get(tx, run.conversation_id)
        if conversation.lease_run_id == run.id:
            if is_running(conversation):
                continue
            release_dead_lease(tx, conversation, now)
        else:
            end_interrupted_run(tx, run, now)
        ended += 1
    return ended
