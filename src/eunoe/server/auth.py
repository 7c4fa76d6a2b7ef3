"""Who may talk to the server: a token, the host that is asked for, and the page that asks.

On a loopback address without a token, the ``Host`` header must name this machine: a page on the web whose name was
made to point at 127.0.0.1 (DNS rebinding) is refused. A browser's request from another origin is always refused
unless that origin was allowed.
"""

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from eunoe.server.routing import json_response
from eunoe.state.errors import InvalidInput

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

_GIT_PATHS: Final = "/v1/git/"
"""Where git clients ask, which show a token as the password of HTTP's Basic scheme, once they are asked for it."""

_OPEN_PATHS: Final = frozenset({"/v1/health", "/v1/health/"})
"""What anyone may ask: whether the server is up."""


def check_binding(host: str, token: str | None) -> None:
    """Raise ``InvalidInput`` when the server would be open to others on the network without a token."""
    if token or is_loopback(host):
        return
    raise InvalidInput(
        f"Listening on {host} makes every agent readable and changeable by anyone who can reach this machine. "
        "Set EUNOE_TOKEN (or --token) to a secret, or listen on 127.0.0.1.",
        field="host",
    )


def is_loopback(host: str) -> bool:
    """Say whether an address to listen on is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets a request through, or answers 401 or 403 itself."""

    def __init__(
        self, app: ASGIApp, *, token: str | None, hosts: Collection[str] = (), origins: Collection[str] = ()
    ) -> None:
        self._app = app
        self._token = token.encode() if token else None
        self._hosts = LOOPBACK_NAMES | {name.lower() for name in hosts}
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(headers, scope["path"])
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, detail = refusal
        challenge = 'Basic realm="Eunoe"' if scope["path"].startswith(_GIT_PATHS) else "Bearer"
        extra = {"www-authenticate": challenge} if status == 401 else {}
        await json_response({"detail": detail}, status=status, headers=extra)(scope, receive, send)

    def _refusal(self, headers: Headers, path: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if self._token is None and _name_of(host) not in self._hosts:
            return 403, f"Host {host!r} is not this server's. Ask for localhost, or set EUNOE_TOKEN to serve any name."
        origin = headers.get("origin")
        if origin is not None and not self._may_ask(origin, host):
            return 403, f"Requests from pages of {origin!r} are not allowed."
        if self._token is not None and path not in _OPEN_PATHS and not self._knows_token(headers, path, self._token):
            return 401, "Unauthorized"
        return None

    def _may_ask(self, origin: str, host: str) -> bool:
        return origin.lower() in self._origins or urlsplit(origin).netloc.lower() == host.lower() != ""

    @staticmethod
    def _knows_token(headers: Headers, path: str, token: bytes) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        word, _, bare = headers.get("x-bare-password", "").partition(" ")
        offers = [bearer] if scheme.lower() == "bearer" else []
        offers += [bare] if word == "password" else []
        # Browsers send Basic by themselves once they know a password, so it counts for git alone.
        offers += [_password(bearer)] if scheme.lower() == "basic" and path.startswith(_GIT_PATHS) else []
        return any(hmac.compare_digest(offer.strip().encode(), token) for offer in offers)


def _password(basic: str) -> str:
    """Return the password of Basic credentials; the name before it does not matter."""
    try:
        return base64.b64decode(basic.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _name_of(host: str) -> str:
    """Return the name in a ``Host`` header, without the port."""
    text = host.lower().strip()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0]
