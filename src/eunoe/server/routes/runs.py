"""Runs and steps: what was asked, what it took, and how it ended."""

from functools import partial
from typing import Final

from eunoe.runtime.replay import step_request
from eunoe.server.routes.messages import shown_to_caller
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire import runs as wire
from eunoe.server.wire.messages import roles_of
from eunoe.server.wire.queries import NoQuery, PageQuery, RunMessagesQuery, RunsQuery, StepsQuery
from eunoe.server.wire.requests import Nothing
from eunoe.state.errors import Conflict
from eunoe.state.runs import UNFINISHED
from eunoe.store import approvals, messages, runs, steps
from eunoe.store.database import Transaction
from eunoe.store.messages import MessageQuery
from eunoe.store.runs import RunQuery
from eunoe.store.steps import StepQuery


async def list_runs(call: Call[RunsQuery, Nothing]) -> object:
    """Return a page of runs."""
    asked = call.query
    order = asked.order if asked.ascending is None else "asc" if asked.ascending else "desc"
    query = RunQuery(
        before=asked.before,
        after=asked.after,
        limit=asked.limit,
        order=order,
        agent_id=asked.agent_id,
        agent_ids=None if asked.agent_ids is None else tuple(asked.agent_ids),
        statuses=None if asked.statuses is None else tuple(asked.statuses),
        background=asked.background,
        stop_reason=asked.stop_reason,
        conversation_id=asked.conversation_id,
        active=asked.active,
    )
    return [wire.run(run) for run in await call.runtime.db.read(partial(runs.page, query=query))]


async def list_active(call: Call[RunsQuery, Nothing]) -> object:
    """Return the runs that have not ended."""
    call.query.active = True
    return await list_runs(call)


async def retrieve_run(call: Call[NoQuery, Nothing]) -> object:
    """Return one run."""
    return wire.run(await call.runtime.db.read(lambda tx: runs.get(tx, call.path["run_id"])))


async def delete_run(call: Call[NoQuery, Nothing]) -> object:
    """Delete a run that is over, with its steps and events; its messages stay."""

    def delete(tx: Transaction) -> object:
        run = runs.get(tx, call.path["run_id"])
        if run.status in UNFINISHED:
            raise Conflict(f"Run {run.id} goes on. Cancel it, then delete it.", run_id=run.id)
        waiting = approvals.open_of(tx, run.conversation_id)
        if waiting is not None and waiting.run_id == run.id:
            raise Conflict(
                f"Run {run.id} waits for an answer about tool calls. Answer or cancel it, then delete the run.",
                run_id=run.id,
                pending_request_id=waiting.message_id,
            )
        runs.delete(tx, run.id)
        return wire.run(run)

    return await call.runtime.db.write(delete)


async def run_messages(call: Call[RunMessagesQuery, Nothing]) -> object:
    """Return a page of a run's messages, oldest first by default."""
    query = call.query

    def read(tx: Transaction) -> object:
        run = runs.get(tx, call.path["run_id"])
        wanted = MessageQuery(
            agent_id=run.agent_id,
            run_id=run.id,
            before=query.before,
            after=query.after,
            limit=query.limit,
            order=query.order,
            roles=roles_of(query.include_return_message_types),
        )
        found = messages.page(tx, wanted)
        return shown_to_caller(tx, found, query, newest_first=query.order == "desc")

    return await call.runtime.db.read(read)


async def run_usage(call: Call[NoQuery, Nothing]) -> object:
    """Return the tokens of a run."""
    run = await call.runtime.db.read(lambda tx: runs.get(tx, call.path["run_id"]))
    return wire.usage_of_run(run.usage)


async def run_steps(call: Call[PageQuery, Nothing]) -> object:
    """Return a page of a run's steps."""
    asked = call.query

    def read(tx: Transaction) -> object:
        run = runs.get(tx, call.path["run_id"])
        query = StepQuery(run_id=run.id, before=asked.before, after=asked.after, limit=asked.limit, order=asked.order)
        return [wire.step(step) for step in steps.page(tx, query)]

    return await call.runtime.db.read(read)


async def list_steps(call: Call[StepsQuery, Nothing]) -> object:
    """Return a page of steps."""
    asked = call.query
    query = StepQuery(
        before=asked.before,
        after=asked.after,
        limit=asked.limit,
        order=asked.order,
        agent_id=asked.agent_id,
        model=asked.model,
        start=asked.start_date,
        end=asked.end_date,
    )
    return [wire.step(step) for step in await call.runtime.db.read(partial(steps.page, query=query))]


async def retrieve_step(call: Call[NoQuery, Nothing]) -> object:
    """Return one step."""
    return wire.step(await call.runtime.db.read(lambda tx: steps.get(tx, call.path["step_id"])))


async def retrieve_request(call: Call[NoQuery, Nothing]) -> object:
    """Return the exact request that a step sent to its model."""
    return await step_request(call.runtime, call.path["step_id"])


_RUN: Final = "/v1/runs/{run_id}"
_STEP: Final = "/v1/steps/{step_id}"

ROUTES: Final[tuple[Route, ...]] = (
    route("GET", "/v1/runs", "List runs", list_runs, query=RunsQuery, body=Nothing, answer="Runs."),
    route(
        "GET",
        "/v1/runs/active",
        "List runs that go on (deprecated)",
        list_active,
        query=RunsQuery,
        body=Nothing,
        answer="Runs.",
    ),
    route("GET", _RUN, "Read a run", retrieve_run, query=NoQuery, body=Nothing, answer="The run."),
    route("DELETE", _RUN, "Delete a run", delete_run, query=NoQuery, body=Nothing, answer="The run that was."),
    route(
        "GET",
        f"{_RUN}/messages",
        "List a run's messages",
        run_messages,
        query=RunMessagesQuery,
        body=Nothing,
        answer="Messages, oldest first by default.",
    ),
    route("GET", f"{_RUN}/usage", "Read a run's tokens", run_usage, query=NoQuery, body=Nothing, answer="Totals."),
    route("GET", f"{_RUN}/steps", "List a run's steps", run_steps, query=PageQuery, body=Nothing, answer="Steps."),
    route("GET", "/v1/steps", "List steps", list_steps, query=StepsQuery, body=Nothing, answer="Steps."),
    route("GET", _STEP, "Read a step", retrieve_step, query=NoQuery, body=Nothing, answer="The step."),
    route(
        "GET",
        f"{_STEP}/request",
        "Show the exact request that a step sent to its model (Eunoe)",
        retrieve_request,
        query=NoQuery,
        body=Nothing,
        answer="The address, the body, and whether it has the hash of what was sent.",
    ),
)
