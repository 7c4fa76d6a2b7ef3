"""Keeping a turn's window within its model's: compaction before a request, and after one that was too long."""

from typing import Final

from eunoe.models.protocol import ModelRequest
from eunoe.prompt.skills import with_skills
from eunoe.runtime.compact import Occasion, Trigger, compact, is_due
from eunoe.runtime.compaction_settings import read_compaction_settings
from eunoe.runtime.payload_view import fitted
from eunoe.runtime.ports import Ports
from eunoe.runtime.requests import turn_request
from eunoe.runtime.turn import Turn
from eunoe.state.errors import ModelError
from eunoe.state.events import MessageStored

MOST_RETRIES: Final = 3
"""How often in a row a request that was too long is made shorter and sent again."""


async def make_room(turn: Turn, ports: Ports) -> ModelRequest:
    """Return the next request as the model is shown it, see ``fitted``.

    The window is compacted first if it would leave too little of that for an answer.
    """
    request = request_with_room(turn)
    if request is None:
        await _compact(turn, "post_step_context_check", ports)
        return fitted(turn_request(turn))
    return request


def request_with_room(turn: Turn) -> ModelRequest | None:
    """Return the next request as the model is shown it, or ``None`` if that leaves too little room for an answer."""
    request = fitted(turn_request(turn))
    return None if is_due(request, turn.context_tokens) else request


async def make_room_after(turn: Turn, error: ModelError, ports: Ports) -> bool:
    """Compact after a request that the provider found too long, and say whether it is worth another try."""
    if error.kind != "context_overflow" or error.started or turn.overflows >= MOST_RETRIES:
        return False
    turn.overflows += 1
    return await _compact(turn, "context_window_exceeded", ports)


async def _compact(turn: Turn, trigger: Trigger, ports: Ports) -> bool:
    """Compact and go on with the window as it is then; say whether anything went out of view."""
    occasion = Occasion(
        request=turn_request(turn),
        conversation=turn.conversation,
        trigger=trigger,
        settings=read_compaction_settings(turn.state.agent.compaction_settings),
        context_tokens=turn.context_tokens,
        fence=turn.fence,
        run_id=turn.run.id,
    )
    done = await compact(ports.database, ports.models, occasion, ports.now)
    if done is None:
        return False
    turn.conversation = done.conversation
    turn.messages = list(done.window)
    turn.context_tokens = None
    turn.usage = turn.usage.plus(done.usage)
    if turn.request.override_system is None:
        turn.system = with_skills(done.system, turn.skills)
    ports.emit(MessageStored(message=done.summary))
    return True
