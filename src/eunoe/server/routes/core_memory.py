"""The blocks of one agent, by label."""

from datetime import UTC, datetime
from typing import Final

from eunoe.runtime.blocks import attach_block as attach
from eunoe.runtime.blocks import detach_block as detach
from eunoe.runtime.labelled import block_by_label, update_by_label
from eunoe.server.routes.blocks import based_on, block_response
from eunoe.server.routes.cuts import cut
from eunoe.server.routes.reads import shown_agents
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.agents import memory
from eunoe.server.wire.blocks import block
from eunoe.server.wire.domain import block_changes
from eunoe.server.wire.queries import AgentBlocksQuery, NoQuery, WhyQuery
from eunoe.server.wire.requests import BlockPatch, Nothing
from eunoe.state.blocks import Block
from eunoe.store import agents
from eunoe.store.database import Transaction


def _label(call: Call[NoQuery, Nothing] | Call[NoQuery, BlockPatch]) -> str:
    return call.path["label"].rstrip("/")


async def read_memory(call: Call[NoQuery, Nothing]) -> object:
    """Return an agent's memory."""
    return memory(await call.runtime.db.read(lambda tx: agents.state(tx, call.path["agent_id"])))


async def list_blocks(call: Call[AgentBlocksQuery, Nothing]) -> object:
    """Return the blocks of an agent, in order of label."""

    def read(tx: Transaction) -> tuple[Block, ...]:
        return agents.state(tx, call.path["agent_id"]).blocks

    found = await call.runtime.db.read(read)
    return [block(item) for item in cut(found, call.query, key=lambda item: item.id, kind="Block")]


async def retrieve_block(call: Call[NoQuery, Nothing]) -> object:
    """Return the block of this label."""

    def read(tx: Transaction) -> Block:
        agent = agents.get(tx, call.path["agent_id"])
        return block_by_label(tx, call.runtime.homes, agent.id, _label(call))

    return block_response(await call.runtime.db.read(read))


async def modify_block(call: Call[NoQuery, BlockPatch]) -> object:
    """Change the block of this label; every agent that shares it sees the change."""
    expected = based_on(call)
    changes = block_changes(call.body)
    now = datetime.now(UTC)

    def write(tx: Transaction) -> Block:
        agent = agents.get(tx, call.path["agent_id"])
        homes = call.runtime.homes
        return update_by_label(
            tx, homes, agent.id, _label(call), changes, expected_revision=expected, why=call.body.why, now=now
        )

    return block_response(await call.runtime.db.write(write))


async def attach_block(call: Call[WhyQuery, Nothing]) -> object:
    """Attach a block; attaching twice changes nothing."""

    def write(tx: Transaction) -> object:
        agent = agents.get(tx, call.path["agent_id"])
        attach(tx, call.runtime.homes, agent.id, call.path["block_id"], now=datetime.now(UTC), why=call.query.why)
        return shown_agents(tx, [agent.id])[0]

    return await call.runtime.db.write(write)


async def detach_block(call: Call[WhyQuery, Nothing]) -> object:
    """Detach a block; it stays in the store."""

    def write(tx: Transaction) -> object:
        agent = agents.get(tx, call.path["agent_id"])
        detach(tx, call.runtime.homes, agent.id, call.path["block_id"], now=datetime.now(UTC), why=call.query.why)
        return shown_agents(tx, [agent.id])[0]

    return await call.runtime.db.write(write)


_MEMORY: Final = "/v1/agents/{agent_id}/core-memory"
_LABEL: Final = _MEMORY + "/blocks/{label:path}"

ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        _MEMORY,
        "Read an agent's memory (deprecated)",
        read_memory,
        query=NoQuery,
        body=Nothing,
        answer="The memory.",
    ),
    route(
        "GET",
        f"{_MEMORY}/blocks",
        "List an agent's blocks",
        list_blocks,
        query=AgentBlocksQuery,
        body=Nothing,
        answer="Blocks in order of label.",
    ),
    route(
        "GET",
        _LABEL,
        "Read a block by label",
        retrieve_block,
        query=NoQuery,
        body=Nothing,
        answer="The block; the header ETag is its revision.",
    ),
    route(
        "PATCH",
        _LABEL,
        "Change a block by label",
        modify_block,
        query=NoQuery,
        body=BlockPatch,
        answer="The block; the header ETag is its revision.",
    ),
    route(
        "PATCH",
        f"{_MEMORY}/blocks/attach/{{block_id}}",
        "Attach a block",
        attach_block,
        query=WhyQuery,
        body=Nothing,
        answer="The agent.",
    ),
    route(
        "PATCH",
        f"{_MEMORY}/blocks/detach/{{block_id}}",
        "Detach a block",
        detach_block,
        query=WhyQuery,
        body=Nothing,
        answer="The agent.",
    ),
)
