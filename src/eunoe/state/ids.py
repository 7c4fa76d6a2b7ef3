"""Identifiers: ``<prefix>-<uuid4>``, lower case, as the Letta v1 wire needs them.

Source of the pattern: Letta v1 validates path ids with a strict lower-case version-4 regex.
"""

import hashlib
import re
import uuid
from typing import Final

_UUID4: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_PATTERN: Final = re.compile(rf"([a-z_]+)-({_UUID4})")


def new_id(prefix: str) -> str:
    """Return a fresh random id for a kind of object, such as ``agent-…``."""
    return f"{prefix}-{uuid.uuid4()}"


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
