"""Identities as Letta v1 shows them."""

from typing import Any

from eunoe.state.identities import Identity


def identity(value: Identity, *, agent_ids: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the wire's identity object."""
    return {
        "id": value.id,
        "identifier_key": value.identifier_key,
        "name": value.name,
        "identity_type": value.identity_type,
        "project_id": None,
        "agent_ids": list(agent_ids),
        "block_ids": [],
        "properties": list(value.properties),
    }
