"""What is around the agents: health, models, tags."""

from typing import Final

from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.models import model
from eunoe.server.wire.queries import ModelsQuery, NoQuery, TagsQuery
from eunoe.server.wire.requests import Nothing
from eunoe.store.listing import tag_names
from eunoe.version import __version__


async def health(call: Call[NoQuery, Nothing]) -> object:
    """Say that the server is up, and which version it is."""
    del call
    return {"version": __version__, "status": "ok"}


async def list_models(call: Call[ModelsQuery, Nothing]) -> object:
    """Return every model that the configured providers name."""
    query = call.query
    return [
        model(info)
        for info in await call.runtime.models.list()
        if query.provider_name in {None, info.provider} and query.provider_type in {None, info.provider_type}
    ]


async def list_embedding_models(call: Call[ModelsQuery, Nothing]) -> object:
    """Return the embedding models: none."""
    del call
    return []


async def list_tags(call: Call[TagsQuery, Nothing]) -> object:
    """Return a page of tags, by name."""
    query = call.query
    return await call.runtime.db.read(
        lambda tx: tag_names(
            tx,
            before=query.before,
            after=query.after,
            limit=query.limit,
            order=query.order,
            containing=query.name or query.query_text,
        )
    )


ROUTES: Final[tuple[Route, ...]] = (
    route("GET", "/v1/health", "Say that the server is up", health, query=NoQuery, body=Nothing, answer="Version."),
    route("GET", "/v1/models", "List models", list_models, query=ModelsQuery, body=Nothing, answer="Models."),
    route(
        "GET",
        "/v1/models/embedding",
        "List embedding models",
        list_embedding_models,
        query=ModelsQuery,
        body=Nothing,
        answer="An empty list: Eunoe asks no embedding models.",
    ),
    route("GET", "/v1/tags", "List tags", list_tags, query=TagsQuery, body=Nothing, answer="Tags by name."),
)
