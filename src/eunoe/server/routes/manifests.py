"""What came back of an agent, whether it is what was stored (I1), and healing what is not."""

from typing import Final

from eunoe.runtime.integrity import integrity, repair
from eunoe.runtime.manifest import manifest, verify
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.queries import ManifestQuery, NoQuery
from eunoe.server.wire.requests import Nothing


async def read_manifest(call: Call[ManifestQuery, Nothing]) -> object:
    """Return every part of an agent with its revision, hash, size and source."""
    found = await manifest(call.runtime, call.path["agent_id"])
    if not call.query.verify:
        return found
    return {"manifest": found, "verification": await verify(call.runtime, call.path["agent_id"])}


async def read_verification(call: Call[NoQuery, Nothing]) -> object:
    """Compile the agent's prompts afresh and say what differs from what is stored."""
    return await verify(call.runtime, call.path["agent_id"])


async def read_integrity(call: Call[NoQuery, Nothing]) -> object:
    """Check an agent's stored state and say what is not as it must be; nothing is changed."""
    return await integrity(call.runtime, call.path["agent_id"])


async def repair_agent(call: Call[NoQuery, Nothing]) -> object:
    """Heal what can be healed by adding, and say what was done and what is still wrong."""
    return await repair(call.runtime, call.path["agent_id"])


ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        "/v1/agents/{agent_id}/manifest",
        "Show what came back of an agent (Eunoe)",
        read_manifest,
        query=ManifestQuery,
        body=Nothing,
        answer="Every part with revision, hash, size and source.",
    ),
    route(
        "GET",
        "/v1/agents/{agent_id}/verify",
        "Compare what is stored with a fresh compile (Eunoe)",
        read_verification,
        query=NoQuery,
        body=Nothing,
        answer="Whether all is well, and every difference in words.",
    ),
    route(
        "GET",
        "/v1/agents/{agent_id}/integrity",
        "Check an agent's stored state (Eunoe)",
        read_integrity,
        query=NoQuery,
        body=Nothing,
        answer="Whether all is well, and every violation in words.",
    ),
    route(
        "POST",
        "/v1/agents/{agent_id}/repair",
        "Heal an agent's stored state by adding (Eunoe)",
        repair_agent,
        query=NoQuery,
        body=Nothing,
        answer="What was healed, and what is still wrong.",
    ),
)
