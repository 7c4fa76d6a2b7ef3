"""``eunoe mcp``: the MCP servers whose tools agents can have."""

import os
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec import UNSET

from eunoe.cli.errors import BAD_INPUT, Failure
from eunoe.cli.opening import home_option, json_option, opened
from eunoe.cli.tables import write_json, write_table
from eunoe.cli.terminal import one_line, printable
from eunoe.runtime.mcp_servers import ServerChanges, add_server, delete_server, new_server, refresh_server
from eunoe.runtime.mcp_sync import Synced
from eunoe.state.mcp import McpProblem, McpServer
from eunoe.store import mcp_servers
from eunoe.store.database import Transaction

_ABOUT = 70
"""Characters of a description in the list."""


@click.group()
def mcp() -> None:
    """Add, list, refresh and remove MCP servers."""


def _value(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise Failure(f"The variable {variable} is not set. It shall hold what the server is shown.", BAD_INPUT)
    return value


def _header(pair: str) -> tuple[str, str]:
    name, sign, variable = pair.partition("=")
    if not (name and sign and variable):
        raise Failure(f"A header is given as NAME=VARIABLE, not {pair!r}.", BAD_INPUT)
    return name, _value(variable)


@mcp.command()
@click.argument("name")
@click.argument("where", nargs=-1, required=True)
@home_option
@json_option
@click.option("--sse", is_flag=True, help="The server speaks the older form with a stream of events.")
@click.option("--token-from", metavar="VARIABLE", help="A variable that holds the token to send.")
@click.option("--header", "headers", metavar="NAME=VARIABLE", multiple=True, help="A header, and the variable with it.")
@click.option("--env", "variables", metavar="VARIABLE", multiple=True, help="Pass this variable on to the program.")
def add(
    name: str,
    where: tuple[str, ...],
    home: Path | None,
    as_json: bool,
    sse: bool,
    token_from: str | None,
    headers: tuple[str, ...],
    variables: tuple[str, ...],
) -> None:
    """Add a server under NAME: WHERE is its address, or after -- the program that it is, with arguments.

    Secrets are read from variables, because others can see a command line. A program is started only where
    EUNOE_MCP_STDIO is 1.
    """
    place, *arguments = where
    over_http = place.startswith(("http://", "https://"))
    if over_http and (arguments or variables):
        raise Failure("An address takes no arguments and no --env.", BAD_INPUT)
    if not over_http and (sse or token_from or headers):
        raise Failure("A program takes no --sse, --token-from or --header; give it variables by --env.", BAD_INPUT)
    wanted = ServerChanges(
        name=name,
        url=place if over_http else UNSET,
        token=_value(token_from) if token_from else None,
        headers=dict(map(_header, headers)),
        command=UNSET if over_http else place,
        args=tuple(arguments),
        env={variable: _value(variable) for variable in variables},
    )
    now = datetime.now(UTC)
    kind = "stdio" if not over_http else "sse" if sse else "streamable_http"
    server, secrets = new_server(kind, wanted, now)
    with opened(home) as door:
        done = door.call(lambda runtime: add_server(runtime, server, secrets, now))
    _tell(done, as_json=as_json)


@mcp.command("list")
@home_option
@json_option
def list_all(home: Path | None, as_json: bool) -> None:
    """List the servers, where they are, and how many tools they have."""

    def read(tx: Transaction) -> list[tuple[McpServer, int]]:
        return [(server, len(mcp_servers.links(tx, server.id))) for server in mcp_servers.everyone(tx)]

    with opened(home) as door:
        found = door.read(read)
    if as_json:
        write_json([server for server, _ in found])
        return
    rows = [
        (server.name, server.kind, server.url or " ".join((server.command or "", *server.args)), str(count))
        for server, count in found
    ]
    write_table(("server", "kind", "where", ">tools"), rows)


@mcp.command()
@click.argument("name")
@home_option
@json_option
def tools(name: str, home: Path | None, as_json: bool) -> None:
    """List the tools of the server NAME, by the names that they have here."""
    with opened(home) as door:
        server = door.read(lambda tx: mcp_servers.find(tx, name))
        found = door.read(lambda tx: mcp_servers.tools_of(tx, server.id))
    if as_json:
        write_json(found)
        return
    missing = "gone from the server"
    write_table(
        ("tool", "", "what it is for"),
        [
            (
                tool.name,
                missing if tool.metadata["mcp"].get("missing") else "",
                one_line(tool.description or "", _ABOUT),
            )
            for tool in found
        ],
    )
    _tell_problems(server.problems)


@mcp.command()
@click.argument("name")
@home_option
@json_option
def refresh(name: str, home: Path | None, as_json: bool) -> None:
    """Ask the server NAME for its tools again; none is taken from an agent."""
    with opened(home) as door:
        server = door.read(lambda tx: mcp_servers.find(tx, name))
        done = door.call(lambda runtime: refresh_server(runtime, server.id, datetime.now(UTC)))
    _tell(done, as_json=as_json)


@mcp.command()
@click.argument("name")
@home_option
def remove(name: str, home: Path | None) -> None:
    """Remove the server NAME with its tools, which agents that have them lose."""
    with opened(home) as door:
        server = door.read(lambda tx: mcp_servers.find(tx, name))
        door.call(lambda runtime: delete_server(runtime, server.id, datetime.now(UTC)))
    click.echo(f"Removed {printable(server.name)}.", err=True)


def _tell(done: Synced, *, as_json: bool) -> None:
    if as_json:
        write_json(done)
        return
    for what, names in (("added", done.added), ("updated", done.updated), ("deleted", done.deleted)):
        for tool in names:
            click.echo(printable(f"{what}: {tool}"))
    for kept in done.kept:
        click.echo(printable(f"gone from the server, kept for {len(kept.agent_ids)} agents: {kept.name}"))
    _tell_problems(done.invalid)


def _tell_problems(problems: tuple[McpProblem, ...]) -> None:
    for problem in problems:
        click.echo(printable(f"{problem.tool} cannot be taken: {'; '.join(problem.reasons)}"), err=True)
