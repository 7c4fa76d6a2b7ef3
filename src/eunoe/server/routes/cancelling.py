"""Cancelling: runs that go on, and questions that nobody will answer."""

from typing import Final

from eunoe.runtime.runtime import Runtime
from eunoe.runtime.withdrawing import withdraw_questions
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import CancelBody
from eunoe.state.errors import Conflict, NotFound
from eunoe.store import agents, runs
from eunoe.store.database import Transaction
from eunoe.store.runs import RunQuery

RUNS: Final = "For each run id: cancelled or failed."


async def cancel_runs(
    runtime: Runtime, agent_id: str, *, conversation_id: str | None = None, run_ids: list[str] | None = None
) -> dict[str, str]:
    """Cancel an agent's runs, those named or all that go on, and close the questions that they asked.

    Returns for each run whether it was ``cancelled``; ``failed`` is one that was over and asked nothing. Raises
    ``NotFound``, and ``Conflict`` when nothing goes on and nothing waits.
    """

    def read(tx: Transaction) -> list[str]:
        agent = agents.get(tx, agent_id)
        if run_ids is None:
            query = RunQuery(agent_id=agent.id, conversation_id=conversation_id, active=True, limit=None)
            return [run.id for run in runs.page(tx, query)]
        for run_id in run_ids:
            if runs.get(tx, run_id).agent_id != agent.id:
                raise NotFound("Run", run_id)
        return run_ids

    found = await runtime.db.read(read)
    outcome = {run_id: "cancelled" if await runtime.cancel(run_id) else "failed" for run_id in found}
    withdrawn = await withdraw_questions(runtime, agent_id, conversation_id=conversation_id, run_ids=run_ids)
    outcome |= dict.fromkeys(withdrawn, "cancelled")
    if not outcome:
        where = "" if conversation_id is None else f" in conversation {conversation_id}"
        raise Conflict(f"No active runs to cancel for agent {agent_id}{where}")
    return outcome


async def cancel_of_agent(call: Call[NoQuery, CancelBody]) -> object:
    """End runs of an agent as cancelled, with the questions that they asked, and say for each whether it was."""
    return await cancel_runs(call.runtime, call.path["agent_id"], run_ids=call.body.run_ids)


ROUTES: Final[tuple[Route, ...]] = (
    route(
        "POST",
        "/v1/agents/{agent_id}/messages/cancel",
        "Cancel runs",
        cancel_of_agent,
        query=NoQuery,
        body=CancelBody,
        answer=RUNS,
    ),
)
