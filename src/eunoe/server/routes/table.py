"""The one table of routes, from which the application and its document are made."""

from typing import Final

from eunoe.server.routes import agents, blocks, core_memory, identities, manifests, messages, runs, surroundings, tools
from eunoe.server.routing import Route

ROUTES: Final[tuple[Route, ...]] = (
    *agents.ROUTES,
    *core_memory.ROUTES,
    *tools.ROUTES,
    *messages.ROUTES,
    *manifests.ROUTES,
    *blocks.ROUTES,
    *identities.ROUTES,
    *runs.ROUTES,
    *surroundings.ROUTES,
)
