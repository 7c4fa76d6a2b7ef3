"""Identities: the people and organisations that agents know themselves to belong to."""

from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from msgspec import structs

from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.identities import identity
from eunoe.server.wire.queries import IdentitiesQuery, NoQuery
from eunoe.server.wire.requests import IdentityBody, IdentityPatch, Nothing, given, properties
from eunoe.state.identities import Identity
from eunoe.state.ids import new_id
from eunoe.store import identities
from eunoe.store.database import Transaction
from eunoe.store.identities import IdentityQuery


def _shown(tx: Transaction, value: Identity) -> dict[str, Any]:
    return identity(value, agent_ids=tuple(identities.agent_ids(tx, value.id)))


def _query(asked: IdentitiesQuery) -> IdentityQuery:
    return IdentityQuery(
        before=asked.before,
        after=asked.after,
        limit=asked.limit,
        order=asked.order,
        name=asked.name,
        identifier_key=asked.identifier_key,
        identity_type=asked.identity_type,
    )


async def list_identities(call: Call[IdentitiesQuery, Nothing]) -> object:
    """Return a page of identities."""
    query = _query(call.query)
    return await call.runtime.db.read(lambda tx: [_shown(tx, found) for found in identities.page(tx, query)])


async def count_identities(call: Call[IdentitiesQuery, Nothing]) -> object:
    """Return how many identities there are."""
    return await call.runtime.db.read(partial(identities.count, query=_query(call.query)))


def _insert(tx: Transaction, body: IdentityBody, now: datetime) -> dict[str, Any]:
    value = Identity(
        id=new_id("identity"),
        identifier_key=body.identifier_key,
        name=body.name,
        identity_type=body.identity_type,
        created_at=now,
        updated_at=now,
        properties=properties(body.properties or []),
    )
    identities.insert(tx, value)
    return _shown(tx, value)


async def create(call: Call[NoQuery, IdentityBody]) -> object:
    """Create an identity; its key must be free."""
    now = datetime.now(UTC)
    return await call.runtime.db.write(lambda tx: _insert(tx, call.body, now))


async def upsert(call: Call[NoQuery, IdentityBody]) -> object:
    """Create the identity of this key, or make the one that has it as given."""
    body, now = call.body, datetime.now(UTC)

    def write(tx: Transaction) -> object:
        found = identities.by_key(tx, body.identifier_key)
        if found is None:
            return _insert(tx, body, now)
        changes = given(body, "name", "identity_type")
        return _shown(tx, identities.update(tx, _changed(found, changes, body), now=now))

    return await call.runtime.db.write(write)


def _changed(found: Identity, changes: dict[str, Any], body: IdentityBody | IdentityPatch) -> Identity:
    if body.properties is not None:
        changes = {**changes, "properties": properties(body.properties)}
    return structs.replace(found, **changes)


async def retrieve(call: Call[NoQuery, Nothing]) -> object:
    """Return one identity."""
    return await call.runtime.db.read(lambda tx: _shown(tx, identities.get(tx, call.path["identity_id"])))


async def modify(call: Call[NoQuery, IdentityPatch]) -> object:
    """Change the named fields of an identity."""
    changes, now = given(call.body, "identifier_key", "name", "identity_type"), datetime.now(UTC)

    def write(tx: Transaction) -> object:
        found = identities.get(tx, call.path["identity_id"])
        return _shown(tx, identities.update(tx, _changed(found, changes, call.body), now=now))

    return await call.runtime.db.write(write)


async def delete(call: Call[NoQuery, Nothing]) -> object:
    """Delete an identity."""
    await call.runtime.db.write(lambda tx: identities.delete(tx, call.path["identity_id"]))
    return None


_ALL: Final = "/v1/identities"
_ONE: Final = "/v1/identities/{identity_id}"

ROUTES: Final[tuple[Route, ...]] = (
    route("GET", _ALL, "List identities", list_identities, query=IdentitiesQuery, body=Nothing, answer="Identities."),
    route("POST", _ALL, "Create an identity", create, query=NoQuery, body=IdentityBody, answer="The identity."),
    route("PUT", _ALL, "Create or replace by key", upsert, query=NoQuery, body=IdentityBody, answer="The identity."),
    route(
        "GET",
        f"{_ALL}/count",
        "Count identities",
        count_identities,
        query=IdentitiesQuery,
        body=Nothing,
        answer="A number.",
    ),
    route("GET", _ONE, "Read an identity", retrieve, query=NoQuery, body=Nothing, answer="The identity."),
    route("PATCH", _ONE, "Change an identity", modify, query=NoQuery, body=IdentityPatch, answer="The identity."),
    route("DELETE", _ONE, "Delete an identity", delete, query=NoQuery, body=Nothing, answer="null"),
)
