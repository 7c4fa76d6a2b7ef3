"""MCP servers, their secrets, and their tools."""

from typing import Any

import pytest
from msgspec import structs
from store_examples import LATER, NOW, Store, stored_conversation

from eunoe.state.errors import Conflict, NotFound, StoreError
from eunoe.state.ids import new_id
from eunoe.state.mcp import McpProblem, McpSecrets, McpServer, McpTool
from eunoe.state.tools import Tool
from eunoe.store import mcp_servers, tools
from eunoe.store.cipher import Cipher

CIPHER = Cipher(b"k" * 32)


def a_server(name: str = "weather", **fields: Any) -> McpServer:
    given: dict[str, Any] = {"id": new_id("mcp_server"), "created_at": NOW, "updated_at": NOW, "kind": "sse"}
    return McpServer(name=name, **(given | fields))


def test_a_server_is_stored_changed_and_deleted(store: Store) -> None:
    one = a_server(args=("-v",), header_names=("X-Key",), problems=(McpProblem(tool="t", reasons=("no name",)),))
    two = a_server("news", created_at=LATER, kind="stdio", command="run")
    for server in (two, one):
        store.write(mcp_servers.insert, server, McpSecrets(), CIPHER)
    assert store.read(mcp_servers.everyone) == [one, two]
    with pytest.raises(Conflict, match=one.id):
        store.write(mcp_servers.insert, a_server(), McpSecrets(), CIPHER)
    with pytest.raises(Conflict, match=one.id):
        store.write(mcp_servers.update, structs.replace(two, name="weather"))
    changed = structs.replace(one, name="rain", problems=(), synced_at=LATER)
    store.write(mcp_servers.update, changed)
    assert store.read(mcp_servers.get, one.id) == changed
    store.write(mcp_servers.delete, one.id)
    for work in (mcp_servers.get, mcp_servers.tools_of):
        with pytest.raises(NotFound, match=one.id):
            store.read(work, one.id)
    with pytest.raises(NotFound, match=one.id):
        store.write(mcp_servers.update, changed)


def test_secrets_of_a_server_are_encrypted_and_open_only_where_they_belong(store: Store) -> None:
    one, two = a_server(), a_server("news")
    secrets = McpSecrets(token="tok-123", headers={"X-Key": "key-456"}, env={"PASS": "pass-789"})
    store.write(mcp_servers.insert, one, secrets, CIPHER)
    store.write(mcp_servers.insert, two, McpSecrets(), CIPHER)
    assert store.read(mcp_servers.reveal, one.id, CIPHER) == secrets
    assert store.read(mcp_servers.reveal, two.id, CIPHER) == McpSecrets()
    (row,) = store.read(lambda tx: tx.rows("SELECT secrets FROM mcp_servers WHERE id = ?", (one.id,)))
    assert b"tok-123" not in row[0]
    assert "123" not in repr(secrets)
    with pytest.raises(StoreError, match="cannot be decrypted"):
        store.read(mcp_servers.reveal, one.id, Cipher(b"z" * 32))
    store.write(lambda tx: tx.execute("UPDATE mcp_servers SET secrets = ? WHERE id = ?", (row[0], two.id)))
    with pytest.raises(StoreError, match="cannot be decrypted"):
        store.read(mcp_servers.reveal, two.id, CIPHER)
    store.write(mcp_servers.replace_secrets, one.id, McpSecrets(token="new"), CIPHER)
    assert store.read(mcp_servers.reveal, one.id, CIPHER) == McpSecrets(token="new")


def test_tools_of_a_server_are_known_by_their_names_there(store: Store) -> None:
    server = a_server()
    store.write(mcp_servers.insert, server, McpSecrets(), CIPHER)
    agent_id = store.write(stored_conversation).agent_id
    made = [Tool(id=new_id("tool"), name=name, created_at=NOW, updated_at=NOW) for name in ("z_rain", "a_sun")]
    for tool, there in zip(made, ("rain", "sun"), strict=True):
        store.write(tools.insert, tool)
        store.write(mcp_servers.link, McpTool(tool_id=tool.id, server_id=server.id, remote_name=there))
    assert store.read(mcp_servers.tools_of, server.id) == made
    gone = McpTool(tool_id=made[1].id, server_id=server.id, remote_name="sun", missing=True)
    store.write(mcp_servers.link, gone)
    assert store.read(mcp_servers.links, server.id)[1] == gone
    store.write(tools.attach, agent_id, made[0].id)
    assert store.read(mcp_servers.agents_with, made[0].id) == [agent_id]
    store.write(tools.delete, made[0].id)
    assert store.read(mcp_servers.links, server.id) == [gone]
    store.write(mcp_servers.delete, server.id)
    assert store.read(tools.get, made[1].id) == made[1]
