"""What the provider last counted for a window: it outlives the run and the process that asked."""

from collections.abc import Sequence

from eunoe.state.messages import Message
from eunoe.store import steps
from eunoe.store.database import Transaction


def last_context_tokens(tx: Transaction, window: Sequence[Message]) -> int | None:
    """Return the tokens of the request that gave the window's last assistant message, together with that answer.

    ``None`` when nobody counted: there is no such message, its answer was cut off, its run was deleted, the provider
    reported nothing, or the window was compacted since.
    """
    last = next((message for message in reversed(window) if message.role == "assistant"), None)
    if last is None or last.step_id is None or (window[0].role == "summary" and window[0].seq > last.seq):
        return None
    usage = steps.usage(tx, last.step_id)
    # A run, and its steps with it, may be deleted while its messages stay.
    return usage.total_tokens or None if usage is not None else None
