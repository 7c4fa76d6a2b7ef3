"""Identifiers: ``<prefix>-<uuid4>``, lower case, as the Letta v1 wire needs them.

Source of the pattern: Letta v1 validates path ids with a strict lower-case version-4 regex.
"""

import hashlib
import os
import re
import uuid
from typing import Final

_UUID4: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_PATTERN: Final = re.compile(rf"([a-z_]+)-({_UUID4})")

_LEAST: Final = uuid.UUID(int=0, version=4).int
_GREATEST: Final = uuid.UUID(int=(1 << 128) - 1, version=4).int
"""The least and the greatest version 4 uuid: every other one has the bits of the one, and of the other at most."""


def new_id(prefix: str) -> str:
    """Return a fresh random id for a kind of object, such as ``agent-…``."""
    # The uuid module makes an object for what is here only ever a text, and a turn needs four.
    digits = ((int.from_bytes(os.urandom(16)) & _GREATEST) | _LEAST).to_bytes(16).hex()
    return f"{prefix}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_id(prefix: str, text: str) -> bool:
    """Say whether ``text`` is a well-formed id with this prefix."""
    found = _PATTERN.fullmatch(text)
    return found is not None and found[1] == prefix


def named_id(prefix: str, name: str) -> str:
    """Return the id that is the same in every store for a built-in object of this name.

    The digits come from SHA-256 of prefix and name, with the version and variant bits of a uuid4, so that
    clients that check the pattern accept it.
    """
    digest = hashlib.sha256(f"{prefix}:{name}".encode()).digest()[:16]
    return f"{prefix}-{uuid.UUID(bytes=digest, version=4)}"
