"""A page of a list that is in memory already, by the rules of the store's pages."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from eunoe.server.wire.queries import PageQuery
from eunoe.state.errors import NotFound

T = TypeVar("T")


def cut(items: Sequence[T], query: PageQuery, *, key: Callable[[T], str], kind: str) -> list[T]:
    """Return the part of ``items`` (given in ascending order) that the query wants.

    Raises ``NotFound`` for a cursor that is not in the list.
    """
    ordered = list(items) if query.order == "asc" else list(reversed(items))
    places = {key(item): index for index, item in enumerate(ordered)}
    for cursor in (query.after, query.before):
        if cursor is not None and cursor not in places:
            raise NotFound(kind, cursor)
    start = 0 if query.after is None else places[query.after] + 1
    end = len(ordered) if query.before is None else places[query.before]
    part = ordered[start:end]
    return part[-query.limit :] if query.before is not None and query.after is None else part[: query.limit]
