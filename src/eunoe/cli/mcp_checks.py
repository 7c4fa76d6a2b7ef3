"""Checks of MCP servers for ``eunoe doctor``: each stored one is asked for its tools. They change nothing."""

import sqlite3
from contextlib import closing
from functools import partial
from typing import Final
from urllib.parse import quote

import anyio

from eunoe.cli.checks import Check, bounded, failed, ok, warning
from eunoe.runtime.settings import Settings
from eunoe.state.errors import EunoeError, StoreError
from eunoe.state.mcp import McpSecrets, McpServer
from eunoe.store import mcp_servers
from eunoe.store.cipher import load_cipher
from eunoe.store.sqlite_threads import SqliteTransaction
from eunoe.tools.mcp.sessions import McpSessions
from eunoe.tools.mcp.target import Target, target_of

_NAMED: Final = 3
"""Tools that cannot be taken and are told by name."""


async def mcp_checks(settings: Settings, seconds: float) -> list[Check]:
    """Check each MCP server of the store: whether it can be asked, how many tools it has, and which cannot be taken."""
    try:
        targets = await anyio.to_thread.run_sync(partial(_stored, settings))
    except EunoeError as error:
        return [failed("MCP servers", error.message)]
    checks: list[Check] = []
    async with anyio.create_task_group() as group:
        sessions = McpSessions(settings.mcp, group.start_soon)
        looks = [(f"MCP server {target.name}", partial(_look, sessions, target)) for target in targets]
        checks += [await bounded(name, seconds, look) for name, look in looks]
        group.cancel_scope.cancel()
    return checks


async def _look(sessions: McpSessions, target: Target) -> Check:
    name = f"MCP server {target.name}"
    found = await sessions.tools(target)
    if not found.problems:
        return ok(name, f"reachable; {len(found.tools)} tools")
    left_out = ", ".join(f"{one.tool} ({'; '.join(one.reasons)})" for one in found.problems[:_NAMED])
    more = f" and {len(found.problems) - _NAMED} more" if len(found.problems) > _NAMED else ""
    return warning(
        name,
        f"reachable; {len(found.tools)} tools; cannot be taken: {left_out}{more}",
        "Mend these tools on the server, then refresh it.",
    )


def _stored(settings: Settings) -> list[Target]:
    """Return the servers of the store; none when it is not there or has not heard of them yet.

    Raises ``StoreError``.
    """
    path = settings.database
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mcp_servers'").fetchone()
            tx = SqliteTransaction(connection, writes=False)
            return [_target(settings, tx, server) for server in mcp_servers.everyone(tx)] if known else []
    except sqlite3.Error as error:
        raise StoreError(f"The MCP servers of the store cannot be read ({error}).") from error


def _target(settings: Settings, tx: SqliteTransaction, server: McpServer) -> Target:
    secrets = McpSecrets()
    if server.has_token or server.header_names or server.env_names:
        secrets = mcp_servers.reveal(tx, server.id, load_cipher(settings.database))
    return target_of(server, secrets)
