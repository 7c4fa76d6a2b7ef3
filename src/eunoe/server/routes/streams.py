"""Streams that are taken up again: a run is told from where its client was cut off, while it goes on or afterwards."""

from typing import Final

from starlette.responses import Response

from eunoe.runtime.watching import watch
from eunoe.server.event_stream import EventStream
from eunoe.server.routes.named import named_conversation
from eunoe.server.routes.sending import narrator_of
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.conversations import ResumeBody
from eunoe.server.wire.errors import Expired
from eunoe.server.wire.queries import NoQuery
from eunoe.state.agents import Agent
from eunoe.state.conversations import Conversation
from eunoe.state.errors import InvalidInput, NotFound
from eunoe.state.runs import UNFINISHED, Run
from eunoe.store import agents, messages, run_events, runs
from eunoe.store.database import Transaction
from eunoe.store.runs import RunQuery


async def resume_run(call: Call[NoQuery, ResumeBody]) -> Response:
    """Tell a run from after a number on. It is told as the one who asked for it wanted it told."""
    return await _resume(call, call.path["run_id"])


async def resume_conversation(call: Call[NoQuery, ResumeBody]) -> Response:
    """Tell a run of a conversation: the one that is named, or that an otid began, or that goes on."""
    name, body = call.path["conversation_id"], call.body

    def read(tx: Transaction) -> str:
        return _run_meant(tx, named_conversation(tx, name, body.agent_id), body)

    return await _resume(call, await call.runtime.db.read(read))


def _run_meant(tx: Transaction, conversation: Conversation, body: ResumeBody) -> str:
    """Return the id of the run. Raises ``NotFound``, and ``InvalidInput`` when none is named and none goes on."""
    if body.run_id is not None:
        if runs.get(tx, body.run_id).conversation_id != conversation.id:
            raise NotFound("Run", body.run_id, f"Conversation {conversation.id} has no run {body.run_id}")
        return body.run_id
    if body.otid is not None:
        begun = messages.run_of_otids(tx, conversation.id, [body.otid])
        if begun is None:
            message = f"No run of conversation {conversation.id} began with a message of otid {body.otid!r}"
            raise NotFound("Run", body.otid, message)
        return begun
    going_on = runs.page(tx, RunQuery(conversation_id=conversation.id, active=True, limit=1))
    if not going_on:
        raise InvalidInput("No active runs found for this conversation.")
    return going_on[0].id


async def _resume(call: Call[NoQuery, ResumeBody], run_id: str) -> Response:
    after = call.body.starting_after
    live = call.runtime.handle(run_id)

    def read(tx: Transaction) -> tuple[Run, Agent]:
        run = runs.get(tx, run_id)
        if not run.background and after > 0:
            raise _unnumbered(run)
        # A run that goes on here may have stored its end before its events; nothing of it has expired.
        if run.background and live is None and run.status not in UNFINISHED and run_events.last_seq(tx, run_id) == 0:
            raise _expired(run)
        return run, agents.get(tx, run.agent_id)

    run, agent = await call.runtime.db.read(read)
    return EventStream(
        live or await watch(call.runtime, run.id),
        narrator_of(run, agent.agent_type, after=after),
        pings=call.body.include_pings is not False,
        ping_seconds=call.limits.ping_seconds,
        at_once=True,
    )


def _unnumbered(run: Run) -> InvalidInput:
    return InvalidInput(
        f"Run {run.id} was not started with background=true, so what it told has no numbers to go on from. Leave out "
        "starting_after to be told all of it."
    )


def _expired(run: Run) -> Expired:
    return Expired(
        f"The events of run {run.id} are not kept any more. Its messages are at /v1/runs/{run.id}/messages.",
        run_id=run.id,
    )


_TOLD: Final = "Server-sent events, numbered by seq_id where the run was started with background=true."

ROUTES: Final[tuple[Route, ...]] = (
    route(
        "POST",
        "/v1/runs/{run_id}/stream",
        "Stream a run from where a client was cut off",
        resume_run,
        query=NoQuery,
        body=ResumeBody,
        answer=_TOLD,
    ),
    route(
        "POST",
        "/v1/conversations/{conversation_id}/stream",
        "Stream a conversation's run from where a client was cut off",
        resume_conversation,
        query=NoQuery,
        body=ResumeBody,
        answer=_TOLD,
    ),
)
