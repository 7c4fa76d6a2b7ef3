"""The one table of routes, from which the application and its document are made."""

from typing import Final

from eunoe.server.routes import (
    agents,
    blocks,
    cancelling,
    compacting,
    conversation_messages,
    conversations,
    core_memory,
    git,
    identities,
    manifests,
    mcp_servers,
    memory_reading,
    memory_writing,
    messages,
    mirrors,
    reflections,
    runs,
    sending,
    skills,
    streams,
    surroundings,
    tools,
)
from eunoe.server.routing import Route

ROUTES: Final[tuple[Route, ...]] = (
    *agents.ROUTES,
    *core_memory.ROUTES,
    *tools.ROUTES,
    *messages.ROUTES,
    *sending.ROUTES,
    *cancelling.ROUTES,
    *compacting.ROUTES,
    *conversations.ROUTES,
    *conversation_messages.ROUTES,
    *streams.ROUTES,
    *manifests.ROUTES,
    *memory_reading.ROUTES,
    *memory_writing.ROUTES,
    *mirrors.ROUTES,
    *reflections.ROUTES,
    *skills.ROUTES,
    *blocks.ROUTES,
    *identities.ROUTES,
    *mcp_servers.ROUTES,
    *runs.ROUTES,
    *git.ROUTES,
    *surroundings.ROUTES,
)
