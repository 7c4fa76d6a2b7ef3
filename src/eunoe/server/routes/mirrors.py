"""Where an agent's memory files are mirrored: setting it, how it stands, trying it, and ending it."""

from typing import Final

from eunoe.runtime.mirrors import mirror_status, push_mirror, remove_mirror, set_mirror
from eunoe.server.routes.memory_reading import MEMORY
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.memory_requests import MirrorBody
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import Nothing


async def show(call: Call[NoQuery, Nothing]) -> object:
    """Return how the mirror stands."""
    return await mirror_status(call.runtime, call.path["agent_id"])


async def put(call: Call[NoQuery, MirrorBody]) -> object:
    """Set where memory is mirrored; the first push comes soon."""
    return await set_mirror(call.runtime, call.path["agent_id"], call.body.url)


async def remove(call: Call[NoQuery, Nothing]) -> object:
    """Mirror memory no more; what the mirror has stays there."""
    agent_id = call.path["agent_id"]
    await remove_mirror(call.runtime, agent_id)
    return {"message": f"The memory of agent {agent_id} is mirrored no more"}


async def push(call: Call[NoQuery, Nothing]) -> object:
    """Push now, and return how the mirror stands then."""
    return await push_mirror(call.runtime, call.path["agent_id"])


_MIRROR: Final = f"{MEMORY}/mirror"
_STANDS: Final = "How the mirror stands, and what a person should do when something is wrong."

ROUTES: Final[tuple[Route, ...]] = (
    route("GET", _MIRROR, "How the mirror of memory stands (Eunoe)", show, query=NoQuery, body=Nothing, answer=_STANDS),
    route("PUT", _MIRROR, "Mirror memory to a git remote (Eunoe)", put, query=NoQuery, body=MirrorBody, answer=_STANDS),
    route("DELETE", _MIRROR, "Mirror memory no more (Eunoe)", remove, query=NoQuery, body=Nothing, answer="A message."),
    route(
        "POST",
        f"{_MIRROR}/push",
        "Push memory to its mirror now (Eunoe)",
        push,
        query=NoQuery,
        body=Nothing,
        answer=_STANDS,
    ),
)
