"""A step before it is asked: its request, the payload of that, and how both are recorded (pure)."""

from datetime import datetime

from msgspec import Struct

from eunoe.models.protocol import ModelRequest, Models, Payload
from eunoe.runtime.making_room import request_with_room
from eunoe.runtime.overflow import fixed_overflow
from eunoe.runtime.requests import RecordedRequest, current_offer, record_request
from eunoe.runtime.turn import Turn
from eunoe.state.ids import new_id
from eunoe.state.runs import Step


class Draft(Struct, kw_only=True):
    """The step in hand, and what is asked in it. ``gated`` are the calls shown so far that will wait for an answer."""

    step: Step
    message_id: str
    request: ModelRequest
    payload: Payload
    record: RecordedRequest
    gated: set[str] = set()


def draft_step(turn: Turn, request: ModelRequest, models: Models, now: datetime) -> Draft:
    """Build the payload of the next request, which is fitted to the model's window, and the step that records it."""
    payload = models.payload(request)
    record = record_request(turn, request, payload)
    step = Step(
        id=new_id("step"),
        run_id=turn.run.id,
        agent_id=turn.run.agent_id,
        conversation_id=turn.conversation.id,
        ordinal=turn.steps,
        created_at=now,
        provider=turn.model.provider,
        model=turn.model.handle,
        endpoint=turn.model.base_url,
        context_window=turn.model.context_window,
        request=record.request,
    )
    return Draft(step=step, message_id=new_id("message"), request=request, payload=payload, record=record)


def draft_ahead(turn: Turn, models: Models, now: datetime) -> Draft | None:
    """Draft the first step of a turn, if that is a request and nothing has to be done before it.

    ``None`` for a turn that goes on from an approval, that may call nothing, or whose window leaves too little room.
    """
    if turn.asked or current_offer(turn).reason or fixed_overflow(turn):
        return None
    request = request_with_room(turn)
    return draft_step(turn, request, models, now) if request else None
