"""Replay: the exact request of a past step, built again from its content-addressed parts."""

import hashlib

import msgspec
from msgspec import Struct

from eunoe.runtime.payload_view import fitted
from eunoe.runtime.requests import rebuild_request
from eunoe.runtime.runtime import Runtime
from eunoe.state.errors import NotFound
from eunoe.state.messages import Message
from eunoe.state.runs import Step, StepRequest
from eunoe.store import messages, steps, texts
from eunoe.store.database import Transaction


class ReplayedRequest(Struct, frozen=True, kw_only=True):
    """What a model was sent. ``verified`` says that the body has the hash of the bytes that were sent then."""

    step_id: str
    model: str | None
    dialect: str
    url: str
    body: msgspec.Raw
    payload_hash: str
    verified: bool
    note: str | None = None


def _messages_then(tx: Transaction, step: Step, request: StepRequest) -> list[Message]:
    tail = messages.span(tx, step.conversation_id, request.from_position, request.to_position, request.to_seq)
    if request.summary_message_id is None:
        return tail
    try:
        return [messages.get(tx, request.summary_message_id), *tail]
    except NotFound:
        return tail  # deleted by a reset, as other messages may be: the hash of the body tells


async def step_request(runtime: Runtime, step_id: str) -> ReplayedRequest:
    """Return the request of a step as it was sent.

    Raises ``NotFound`` when there is no such step, or when it made no request. If messages were deleted since then
    (a reset), the body lacks them; ``verified`` is false and ``note`` says so.
    """

    def read(tx: Transaction) -> ReplayedRequest:
        step = steps.get(tx, step_id)
        request = step.request
        if request is None:
            raise NotFound("Request", step_id, f"Step {step_id} made no request to a model")
        rebuilt = rebuild_request(
            texts.get(tx, request.system_hash),
            texts.get(tx, request.tools_hash),
            texts.get(tx, request.options_hash),
            _messages_then(tx, step, request),
        )
        body = runtime.models.payload(fitted(rebuilt)).body
        verified = hashlib.sha256(body).hexdigest() == request.payload_hash
        return ReplayedRequest(
            step_id=step_id,
            model=step.model,
            dialect=request.dialect,
            url=request.url,
            body=msgspec.Raw(body),
            payload_hash=request.payload_hash,
            verified=verified,
            note=None
            if verified
            else "These bytes differ from what was sent: messages were deleted since, or this version builds requests "
            "differently.",
        )

    return await runtime.db.read(read)
