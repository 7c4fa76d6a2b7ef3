"""HTTP to MCP servers: which addresses may be called, how much may come back, and which answers are refusals.

Imported with the library, like the HTTP client. Addresses are looked up here and connected to as they were judged, so
that a name cannot come to mean another machine in between (DNS rebinding). See docs/decisions/0016.
"""

import functools
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import anyio
import httpx2

from eunoe.state.errors import McpError
from eunoe.tools.mcp.target import Target

LONGEST_BODY: Final = 16 * 1024 * 1024
"""Bytes of an answer that is one JSON message, and of one server-sent event."""

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

Note = Callable[[httpx2.Request, int], None]
"""Is told each request that was answered, with the status of the answer."""


def client_for(target: Target, *, connect_seconds: float, private: bool, note: Note) -> httpx2.AsyncClient:
    """Return a client for one server. It follows no redirect and uses no proxy; who asks bounds how long it waits.

    ``private`` says whether addresses that are not on the public internet may be called.
    """
    return httpx2.AsyncClient(
        transport=_Judged(target, private=private, note=note),
        headers=target.headers,
        timeout=httpx2.Timeout(None, connect=connect_seconds),
        follow_redirects=False,
    )


def is_public(address: Address) -> bool:
    """Say whether an address is on the public internet, also when it is an IPv4 address in the clothes of IPv6."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


@functools.cache
def _trusted() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


class _Judged(httpx2.AsyncBaseTransport):
    """Sends requests to addresses that may be called."""

    def __init__(self, target: Target, *, private: bool, note: Note) -> None:
        self._target = target
        self._private = private
        self._note = note
        self._inner = httpx2.AsyncHTTPTransport(verify=_trusted())

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises ``McpError`` for an address that may not be called, or an answer without end."""
        sent = request if self._private else await self._pinned(request)
        response = await self._inner.handle_async_request(sent)
        self._note(request, response.status_code)
        if isinstance(response.stream, httpx2.AsyncByteStream) and not _is_event_stream(response):
            response.stream = _Bounded(response.stream, self._target)
        return response

    async def aclose(self) -> None:
        """Close connections."""
        await self._inner.aclose()

    async def _pinned(self, request: httpx2.Request) -> httpx2.Request:
        """Return the request for the address that was judged; name and certificate stay the host's."""
        host = request.url.host
        addresses = await _look_up(host, request.url.port or (443 if request.url.scheme == "https" else 80))
        refused = [address for address in addresses if not is_public(address)]
        if refused or not addresses:
            what = f"{host} is {refused[0]}, which" if refused else f"{host} has no address that"
            raise McpError(
                "forbidden",
                f"MCP server {self._target.name!r} may not be called: {what} is not on the public internet. A server "
                "that others can reach does not call such addresses unless EUNOE_MCP_PRIVATE_ADDRESSES is 1.",
                server=self._target.name,
            )
        return httpx2.Request(
            request.method,
            request.url.copy_with(host=str(addresses[0])),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )


async def _look_up(host: str, port: int) -> Sequence[Address]:
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpx2.ConnectError(f"{host} is not known") from error
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def _is_event_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends in an error when it is longer than any answer."""

    def __init__(self, inner: httpx2.AsyncByteStream, target: Target) -> None:
        self._inner = inner
        self._target = target

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > LONGEST_BODY:
                raise McpError(
                    "invalid_response",
                    f"MCP server {self._target.name!r} sent more than {LONGEST_BODY // 2**20} MiB in one answer.",
                    server=self._target.name,
                )
            yield chunk

    async def aclose(self) -> None:
        """Close the body."""
        await self._inner.aclose()
