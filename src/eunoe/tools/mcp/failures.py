"""What went wrong with a server, in a sentence for whoever must act (pure). Imported with the library."""

from collections.abc import Iterator
from typing import Final, cast

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT
from pydantic import ValidationError

from eunoe.state.errors import McpError, McpErrorKind
from eunoe.tools.mcp.target import Target

_LONGEST: Final = 1_000
"""Characters of a server's own words that are repeated."""

_STAND_INS: Final = ("Not Found", "Session terminated", "Server returned an error response")
"""What the library puts in the place of a refusal without words."""

_ADVICE: Final = {
    401: " Set auth_token, or a header in custom_headers, to what the server wants.",
    403: " Check what the server lets this token do.",
    404: " Check server_url: there may be no MCP server at this path.",
    405: " Check the kind of the server: streamable_http and sse are asked in different ways.",
}


def failed(target: Target, kind: McpErrorKind, text: str, *, status: int | None = None) -> McpError:
    """Return the error that says this of a server, without its secrets."""
    return McpError(kind, target.masked(f"MCP server {target.name!r} {text}"), server=target.name, status=status)


def refused(target: Target, status: int, error: BaseException | None = None) -> McpError:
    """Return the error of an answer that is a refusal of HTTP, with what the server said, if it said something."""
    advice = _ADVICE.get(status, " Look at the server's log." if status >= 500 else "")
    said = error.message[:_LONGEST] if isinstance(error, MCPError) and error.message not in _STAND_INS else ""
    told = f"HTTP {status}: {said}." if said else f"HTTP {status}.{advice}"
    return failed(target, "refused", f"at {target.where} answered with {told}", status=status)


def ended(target: Target, last_words: str = "") -> McpError:
    """Return the error of a connection that ended before the answer."""
    if target.kind == "stdio":
        said = f": {last_words[:_LONGEST]}" if last_words else "."
        return failed(target, "ended", f"({target.where}) ended before it answered{said}")
    return failed(target, "ended", f"at {target.where} ended the connection before it answered.")


def is_closed(error: BaseException) -> bool:
    """Say whether an error is the library's word that the connection ended."""
    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


def explain(target: Target, error: BaseException, last_words: str = "") -> McpError | None:
    """Return what an error of the library, the connection or the program means; ``None`` for one that is not known.

    Of a group, the first that is known counts.
    """
    return next((found for one in _leaves(error) if (found := _explained(target, one, last_words))), None)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _explained(target: Target, error: BaseException, last_words: str) -> McpError | None:
    match error:
        case McpError():
            return error
        case MCPError():
            return _of_protocol(target, error, last_words)
        case ValidationError():
            return failed(target, "invalid_response", "answered in a form that is not the protocol's.")
        case httpx2.HTTPStatusError():
            return refused(target, error.response.status_code)
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return failed(target, "unreachable", f"cannot be reached at {target.where}. Start it, or correct its URL.")
        case httpx2.SSEError():
            return failed(target, "invalid_response", "sent events that cannot be read, or one that is too long.")
        case httpx2.HTTPError():
            return failed(target, "ended", f"at {target.where} ended the connection ({type(error).__name__}).")
        case OSError() if target.kind == "stdio":
            reason = error.strerror or type(error).__name__
            return failed(target, "unreachable", f"cannot be started: {target.where}: {reason}.")
        case _:
            return None


def _of_protocol(target: Target, error: MCPError, last_words: str) -> McpError:
    said = error.message[:_LONGEST]
    if is_closed(error):
        return ended(target, last_words)
    if error.code == REQUEST_TIMEOUT:
        return failed(target, "timeout", "did not answer in time.")
    if error.code == PARSE_ERROR and said.startswith("Failed to parse"):
        return unreadable(target)
    return failed(target, "refused", f"refused: {said} (code {error.code})")


def unreadable(target: Target) -> McpError:
    """Return the error of an answer that is cut or garbled."""
    return failed(target, "invalid_response", "sent an answer that is no JSON message: it is cut or garbled.")
