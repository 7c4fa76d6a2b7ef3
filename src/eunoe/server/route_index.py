"""Finding the route of a path: only those are tried whose path is as long, begins alike and ends alike.

Starlette tries its routes one after the other, and there are some two hundred here.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send


class RouteIndex(BaseRoute):
    """Many routes as one; it answers as trying them all in their order would.

    A route with a parameter that takes slashes comes after those without. A path that ends with a line break is that
    of no fixed route, where Starlette's patterns let it pass.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._slashing = [route for route in routes if ":path}" in route.path]
        self._plain: defaultdict[int, list[tuple[str | None, str | None, Route]]] = defaultdict(list)
        for route in routes:
            if ":path}" not in route.path:
                self._plain[route.path.count("/")].append((*_ends(route.path), route))

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return the first full match, else the first match of the path alone: its route refuses the method."""
        found: tuple[Match, Scope] = (Match.NONE, {})
        if scope["type"] != "http":
            return found
        for route in self._candidates(scope["path"].removeprefix(scope.get("root_path", ""))):
            match, child = route.matches(scope)
            if match is Match.FULL:
                return match, {**child, "route": route}
            if match is Match.PARTIAL and found[0] is Match.NONE:
                found = match, {**child, "route": route}
        return found

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the route that ``matches`` found serve."""
        await scope["route"].handle(scope, receive, send)

    def _candidates(self, path: str) -> Iterator[Route]:
        noun, last = _ends(path)
        for its_noun, its_last, route in self._plain.get(path.count("/"), ()):
            if its_noun in (noun, None) and its_last in (last, None):
                yield route
        yield from self._slashing


def _ends(path: str) -> tuple[str | None, str | None]:
    """Return the segment after the version and the last one, ``None`` for a parameter."""
    segments = path.split("/")
    noun, last = (segments[2] if len(segments) > 2 else ""), segments[-1]
    return None if noun.startswith("{") else noun, None if last.startswith("{") else last
