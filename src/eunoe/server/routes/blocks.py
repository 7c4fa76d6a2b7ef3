"""Blocks: create, list, read, change, delete, their agents and their past."""

import re
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from eunoe.runtime.blocks import create_block, delete_block, update_block
from eunoe.server.routes.cuts import cut
from eunoe.server.routes.reads import relationships, shown_agents
from eunoe.server.routing import Call, Route, json_response, route
from eunoe.server.wire.blocks import block, entity_tag, revision
from eunoe.server.wire.domain import block_changes, block_spec
from eunoe.server.wire.errors import Unprocessable
from eunoe.server.wire.queries import (
    BlockAgentsQuery,
    BlockFilter,
    BlocksQuery,
    NoQuery,
    PageQuery,
    RevisionsQuery,
    WhyQuery,
)
from eunoe.server.wire.requests import BlockBody, BlockPatch, Nothing
from eunoe.state.blocks import Block
from eunoe.store import blocks
from eunoe.store.blocks import BlockQuery
from eunoe.store.database import Transaction

_REVISION: Final = re.compile(r'(?:W/)?"?([1-9][0-9]{0,17})"?')


def block_response(value: Block) -> Response:
    """Return a block with its revision in the header ``ETag``."""
    return json_response(block(value), headers=entity_tag(value))


def based_on(call: Call[NoQuery, BlockPatch]) -> int | None:
    """Return the revision that a change says it is based on, in ``If-Match`` or in the body; ``None`` if in neither."""
    header = call.request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return call.body.expected_revision
    found = _REVISION.fullmatch(header.strip())
    if found is None:
        raise Unprocessable(f'If-Match: must be the ETag of a block, such as "3", not {header!r}')
    return int(found[1])


def _filter(query: BlockFilter | BlocksQuery) -> dict[str, Any]:
    equal = query.connected_to_agents_count_eq
    return {
        "label": query.label,
        "tags": tuple(query.tags or ()),
        "match_all_tags": query.match_all_tags,
        "label_search": query.label_search,
        "description_search": query.description_search,
        "value_search": query.value_search,
        "connected_to_agents_count_gt": query.connected_to_agents_count_gt,
        "connected_to_agents_count_lt": query.connected_to_agents_count_lt,
        "connected_to_agents_count_eq": None if equal is None else tuple(equal),
        "templates_only": query.templates_only,
        "show_hidden": query.show_hidden_blocks,
    }


async def list_blocks(call: Call[BlocksQuery, Nothing]) -> object:
    """Return a page of blocks."""
    query = BlockQuery(
        before=call.query.before,
        after=call.query.after,
        limit=call.query.limit,
        order=call.query.order,
        **_filter(call.query),
    )
    return [block(found) for found in await call.runtime.db.read(partial(blocks.page, query=query))]


async def count_blocks(call: Call[BlockFilter, Nothing]) -> object:
    """Return how many blocks there are."""
    query = BlockQuery(**_filter(call.query))
    return await call.runtime.db.read(partial(blocks.count, query=query))


async def create(call: Call[NoQuery, BlockBody]) -> object:
    """Create a block that belongs to no agent yet."""
    spec = block_spec(call.body)
    now = datetime.now(UTC)
    return block_response(await call.runtime.db.write(lambda tx: create_block(tx, spec, now=now)))


async def retrieve(call: Call[NoQuery, Nothing]) -> object:
    """Return one block."""
    return block_response(await call.runtime.db.read(lambda tx: blocks.get(tx, call.path["block_id"])))


async def modify(call: Call[NoQuery, BlockPatch]) -> object:
    """Change the named fields of a block."""
    changes, expected, now = block_changes(call.body), based_on(call), datetime.now(UTC)

    def write(tx: Transaction) -> Block:
        return update_block(
            tx,
            call.runtime.homes,
            call.path["block_id"],
            changes,
            expected_revision=expected,
            why=call.body.why,
            now=now,
        )

    return block_response(await call.runtime.db.write(write))


async def delete(call: Call[WhyQuery, Nothing]) -> object:
    """Delete a block and detach it everywhere."""
    now = datetime.now(UTC)
    await call.runtime.db.write(
        lambda tx: delete_block(tx, call.runtime.homes, call.path["block_id"], now=now, why=call.query.why)
    )
    return None


async def list_agents(call: Call[BlockAgentsQuery, Nothing]) -> object:
    """Return the agents that have a block."""
    query = call.query
    shown = relationships(call.request, query)
    page = PageQuery(before=query.before, after=query.after, limit=query.limit, order=query.order)

    def read(tx: Transaction) -> object:
        ids = blocks.agent_ids(tx, blocks.get(tx, call.path["block_id"]).id)
        return shown_agents(tx, cut(ids, page, key=str, kind="Agent"), shown)

    return await call.runtime.db.read(read)


async def list_revisions(call: Call[RevisionsQuery, Nothing]) -> object:
    """Return what a block was, newest first."""

    def read(tx: Transaction) -> object:
        found = blocks.get(tx, call.path["block_id"])
        past = blocks.revisions(tx, found.id, call.query.limit, call.query.before_revision)
        return [revision(item) for item in past]

    return await call.runtime.db.read(read)


_ONE: Final = "/v1/blocks/{block_id}"
_BLOCK: Final = "The block; the header ETag is its revision."

ROUTES: Final[tuple[Route, ...]] = (
    route("GET", "/v1/blocks", "List blocks", list_blocks, query=BlocksQuery, body=Nothing, answer="Blocks."),
    route("POST", "/v1/blocks", "Create a block", create, query=NoQuery, body=BlockBody, answer=_BLOCK),
    route("GET", "/v1/blocks/count", "Count blocks", count_blocks, query=BlockFilter, body=Nothing, answer="A number."),
    route("GET", _ONE, "Read a block", retrieve, query=NoQuery, body=Nothing, answer=_BLOCK),
    route("PATCH", _ONE, "Change a block", modify, query=NoQuery, body=BlockPatch, answer=_BLOCK),
    route("DELETE", _ONE, "Delete a block", delete, query=WhyQuery, body=Nothing, answer="null"),
    route(
        "GET",
        f"{_ONE}/agents",
        "List the agents that have a block",
        list_agents,
        query=BlockAgentsQuery,
        body=Nothing,
        answer="Agents.",
    ),
    route(
        "GET",
        f"{_ONE}/revisions",
        "List what a block was (Eunoe)",
        list_revisions,
        query=RevisionsQuery,
        body=Nothing,
        answer="Revisions, newest first.",
    ),
)
