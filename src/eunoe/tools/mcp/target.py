"""What a session with a server needs: its address or program, and what it must be shown (pure)."""

import re
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from eunoe.state.errors import InvalidInput
from eunoe.state.mcp import McpKind, McpSecrets, McpServer

AUTHORIZATION: Final = "Authorization"
"""The header that carries a token when no other is named."""

LONGEST_NAME: Final = 100
"""Characters of a server's name."""

_SHORT_SECRET: Final = 4
"""Characters below which a secret is not looked for in texts: it would be found everywhere."""

_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A field name of HTTP (RFC 9110, section 5.1)."""

_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_VARIABLE: Final = re.compile(r"[^=\x00]+")
_OURS: Final = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection", "accept"})
"""Headers that belong to the connection and not to the user."""


class Target(Struct, frozen=True, kw_only=True):
    """One server as a session sees it. Two equal targets can share a session; never printed (I14)."""

    server_id: str
    name: str
    kind: McpKind
    url: str = ""
    headers: dict[str, str] = {}
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}

    def __repr__(self) -> str:
        """Leave headers and environment out."""
        return f"Target({self.where!r})"

    @property
    def where(self) -> str:
        """The server's place for people: without the query of its address, which may hold a key."""
        return self.command if self.kind == "stdio" else _bare(self.url)

    def masked(self, text: str) -> str:
        """Return a text of the server's without this target's secrets, in case it repeats them."""
        shown = (*self.headers.values(), *self.env.values(), urlsplit(self.url).query)
        # Of "Bearer abc", what follows the scheme is a secret by itself.
        values = {part for value in shown for part in (value, value.partition(" ")[2])}
        for value in sorted(values, key=len, reverse=True):
            if len(value) >= _SHORT_SECRET:
                text = text.replace(value, "***")
        return text


def target_of(server: McpServer, secrets: McpSecrets) -> Target:
    """Return what a session with this server needs.

    A token without a scheme is sent as ``Bearer`` when its header is ``Authorization``, and as it is otherwise.
    """
    headers = dict(secrets.headers)
    if secrets.token:
        header = server.auth_header or AUTHORIZATION
        bare = header.lower() == AUTHORIZATION.lower() and " " not in secrets.token.strip()
        headers[header] = f"Bearer {secrets.token.strip()}" if bare else secrets.token
    return Target(
        server_id=server.id,
        name=server.name,
        kind=server.kind,
        url=server.url or "",
        headers=headers,
        command=server.command or "",
        args=server.args,
        env=secrets.env,
    )


def check_server(server: McpServer, secrets: McpSecrets) -> None:
    """Raise ``InvalidInput`` for a name, address, header or variable that cannot be used. Values are not repeated."""
    if not server.name.strip() or len(server.name) > LONGEST_NAME:
        raise InvalidInput(f"An MCP server needs a name of 1 to {LONGEST_NAME} characters.", field="server_name")
    if server.kind == "stdio":
        _check_program(server, secrets)
        return
    _check_url(server.url or "")
    if server.auth_header is not None:
        _check_header(server.auth_header, secrets.token or "", "auth_header")
    elif secrets.token is not None:
        _check_header(AUTHORIZATION, secrets.token, "auth_token")
    for name, value in secrets.headers.items():
        _check_header(name, value, "custom_headers")


def _check_program(server: McpServer, secrets: McpSecrets) -> None:
    if not server.command or not server.command.strip():
        raise InvalidInput("An MCP server of kind stdio needs the command that starts it.", field="config.command")
    if any("\x00" in text for text in (server.command, *server.args, *secrets.env.values())):
        raise InvalidInput("A command, its arguments and variables cannot hold the character U+0000.", field="config")
    if bad := [name for name in secrets.env if not _VARIABLE.fullmatch(name)]:
        raise InvalidInput(f"{bad[0]!r} cannot be the name of a variable.", field="config.env")


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable, parts = False, urlsplit("")
    if not usable or re.search(r"[\x00-\x20\x7f]", url):
        raise InvalidInput(
            "server_url must be a whole address that begins with http:// or https://.", field="config.server_url"
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            "server_url must not hold a user name or password, because addresses are shown. Use auth_token, or "
            "custom_headers.",
            field="config.server_url",
        )


def _check_header(name: str, value: str, field: str) -> None:
    if not _HEADER.fullmatch(name) or name.lower() in _OURS:
        raise InvalidInput(f"{name!r} cannot be set as a header of requests.", field=f"config.{field}")
    if not _VALUE.fullmatch(value):
        raise InvalidInput(
            f"The value of the header {name!r} has characters that HTTP does not take.", field=f"config.{field}"
        )


def _bare(url: str) -> str:
    return urlsplit(url)._replace(query="", fragment="").geturl()
