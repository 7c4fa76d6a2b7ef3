"""What the metadata section says: who is asked, and what lies outside the window. Format: Letta v1's."""

import datetime as dt
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from eunoe.prompt.escape import escape_line
from eunoe.state.conversations import PromptFacts
from eunoe.state.errors import InvalidInput


def render_metadata(
    *, agent_id: str, conversation_label: str, timezone: str, facts: PromptFacts, memory_note: str = ""
) -> str:
    """Return the metadata section. Raises ``InvalidInput`` when the time zone is unknown.

    ``memory_note`` is the line on memory that could not be read, escaped already; empty when there is none.
    """
    lines = [
        "<memory_metadata>",
        f"- AGENT_ID: {escape_line(agent_id)}",
        f"- CONVERSATION_ID: {escape_line(conversation_label)}",
        f"- System prompt last recompiled: {_local_time(facts.compiled_at, timezone)}",
        f"- {facts.message_count} previous messages between you and the user are stored in recall memory",
    ]
    if facts.archival_count > 0:
        lines.append(
            f"- {facts.archival_count} total memories you created are stored in archival memory "
            "(use tools to access them)"
        )
    if facts.archive_tags:
        tags = ", ".join(escape_line(tag) for tag in sorted(set(facts.archive_tags)))
        lines.append(f"- Available archival memory tags: {tags}")
    if memory_note:
        lines.append(memory_note)
    return "\n".join([*lines, "</memory_metadata>"])


def _local_time(moment: dt.datetime, timezone: str) -> str:
    local = moment.astimezone(_zone(timezone))
    # %p would follow the locale of the process.
    half = "AM" if local.hour < 12 else "PM"
    return f"{local:%Y-%m-%d %I:%M:%S} {half} {local:%Z%z}"


def _zone(name: str) -> dt.tzinfo:
    if name == "UTC":
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidInput(
            f"Time zone {name!r} is unknown on this machine. Use an IANA name such as 'Europe/Rome', or 'UTC'.",
            field="timezone",
        ) from error
