"""Sending messages to an agent: wait for the answer, watch it come, or fetch it later."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from starlette.responses import Response

from eunoe.runtime.handles import RunHandle
from eunoe.runtime.preview import preview
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.runtime.turn import TurnRequest
from eunoe.server.event_stream import EventStream
from eunoe.server.routing import Call, Limits, Route, failure_response, json_response, route
from eunoe.server.wire import runs as wire
from eunoe.server.wire.errors import Unprocessable, run_failure
from eunoe.server.wire.messages import View
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import AsyncBody, SendBody, StreamBody
from eunoe.server.wire.stream import Narrator, answer
from eunoe.server.wire.turns import showing_of, turn_request, view_for
from eunoe.state.agents import AgentType
from eunoe.state.events import Event, MessageStored, RunEnded
from eunoe.state.runs import Run
from eunoe.store import agents, runs
from eunoe.store.database import Transaction


class _Told(Struct, frozen=True, kw_only=True):
    """A run, and the type of its agent: what its narrator must know."""

    run: Run
    agent_type: AgentType


def _told(tx: Transaction, run_id: str) -> _Told:
    run = runs.get(tx, run_id)
    return _Told(run=run, agent_type=agents.get(tx, run.agent_id).agent_type)


def narrator_of(run: Run, agent_type: AgentType, *, after: int = 0) -> Narrator:
    """Return who tells a run as its caller wanted it told; what a background run tells is numbered."""
    showing = showing_of(run)
    view = view_for(agent_type, showing)
    return Narrator(run.id, view, tokens=showing.stream_tokens, numbered=run.background, after=after)


async def send_turn(runtime: Runtime, limits: Limits, request: TurnRequest, body: SendBody) -> Response:
    """Start a turn and answer as its body wants: when it is over, or while it goes on."""
    handle = await runtime.start(request)
    if handle.run is not None and handle.agent_type is not None:
        told = _Told(run=handle.run, agent_type=handle.agent_type)
    else:
        told = await runtime.db.read(lambda tx: _told(tx, handle.run_id))
    if body.streaming:
        return EventStream(
            handle,
            narrator_of(told.run, told.agent_type),
            pings=body.include_pings,
            ping_seconds=limits.ping_seconds,
            at_once=body.background,
        )
    view = view_for(told.agent_type, body)
    return await _whole(handle, view)


async def _whole(handle: RunHandle, view: View) -> Response:
    prepared: list[tuple[RunEnded, Response]] = []

    def prepare(events: Sequence[Event], ended: RunEnded) -> None:
        prepared.append((ended, _answer(handle.run_id, view, events, ended)))

    handle.prepare = prepare
    ended = await handle.wait()  # once, so that no piece of the answer wakes anybody
    for foreseen, response in prepared:
        if foreseen is ended:
            return response
    return _answer(handle.run_id, view, handle.told(), ended)


def _answer(run_id: str, view: View, events: Sequence[Event], ended: RunEnded) -> Response:
    if ended.error is not None:
        return failure_response(run_failure(ended.error))
    narrator, now = Narrator(run_id, view, tokens=False), utc_now()
    # Most events are the pieces that messages came in.
    told = [body for event in events if isinstance(event, MessageStored) for body in narrator.tell(event, now)]
    return json_response(answer(told, ended))


async def send(call: Call[NoQuery, SendBody] | Call[NoQuery, StreamBody]) -> Response:
    """Send messages to an agent; answer when its turn is over, or tell it while it goes on."""
    return await send_turn(call.runtime, call.limits, turn_request(call.path["agent_id"], call.body), call.body)


async def send_async(call: Call[NoQuery, AsyncBody]) -> object:
    """Send messages to an agent and answer with the run, which goes on in the background."""
    body = call.body
    if body.callback_url is not None:
        raise Unprocessable("callback_url: this server calls nobody back; ask for the run until it has ended")
    body.streaming = body.background = True
    handle = await call.runtime.start(turn_request(call.path["agent_id"], body))
    return wire.run(await call.runtime.db.read(lambda tx: runs.get(tx, handle.run_id)))


async def preview_payload(call: Call[NoQuery, SendBody]) -> object:
    """Return the request that these messages would send to the model; nothing is stored or sent."""
    return await previewed(call.runtime, turn_request(call.path["agent_id"], call.body))


async def previewed(runtime: Runtime, request: TurnRequest) -> msgspec.Raw:
    """Return the body of the request that a turn would begin with."""
    return msgspec.Raw((await preview(runtime, request)).body)


_OF_AGENT: Final = "/v1/agents/{agent_id}/messages"

ROUTES: Final[tuple[Route, ...]] = (
    route(
        "POST",
        _OF_AGENT,
        "Send messages",
        send,
        query=NoQuery,
        body=SendBody,
        answer="Messages, stop reason and usage; with streaming=true server-sent events.",
        starts_turn=True,
    ),
    route(
        "POST",
        f"{_OF_AGENT}/stream",
        "Send messages and stream the answer",
        send,
        query=NoQuery,
        body=StreamBody,
        answer="Server-sent events: messages, stop_reason, usage_statistics, [DONE].",
        starts_turn=True,
    ),
    route(
        "POST",
        f"{_OF_AGENT}/async",
        "Send messages and fetch the answer later",
        send_async,
        query=NoQuery,
        body=AsyncBody,
        answer="The run.",
        starts_turn=True,
    ),
    route(
        "POST",
        f"{_OF_AGENT}/preview-raw-payload",
        "Show the request that messages would send to the model",
        preview_payload,
        query=NoQuery,
        body=SendBody,
        answer="The body of the request, in the provider's form.",
    ),
)
