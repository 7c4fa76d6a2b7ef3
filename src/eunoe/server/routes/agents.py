"""Agents: create, list, read, change, delete, and what their prompt holds."""

from functools import partial
from typing import Any, Final

from starlette.responses import Response

from eunoe.runtime import agents as lives
from eunoe.runtime.context import context_overview
from eunoe.runtime.fresh_memory import follow_memories
from eunoe.runtime.recompile import recompile
from eunoe.server.routes.reads import relationships, shown_agents, shown_states
from eunoe.server.routing import Call, Route, json_response, route
from eunoe.server.wire.context import overview
from eunoe.server.wire.domain import agent_changes, agent_spec
from eunoe.server.wire.queries import (
    AgentFilter,
    AgentsQuery,
    ConversationQuery,
    IncludeQuery,
    NoQuery,
    RecompileQuery,
)
from eunoe.server.wire.requests import AgentBody, AgentPatch, Nothing, ResetBody
from eunoe.store import agents
from eunoe.store.agents import AgentQuery
from eunoe.store.database import Transaction


def _filter(query: AgentFilter | AgentsQuery) -> dict[str, Any]:
    return {
        "name": query.name,
        "tags": tuple(query.tags or ()),
        "match_all_tags": query.match_all_tags,
        "query_text": query.query_text,
        "identity_id": query.identity_id,
        "identifier_keys": None if query.identifier_keys is None else tuple(query.identifier_keys),
        "last_stop_reason": query.last_stop_reason,
        "show_hidden": query.show_hidden_agents,
    }


async def list_agents(call: Call[AgentsQuery, Nothing]) -> object:
    """Return a page of agents."""
    query = AgentQuery(
        before=call.query.before,
        after=call.query.after,
        limit=call.query.limit,
        order=call.query.order,
        order_by=call.query.order_by,
        **_filter(call.query),
    )
    shown = relationships(call.request, call.query)

    def read(tx: Transaction) -> tuple[list[str], object]:
        ids = [found.id for found in agents.page(tx, query)]
        return ids, shown_agents(tx, ids, shown)

    ids, told = await call.runtime.db.read(read)
    if await follow_memories(call.runtime, ids):
        _, told = await call.runtime.db.read(read)
    return told


async def count_agents(call: Call[AgentFilter, Nothing]) -> object:
    """Return how many agents there are."""
    query = AgentQuery(**_filter(call.query))
    return await call.runtime.db.read(partial(agents.count, query=query))


async def create_agent(call: Call[NoQuery, AgentBody]) -> object:
    """Create an agent with its memory, tools and first messages."""
    state = await lives.create_agent(call.runtime, agent_spec(call.body))
    return await call.runtime.db.read(lambda tx: shown_states(tx, [state])[0])


async def retrieve_agent(call: Call[IncludeQuery, Nothing]) -> object:
    """Return one agent."""
    shown = relationships(call.request, call.query)
    return await call.runtime.db.read(lambda tx: shown_agents(tx, [call.path["agent_id"]], shown)[0])


async def modify_agent(call: Call[NoQuery, AgentPatch]) -> object:
    """Change the named fields of an agent."""
    state = await lives.update_agent(call.runtime, call.path["agent_id"], agent_changes(call.body))
    return await call.runtime.db.read(lambda tx: shown_states(tx, [state])[0])


async def delete_agent(call: Call[NoQuery, Nothing]) -> object:
    """Delete an agent; its blocks stay."""
    agent_id = call.path["agent_id"]
    await lives.delete_agent(call.runtime, agent_id)
    return {"message": f"Agent id={agent_id} successfully deleted"}


async def recompile_agent(call: Call[RecompileQuery, Nothing]) -> object:
    """Compile the prompt afresh and return its text."""
    query = call.query
    return await recompile(
        call.runtime,
        call.path["agent_id"],
        None if query.conversation_id == "default" else query.conversation_id,
        update_timestamp=query.update_timestamp,
        dry_run=query.dry_run,
    )


async def read_context(call: Call[ConversationQuery, Nothing]) -> object:
    """Return what the next request would hold, section by section."""
    conversation = call.query.conversation_id
    found = await context_overview(
        call.runtime, call.path["agent_id"], None if conversation == "default" else conversation
    )
    return overview(found)


async def reset_messages(call: Call[NoQuery, ResetBody]) -> Response:
    """Delete the messages of an agent for good."""
    state = await lives.reset_messages(call.runtime, call.path["agent_id"])
    return json_response(await call.runtime.db.read(lambda tx: shown_states(tx, [state])[0]))


_ONE: Final = "/v1/agents/{agent_id}"
_TEXT: Final = "The compiled system message, a JSON string."

ROUTES: Final[tuple[Route, ...]] = (
    route("GET", "/v1/agents", "List agents", list_agents, query=AgentsQuery, body=Nothing, answer="Agents."),
    route("POST", "/v1/agents", "Create an agent", create_agent, query=NoQuery, body=AgentBody, answer="The agent."),
    route("GET", "/v1/agents/count", "Count agents", count_agents, query=AgentFilter, body=Nothing, answer="A number."),
    route("GET", _ONE, "Read an agent", retrieve_agent, query=IncludeQuery, body=Nothing, answer="The agent."),
    route("PATCH", _ONE, "Change an agent", modify_agent, query=NoQuery, body=AgentPatch, answer="The agent."),
    route("DELETE", _ONE, "Delete an agent", delete_agent, query=NoQuery, body=Nothing, answer="A message."),
    route(
        "POST",
        f"{_ONE}/recompile",
        "Compile the prompt afresh",
        recompile_agent,
        query=RecompileQuery,
        body=Nothing,
        answer=_TEXT,
    ),
    route(
        "POST",
        f"{_ONE}/system-prompt/recompile",
        "Compile the prompt afresh (deprecated path)",
        recompile_agent,
        query=RecompileQuery,
        body=Nothing,
        answer=_TEXT,
    ),
    route(
        "GET",
        f"{_ONE}/context",
        "What the context window holds",
        read_context,
        query=ConversationQuery,
        body=Nothing,
        answer="Texts and token estimates of each section.",
    ),
    route(
        "PATCH",
        f"{_ONE}/reset-messages",
        "Delete all messages",
        reset_messages,
        query=NoQuery,
        body=ResetBody,
        answer="The agent.",
    ),
)
