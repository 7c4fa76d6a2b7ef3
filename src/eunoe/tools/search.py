"""``conversation_search``: its schema, its arguments, and how what was found is told to the model."""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from typing import Any, Final, Literal, cast
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from eunoe.state.errors import InvalidInput
from eunoe.state.messages import Message
from eunoe.state.tools import ToolSchema
from eunoe.tools.reading import READING_PROPERTIES, READING_TOOL

DEFAULT_RESULTS: Final = 5
MOST_RESULTS: Final = 50
SNIPPET: Final = 2_000
"""Characters of one found message that are shown."""

SearchRole = Literal["assistant", "user", "tool"]
ROLES: Final[tuple[SearchRole, ...]] = ("assistant", "user", "tool")

SEARCH_SCHEMA: Final = ToolSchema(
    name=READING_TOOL,
    description=(
        "Search everything that was said in earlier conversations, also what is no longer in view. Newest first. "
        "Give words that stand in the message, or leave the query out to list messages by role or time. "
        "Dates are ISO 8601 (2026-05-01 or 2026-05-01T14:30); a date alone means the whole day, both ends included."
    ),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Text to look for. Leave out to filter by role or time only."},
            "roles": {
                "type": "array",
                "items": {"type": "string", "enum": list(ROLES)},
                "description": "Only messages of these roles.",
            },
            "limit": {
                "type": "integer",
                "description": f"How many messages to return: {DEFAULT_RESULTS} if left out, at most {MOST_RESULTS}.",
            },
            "start_date": {"type": "string", "description": "Only messages of this time or later."},
            "end_date": {"type": "string", "description": "Only messages of this time or earlier."},
            **READING_PROPERTIES,
        },
        "required": [],
    },
)


class SearchArguments(Struct, frozen=True, kw_only=True):
    """A search as the store understands it."""

    query: str | None
    roles: tuple[SearchRole, ...]
    limit: int
    start: datetime | None
    end: datetime | None


def _moment(text: object, field: str, zone: ZoneInfo, *, end: bool) -> datetime | None:
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        raise InvalidInput(f"{field} must be a text in ISO 8601, not {type(text).__name__}.", field=field)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"Invalid {field} {text!r}. Use ISO 8601: YYYY-MM-DD or YYYY-MM-DDTHH:MM.", field=field
        ) from None
    if end and len(text) == len("2026-05-01"):
        moment = datetime.combine(moment.date(), time.max)
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def parse_search(arguments: dict[str, Any], timezone: str) -> SearchArguments:
    """Check what the model gave. Times without an offset are in the agent's timezone.

    Raises ``InvalidInput`` with a sentence for the model.
    """
    query = arguments.get("query")
    if query is not None and not isinstance(query, str):
        raise InvalidInput("query must be a text.", field="query")
    roles = arguments.get("roles") or list(ROLES)
    if not isinstance(roles, list) or any(role not in ROLES for role in cast("list[object]", roles)):
        raise InvalidInput(f"roles must be a list of some of {', '.join(ROLES)}.", field="roles")
    limit = arguments.get("limit")
    limit = DEFAULT_RESULTS if limit is None else limit
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_RESULTS:
        raise InvalidInput(f"limit must be a whole number from 1 to {MOST_RESULTS}, not {limit!r}.", field="limit")
    zone = ZoneInfo(timezone)
    return SearchArguments(
        query=query or None,
        roles=tuple(cast("list[SearchRole]", roles)),
        limit=limit,
        start=_moment(arguments.get("start_date"), "start_date", zone, end=False),
        end=_moment(arguments.get("end_date"), "end_date", zone, end=True),
    )


def _ago(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit} ago"
    return f"{max(0, int(seconds))}s ago"


def _content(message: Message) -> str:
    text = message.text or "\n".join(part.content for part in message.tool_returns)
    if len(text) <= SNIPPET:
        return text
    return f"{text[:SNIPPET]}… ({len(text)} characters in all; read on with message_id {message.id}, offset {SNIPPET})"


def tell_found(found: Sequence[Message], timezone: str, now: datetime) -> str:
    """Return what the model reads: a JSON object with ``message`` and ``results``, newest first."""
    zone = ZoneInfo(timezone)
    results = [
        {
            "timestamp": message.created_at.astimezone(zone).isoformat(timespec="seconds"),
            "time_ago": _ago((now.astimezone(UTC) - message.created_at).total_seconds()),
            "role": message.role,
            "content": _content(message),
        }
        for message in found
    ]
    note = f"Showing {len(results)} results:" if results else "No results found."
    return msgspec.json.encode({"message": note, "results": results}).decode()
