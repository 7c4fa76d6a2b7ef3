"""Which addresses a mirror may have. None holds a secret: git's own means know the credentials."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from eunoe.state.errors import InvalidInput

LONGEST: Final = 2_000
"""Characters of an address."""

SCHEMES: Final = ("https", "http", "ssh", "file")
"""How git may reach a mirror; git itself is held to it too, whatever its settings make of an address."""

_SSH: Final = re.compile(r"(?:[A-Za-z0-9_.][A-Za-z0-9_.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!//)[^\s@]+")
"""An address as ssh writes it: ``git@host:path``. With an ``@`` behind the colon it would be a name and a password."""

_SECRET: Final = re.compile(r"://[^\s'\"]*@")


def check_mirror_address(address: str) -> None:
    """Raise ``InvalidInput`` for an address that no mirror may have. The sentence never repeats the address."""
    if not address or len(address) > LONGEST or not address.isprintable():
        raise _refused(f"must be 1 to {LONGEST} characters on one line")
    if address.startswith("/") or _SSH.fullmatch(address):
        return
    try:
        parts = urlsplit(address)
        host, name, password = parts.hostname, parts.username, parts.password
    except ValueError:
        raise _refused("cannot be understood") from None  # its text would repeat the address
    if parts.scheme not in SCHEMES:
        raise _refused("must begin with https://, http://, ssh:// or file://, be git@host:path, or an absolute path")
    if password is not None or (parts.scheme.startswith("http") and name is not None):
        raise _refused(
            "holds a name or a password, which would be stored in clear. Leave them out, and give them to git for the "
            "user that Eunoe runs as: with a credential helper, or a key for ssh"
        )
    if parts.scheme.startswith("http") and (parts.query or parts.fragment):
        raise _refused("must have nothing after a '?' or a '#', where a secret may stand")
    if (parts.scheme == "file") == bool(host) or (host or "").startswith("-"):
        raise _refused("must name a host, or with file:// an absolute path")


def local_folder(address: str) -> Path | None:
    """Return the folder that an address names on this machine, ``None`` for one that leads elsewhere."""
    if address.startswith("/"):
        return Path(address)
    # Git decodes the path of an address, so what is looked at must be decoded too.
    return Path(unquote(address.removeprefix("file://"))) if address.startswith("file:///") else None


def absolute_address(address: str) -> str:
    """Return an address with a relative path made absolute from the working folder; others stay as they are.

    Raises ``InvalidInput`` when the working folder is gone.
    """
    if "://" in address or _SSH.fullmatch(address) or not address:
        return address
    try:
        return str(Path(address).expanduser().absolute())
    except (OSError, RuntimeError) as error:
        raise InvalidInput(
            "The path cannot be made out from here: the working folder is gone, or there is no such user. Give the "
            "whole path.",
            field="url",
        ) from error


def without_secrets(text: str) -> str:
    """Return what git said without names and passwords in addresses, which its settings may have put there."""
    return _SECRET.sub("://", text)


def _refused(why: str) -> InvalidInput:
    return InvalidInput(f"The address of the mirror {why}.", field="url")
