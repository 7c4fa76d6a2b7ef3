"""Messages: send them, watch the answer, list what was said, cancel."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace
from starlette.responses import Response

from eunoe.runtime.opening import find_conversation
from eunoe.runtime.prompts import conversation_model, system_message
from eunoe.runtime.runtime import utc_now
from eunoe.server.event_stream import EventStream
from eunoe.server.routing import Call, Route, failure_response, json_response, route
from eunoe.server.wire.errors import run_failure
from eunoe.server.wire.messages import View, listed, roles_of
from eunoe.server.wire.queries import MessagesQuery, NoQuery
from eunoe.server.wire.requests import CancelBody, Nothing, SendBody, StreamBody
from eunoe.server.wire.stream import Narrator, answer
from eunoe.server.wire.turns import turn_request, view_for
from eunoe.state.agents import Agent
from eunoe.state.errors import Conflict, NotFound
from eunoe.state.events import RunEnded
from eunoe.state.messages import Message
from eunoe.state.rules import ApprovalRule
from eunoe.state.tools import Tool
from eunoe.store import agents, messages, runs, tools
from eunoe.store.database import Transaction
from eunoe.store.messages import MessageQuery
from eunoe.store.runs import RunQuery


async def send(call: Call[NoQuery, SendBody] | Call[NoQuery, StreamBody]) -> Response:
    """Send messages to an agent; answer when its turn is over, or tell it while it goes on."""
    body = call.body
    request = turn_request(call.path["agent_id"], body)

    def read(tx: Transaction) -> tuple[Agent, set[str]]:
        agent = agents.get(tx, request.agent_id)
        return agent, _held(agent, tools.of_agent(tx, agent.id), body)

    agent, held = await call.runtime.db.read(read)
    view = view_for(agent.agent_type, body, compaction=body.include_compaction_messages)
    handle = await call.runtime.start(request)
    narrator = Narrator(handle.run_id, view, tokens=body.stream_tokens, held=held)
    if body.streaming:
        return EventStream(
            handle,
            narrator,
            pings=body.include_pings,
            ping_seconds=call.limits.ping_seconds,
            at_once=body.background,
        )
    told: list[dict[str, Any]] = []
    async for event in handle.events():
        if isinstance(event, RunEnded):
            if event.error is not None:
                return failure_response(run_failure(event.error))
            return json_response(answer(told, event))
        told.extend(narrator.tell(event, utc_now()))
    raise AssertionError("a run's events end with RunEnded")


def _held(agent: Agent, attached: Sequence[Tool], body: SendBody) -> set[str]:
    """Return the tools whose calls wait for a person or the client."""
    ruled = {rule.tool_name for rule in agent.tool_rules if isinstance(rule, ApprovalRule)}
    cautious = {tool.name for tool in attached if tool.default_requires_approval}
    return ruled | cautious | {tool.name for tool in body.client_tools or ()}


async def list_of_agent(call: Call[MessagesQuery, Nothing]) -> object:
    """Return a page of an agent's messages; the system message is the oldest one."""
    query, agent_id, now = call.query, call.path["agent_id"], utc_now()

    def read(tx: Transaction) -> object:
        state = agents.state(tx, agent_id)
        named = query.conversation_id
        conversation = find_conversation(tx, state, None if named in {None, "default"} else named)
        model = conversation_model(call.runtime.models, state, conversation)
        system = system_message(tx, state, conversation, model, now)
        wanted = MessageQuery(
            agent_id=agent_id,
            conversation_id=None if named is None else conversation.id,
            before=query.before,
            after=query.after,
            limit=query.limit,
            order=query.order,
            roles=roles_of(query.include_return_message_types),
        )
        view = view_for(state.agent.agent_type, query)
        return listed(page_with_system(tx, wanted, system), view, newest_first=query.order == "desc")

    return await call.runtime.db.read(read)


def page_with_system(tx: Transaction, query: MessageQuery, system: Message) -> list[Message]:
    """Return a page of messages as if the system message were stored as the oldest one."""
    limit = query.limit or 0
    if query.order == "asc":
        if query.before == system.id:
            return []
        if query.after == system.id:
            return messages.page(tx, replace(query, after=None))
        found = messages.page(tx, query)
        if query.after is not None or (query.before is not None and len(found) == limit):
            return found
        joined = [system, *found]
        return joined if query.before is not None else joined[:limit]
    if query.after == system.id:
        return []
    if query.before == system.id:
        return messages.page(tx, replace(query, before=None, order="asc"))[::-1]
    found = messages.page(tx, query)
    return found if query.before is not None or len(found) == limit else [*found, system]


async def list_all(call: Call[MessagesQuery, Nothing]) -> object:
    """Return a page of the messages of all agents."""
    query = call.query
    wanted = MessageQuery(
        conversation_id=query.conversation_id,
        before=query.before,
        after=query.after,
        limit=query.limit,
        order=query.order,
        roles=roles_of(query.include_return_message_types),
    )

    def read(tx: Transaction) -> object:
        found = messages.page(tx, wanted)
        return shown_to_caller(tx, found, query, newest_first=query.order == "desc")

    return await call.runtime.db.read(read)


def shown_to_caller(
    tx: Transaction, found: list[Message], query: Any, *, newest_first: bool = False
) -> list[dict[str, Any]]:
    """Return what the wire lists for messages of several agents, each shown as its agent's type wants."""
    ids = sorted({message.agent_id for message in found})
    views: dict[str, View] = {agent.id: view_for(agent.agent_type, query) for agent in agents.many(tx, ids)}
    out: list[dict[str, Any]] = []
    for message in found:
        out.extend(listed([message], views[message.agent_id], newest_first=newest_first))
    return out


async def retrieve(call: Call[NoQuery, Nothing]) -> object:
    """Return what the wire shows of one stored message: a list."""
    message_id = call.path["message_id"]

    def read(tx: Transaction) -> object:
        found = messages.get(tx, message_id)
        return listed([found], View())

    return await call.runtime.db.read(read)


async def cancel(call: Call[NoQuery, CancelBody]) -> object:
    """End runs of an agent as cancelled, and say for each whether it was."""
    agent_id = call.path["agent_id"]
    named = call.body.run_ids

    def read(tx: Transaction) -> list[str]:
        agent = agents.get(tx, agent_id)
        if named is None:
            return [run.id for run in runs.page(tx, RunQuery(agent_id=agent.id, active=True))]
        for run_id in named:
            if runs.get(tx, run_id).agent_id != agent.id:
                raise NotFound("Run", run_id)
        return named

    found = await call.runtime.db.read(read)
    if not found:
        raise Conflict(f"No active runs to cancel for agent {agent_id}")
    return {run_id: "cancelled" if await call.runtime.cancel(run_id) else "failed" for run_id in found}


_OF_AGENT: Final = "/v1/agents/{agent_id}/messages"

ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        _OF_AGENT,
        "List an agent's messages",
        list_of_agent,
        query=MessagesQuery,
        body=Nothing,
        answer="Messages, newest first by default.",
    ),
    route(
        "POST",
        _OF_AGENT,
        "Send messages",
        send,
        query=NoQuery,
        body=SendBody,
        answer="Messages, stop reason and usage; with streaming=true server-sent events.",
    ),
    route(
        "POST",
        f"{_OF_AGENT}/stream",
        "Send messages and stream the answer",
        send,
        query=NoQuery,
        body=StreamBody,
        answer="Server-sent events: messages, stop_reason, usage_statistics, [DONE].",
    ),
    route(
        "POST",
        f"{_OF_AGENT}/cancel",
        "Cancel runs",
        cancel,
        query=NoQuery,
        body=CancelBody,
        answer="For each run id: cancelled or failed.",
    ),
    route(
        "GET",
        "/v1/messages",
        "List the messages of all agents",
        list_all,
        query=MessagesQuery,
        body=Nothing,
        answer="Messages, newest first by default.",
    ),
    route(
        "GET",
        "/v1/messages/{message_id}",
        "Read one message",
        retrieve,
        query=NoQuery,
        body=Nothing,
        answer="A list: what is shown of one stored message.",
    ),
)
