"""Tools: list and read them, and attach them to agents."""

from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from msgspec import structs

from eunoe.runtime import agents as lives
from eunoe.server.routes.cuts import cut
from eunoe.server.routes.reads import relationships, shown_agents
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.errors import Unprocessable
from eunoe.server.wire.queries import AgentToolsQuery, ApprovalQuery, IncludeQuery, NoQuery, ToolFilter, ToolsQuery
from eunoe.server.wire.requests import ApprovalBody, Nothing
from eunoe.server.wire.tools import tool
from eunoe.state.errors import NotFound
from eunoe.state.rules import ApprovalRule
from eunoe.state.tools import Tool
from eunoe.store import agents, tools
from eunoe.store.database import Transaction
from eunoe.store.tools import ToolQuery

_OWN_TYPES: Final = (
    "letta_core",
    "letta_memory_core",
    "letta_multi_agent_core",
    "letta_sleeptime_core",
    "letta_voice_sleeptime_core",
    "letta_builtin",
    "letta_files_core",
)


def _filter(query: ToolFilter | ToolsQuery) -> dict[str, Any]:
    types = query.tool_types
    if query.return_only_letta_tools:
        types = [kind for kind in _OWN_TYPES if types is None or kind in types]
    return {
        "name": query.name,
        "names": None if query.names is None else tuple(query.names),
        "tool_ids": None if query.tool_ids is None else tuple(query.tool_ids),
        "search": query.search,
        "tool_types": None if types is None else tuple(types),
        "exclude_tool_types": tuple(query.exclude_tool_types or ()),
    }


async def list_tools(call: Call[ToolsQuery, Nothing]) -> object:
    """Return a page of tools."""
    query = ToolQuery(
        before=call.query.before,
        after=call.query.after,
        limit=call.query.limit,
        order=call.query.order,
        **_filter(call.query),
    )
    return [tool(found) for found in await call.runtime.db.read(partial(tools.page, query=query))]


async def count_tools(call: Call[ToolFilter, Nothing]) -> object:
    """Return how many tools there are."""
    return await call.runtime.db.read(partial(tools.count, query=ToolQuery(**_filter(call.query))))


async def retrieve_tool(call: Call[NoQuery, Nothing]) -> object:
    """Return one tool."""
    return tool(await call.runtime.db.read(lambda tx: tools.get(tx, call.path["tool_id"])))


async def list_of_agent(call: Call[AgentToolsQuery, Nothing]) -> object:
    """Return a page of an agent's tools, in order of attachment."""

    def read(tx: Transaction) -> tuple[Tool, ...]:
        return tools.of_agent(tx, agents.get(tx, call.path["agent_id"]).id)

    found = await call.runtime.db.read(read)
    return [tool(item) for item in cut(found, call.query, key=lambda item: item.id, kind="Tool")]


async def attach(call: Call[IncludeQuery, Nothing]) -> object:
    """Attach a tool; attaching twice changes nothing."""
    return await _change(call, attached=True)


async def detach(call: Call[IncludeQuery, Nothing]) -> object:
    """Detach a tool."""
    return await _change(call, attached=False)


async def _change(call: Call[IncludeQuery, Nothing], *, attached: bool) -> object:
    """Attach or detach; clients of the 1.x format get null, older programs the agent."""
    agent_id, tool_id, now = call.path["agent_id"], call.path["tool_id"], datetime.now(UTC)
    shown = relationships(call.request, call.query)

    def write(tx: Transaction) -> object:
        change = lives.attach_tool if attached else lives.detach_tool
        change(tx, agent_id, tool_id, now=now)
        return shown_agents(tx, [agent_id], shown)[0] if shown else None

    return await call.runtime.db.write(write)


async def require_approval(call: Call[ApprovalQuery, ApprovalBody]) -> object:
    """Say whether calls of a tool wait for a person's answer."""
    required = call.body.requires_approval
    required = call.query.requires_approval if required is None else required
    if required is None:
        raise Unprocessable("body.requires_approval: required, true or false")
    rule = ApprovalRule(tool_name=call.path["tool_name"])
    now, shown = datetime.now(UTC), relationships(call.request, call.query)

    def write(tx: Transaction) -> object:
        agent = agents.get(tx, call.path["agent_id"])
        if rule.tool_name not in {tool.name for tool in tools.of_agent(tx, agent.id)}:
            raise NotFound("Tool", rule.tool_name, f"Agent {agent.id} has no tool {rule.tool_name!r}.")
        rules = tuple(
            old for old in agent.tool_rules if not (isinstance(old, ApprovalRule) and old.tool_name == rule.tool_name)
        )
        changed = structs.replace(agent, tool_rules=(*rules, rule) if required else rules)
        if changed != agent:
            agents.update(tx, changed, now=now)
        return shown_agents(tx, [agent.id], shown)[0] if shown else None

    return await call.runtime.db.write(write)


_OF_AGENT: Final = "/v1/agents/{agent_id}/tools"

ROUTES: Final[tuple[Route, ...]] = (
    route("GET", "/v1/tools", "List tools", list_tools, query=ToolsQuery, body=Nothing, answer="Tools."),
    route("GET", "/v1/tools/count", "Count tools", count_tools, query=ToolFilter, body=Nothing, answer="A number."),
    route("GET", "/v1/tools/{tool_id}", "Read a tool", retrieve_tool, query=NoQuery, body=Nothing, answer="The tool."),
    route(
        "GET",
        _OF_AGENT,
        "List an agent's tools",
        list_of_agent,
        query=AgentToolsQuery,
        body=Nothing,
        answer="Tools in order of attachment.",
    ),
    route(
        "PATCH",
        f"{_OF_AGENT}/attach/{{tool_id}}",
        "Attach a tool",
        attach,
        query=IncludeQuery,
        body=Nothing,
        answer="null; for programs older than the 1.x clients the agent.",
    ),
    route(
        "PATCH",
        f"{_OF_AGENT}/detach/{{tool_id}}",
        "Detach a tool",
        detach,
        query=IncludeQuery,
        body=Nothing,
        answer="null; for programs older than the 1.x clients the agent.",
    ),
    route(
        "PATCH",
        f"{_OF_AGENT}/approval/{{tool_name}}",
        "Say whether a tool's calls wait for an answer",
        require_approval,
        query=ApprovalQuery,
        body=ApprovalBody,
        answer="null; for programs older than the 1.x clients the agent.",
    ),
)
