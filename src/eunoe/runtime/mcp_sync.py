"""Making stored tools be what a server offers: in one transaction, and never over another tool or under an agent."""

from datetime import datetime
from typing import Any, Final

from msgspec import Struct, structs

from eunoe.state.ids import new_id
from eunoe.state.mcp import McpProblem, McpServer, McpTool
from eunoe.state.tools import Tool
from eunoe.store import mcp_servers, tools
from eunoe.store.database import Transaction
from eunoe.tools.mcp.offer import OfferedTool, ToolList, choose_name

MCP_TYPE: Final = "external_mcp"
"""The type of tools of MCP servers."""


class Kept(Struct, frozen=True, kw_only=True):
    """A tool that its server does not offer any more and that agents still have."""

    name: str
    agent_ids: tuple[str, ...]


class Synced(Struct, frozen=True, kw_only=True):
    """What became of a server's tools, by their names here; ``invalid`` are those that cannot be taken."""

    added: tuple[str, ...]
    updated: tuple[str, ...]
    deleted: tuple[str, ...]
    kept: tuple[Kept, ...]
    invalid: tuple[McpProblem, ...]


def sync(tx: Transaction, server: McpServer, offer: ToolList, now: datetime) -> Synced:
    """Make the tools of a server be what it offers.

    A tool keeps the name that it once got. One that the server does not offer any more is deleted if no agent has it;
    otherwise it stays with its agents, marked as missing, until they give it up or the server offers it again. One
    that can no longer be taken stays as it was.
    """
    links = {link.remote_name: link for link in mcp_servers.links(tx, server.id)}
    stored = {tool.id: tool for tool in mcp_servers.tools_of(tx, server.id)}
    added: list[str] = []
    updated: list[str] = []
    for offered in offer.tools:
        link = links.get(offered.name)
        if link is None:
            added.append(_add(tx, server, offered, now))
        elif _update(tx, server, stored[link.tool_id], offered, now):
            updated.append(stored[link.tool_id].name)
        if link is not None and link.missing:
            mcp_servers.link(tx, structs.replace(link, missing=False))
    named = {tool.name for tool in offer.tools} | {problem.tool for problem in offer.problems}
    vanished = [(link, stored[link.tool_id]) for name, link in links.items() if name not in named]
    kept = [found for link, tool in vanished if (found := _let_go(tx, link, tool, now)) is not None]
    mcp_servers.update(tx, structs.replace(server, problems=offer.problems, synced_at=now))
    return Synced(
        added=tuple(added),
        updated=tuple(updated),
        deleted=tuple(tool.name for _, tool in vanished if tool.name not in {one.name for one in kept}),
        kept=tuple(kept),
        invalid=offer.problems,
    )


def rename(tx: Transaction, server: McpServer, now: datetime) -> None:
    """Let the tools of a server say the name that it has now."""
    for tool in mcp_servers.tools_of(tx, server.id):
        facts = {**tool.metadata["mcp"], "server_name": server.name}
        changed = structs.replace(tool, tags=_tags(server), metadata={**tool.metadata, "mcp": facts})
        tools.update(tx, changed, now=now)


def _tags(server: McpServer) -> tuple[str, ...]:
    return (f"mcp:{server.name}",)


def _add(tx: Transaction, server: McpServer, offered: OfferedTool, now: datetime) -> str:
    name = choose_name(offered.name, server.name, lambda name: bool(tools.by_names(tx, [name])))
    bare = Tool(id=new_id("tool"), name=name, tool_type=MCP_TYPE, created_at=now, updated_at=now)
    tools.insert(tx, _as_offered(bare, server, offered))
    mcp_servers.link(tx, McpTool(tool_id=bare.id, server_id=server.id, remote_name=offered.name))
    return name


def _update(tx: Transaction, server: McpServer, tool: Tool, offered: OfferedTool, now: datetime) -> bool:
    """Bring a stored tool up to date, and say whether anything differed."""
    wanted = _as_offered(tool, server, offered)
    if wanted == tool:
        return False
    tools.update(tx, wanted, now=now)
    return True


def _let_go(tx: Transaction, link: McpTool, tool: Tool, now: datetime) -> Kept | None:
    """Delete a tool that no agent has; otherwise mark it, and return who has it."""
    agent_ids = mcp_servers.agents_with(tx, tool.id)
    if not agent_ids:
        tools.delete(tx, tool.id)
        return None
    if not link.missing:
        mcp_servers.link(tx, structs.replace(link, missing=True))
        facts = {**tool.metadata["mcp"], "missing": True}
        tools.update(tx, structs.replace(tool, metadata={**tool.metadata, "mcp": facts}), now=now)
    return Kept(name=tool.name, agent_ids=tuple(agent_ids))


def _as_offered(tool: Tool, server: McpServer, offered: OfferedTool) -> Tool:
    facts: dict[str, Any] = {
        "server_name": server.name,
        "server_id": server.id,
        "tool_name": offered.name,
        "health": {"status": offered.strictness, "reasons": list(offered.reasons)},
    }
    return structs.replace(
        tool,
        description=offered.description,
        json_schema={"name": tool.name, "description": offered.description, "parameters": offered.parameters},
        tags=_tags(server),
        enable_parallel_execution=offered.reads_only,
        metadata={**tool.metadata, "mcp": facts},
    )
