"""An MCP server of the official package, as a program: ``good_server.py stdio``, or ``sse``/``streamable-http`` PORT.

It counts its calls in memory, so that tests see whether they talk to the same process, and to the same session.
"""

import os
import signal
import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, TextContent

server = MCPServer("good", log_level="CRITICAL")
calls = 0


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def count() -> str:
    """Count the calls of this tool since the server was started."""
    global calls  # noqa: PLW0603 - the point of the tool
    calls += 1
    return f"{calls} in {os.getpid()}"


@server.tool()
def fail() -> CallToolResult:
    """Always fail."""
    return CallToolResult(content=[TextContent(type="text", text="the tide is out")], is_error=True)


@server.tool()
def long_text(characters: int) -> str:
    """Return a long text."""
    return "x" * characters


@server.tool()
async def wait(seconds: float) -> str:
    """Wait before answering."""
    await anyio.sleep(seconds)
    return "waited"


@server.tool()
def variable(name: str) -> str:
    """Return a variable of the server's environment."""
    return os.environ.get(name, "(not set)")


@server.tool()
def header(name: str, ctx: Context) -> str:
    """Return a header that the request came with."""
    return (ctx.headers or {}).get(name, "(not sent)")


@server.tool()
def crash() -> str:
    """End the server at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


if __name__ == "__main__":
    match sys.argv[1]:
        case "stdio":
            server.run("stdio")
        case "sse":
            server.run("sse", port=int(sys.argv[2]))
        case _:
            server.run("streamable-http", port=int(sys.argv[2]))
