"""MCP servers, their secrets, and which stored tools are theirs. ``reveal`` is the one function that reads secrets."""

from typing import Final

import msgspec

from eunoe.state.errors import Conflict, NotFound
from eunoe.state.mcp import McpSecrets, McpServer, McpTool
from eunoe.state.tools import Tool
from eunoe.store import tools
from eunoe.store.cipher import Cipher
from eunoe.store.database import Transaction
from eunoe.store.rows import Shape
from eunoe.store.tools import ToolQuery

_SERVERS: Final = Shape(McpServer, "mcp_servers", fixed=("kind", "created_at"))
_LINKS: Final = Shape(McpTool, "mcp_tools")
_NONE: Final = McpSecrets()


def insert(tx: Transaction, server: McpServer, secrets: McpSecrets, cipher: Cipher) -> None:
    """Store a new server with its secrets. Raises ``Conflict`` when there is one of that name."""
    require_free(tx, server)
    tx.execute(_SERVERS.insert, _SERVERS.values(server))
    _put_secrets(tx, server.id, secrets, cipher)


def update(tx: Transaction, server: McpServer) -> None:
    """Store a changed server. Raises ``NotFound``, or ``Conflict`` when another has the new name."""
    require_free(tx, server)
    if tx.execute(_SERVERS.update, _SERVERS.new_values(server)) == 0:
        raise NotFound("MCP server", server.id)


def replace_secrets(tx: Transaction, server_id: str, secrets: McpSecrets, cipher: Cipher) -> None:
    """Put secrets in place of those that a server has. Raises ``NotFound``."""
    get(tx, server_id)
    _put_secrets(tx, server_id, secrets, cipher)


def delete(tx: Transaction, server_id: str) -> None:
    """Delete a server; its tools stay, and are nobody's. Raises ``NotFound``."""
    if tx.execute("DELETE FROM mcp_servers WHERE id = ?", (server_id,)) == 0:
        raise NotFound("MCP server", server_id)


def get(tx: Transaction, server_id: str) -> McpServer:
    """Return a server. Raises ``NotFound``."""
    row = tx.row(f"{_SERVERS.select} WHERE id = ?", (server_id,))
    if row is None:
        raise NotFound("MCP server", server_id)
    return _SERVERS.read(row)


def find(tx: Transaction, id_or_name: str) -> McpServer:
    """Return the server with this id, or else with this name. Raises ``NotFound``."""
    row = tx.row(f"{_SERVERS.select} WHERE id = ? OR name = ? ORDER BY id = ? DESC", (id_or_name,) * 3)
    if row is None:
        raise NotFound("MCP server", id_or_name)
    return _SERVERS.read(row)


def everyone(tx: Transaction) -> list[McpServer]:
    """Return all servers in the order in which they were made."""
    return _SERVERS.all(tx.rows(f"{_SERVERS.select} ORDER BY created_at, id"))


def reveal(tx: Transaction, server_id: str, cipher: Cipher) -> McpSecrets:
    """Return the secrets of a server. Raises ``NotFound``, and ``StoreError`` when the key for secrets is another."""
    row = tx.row("SELECT secrets FROM mcp_servers WHERE id = ?", (server_id,))
    if row is None:
        raise NotFound("MCP server", server_id)
    if row[0] is None:
        return _NONE
    return msgspec.json.decode(cipher.unseal(row[0], belongs_to=server_id), type=McpSecrets)


def link(tx: Transaction, item: McpTool) -> None:
    """Store that a tool is a server's, or that this has changed."""
    tx.execute("DELETE FROM mcp_tools WHERE tool_id = ?", (item.tool_id,))
    tx.execute(_LINKS.insert, _LINKS.values(item))


def links(tx: Transaction, server_id: str) -> list[McpTool]:
    """Return which tools are a server's, by their names there."""
    return _LINKS.all(tx.rows(f"{_LINKS.select} WHERE server_id = ? ORDER BY remote_name", (server_id,)))


def tools_of(tx: Transaction, server_id: str) -> list[Tool]:
    """Return the tools of a server by their names there. Raises ``NotFound``."""
    get(tx, server_id)
    ids = [item.tool_id for item in links(tx, server_id)]
    found = {tool.id: tool for tool in tools.page(tx, ToolQuery(tool_ids=tuple(ids), limit=None))} if ids else {}
    return [found[tool_id] for tool_id in ids]


def agents_with(tx: Transaction, tool_id: str) -> list[str]:
    """Return the ids of the agents that have a tool."""
    rows = tx.rows("SELECT agent_id FROM agents_tools WHERE tool_id = ? ORDER BY agent_id", (tool_id,))
    return [agent_id for (agent_id,) in rows]


def require_free(tx: Transaction, server: McpServer) -> None:
    """Raise ``Conflict`` when another server has this one's name."""
    taken = tx.row("SELECT id FROM mcp_servers WHERE name = ? AND id <> ?", (server.name, server.id))
    if taken is not None:
        raise Conflict(
            f"There is already an MCP server named {server.name!r} ({taken[0]}). Change that one, or choose another "
            f"name.",
            server_id=taken[0],
        )


def _put_secrets(tx: Transaction, server_id: str, secrets: McpSecrets, cipher: Cipher) -> None:
    sealed = None
    if secrets != _NONE:
        sealed = cipher.seal(msgspec.json.encode(secrets).decode(), belongs_to=server_id)
    tx.execute("UPDATE mcp_servers SET secrets = ? WHERE id = ?", (sealed, server_id))
