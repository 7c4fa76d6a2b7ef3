"""Identities: the people and organisations that an agent knows itself to belong to."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

IdentityType = Literal["org", "user", "other"]


class Identity(Struct, frozen=True, kw_only=True):
    """An identity. ``identifier_key`` is the caller's own key and is unique in a store."""

    id: str
    identifier_key: str
    name: str
    identity_type: IdentityType
    created_at: datetime
    updated_at: datetime
    properties: tuple[dict[str, Any], ...] = ()
