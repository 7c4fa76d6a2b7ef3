"""Compaction by call."""

from typing import Final

from eunoe.runtime.compaction_call import compact_conversation
from eunoe.server.routes.named import named_conversation
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.compaction import outcome
from eunoe.server.wire.conversations import CompactBody, ConversationCompactBody
from eunoe.server.wire.queries import NoQuery


async def summarize(call: Call[NoQuery, CompactBody]) -> object:
    """Compact an agent's default conversation now."""
    settings = call.body.compaction_settings
    return outcome(await compact_conversation(call.runtime, call.path["agent_id"], settings_override=settings))


async def compact(call: Call[NoQuery, ConversationCompactBody]) -> object:
    """Compact a conversation now."""
    name, body = call.path["conversation_id"], call.body
    meant = await call.runtime.db.read(lambda tx: named_conversation(tx, name, body.agent_id))
    return outcome(await compact_conversation(call.runtime, meant.agent_id, meant.id, body.compaction_settings))


_DONE: Final = "The summary, and how many messages were in view before and after."

ROUTES: Final[tuple[Route, ...]] = (
    route(
        "POST",
        "/v1/agents/{agent_id}/summarize",
        "Compact an agent's messages",
        summarize,
        query=NoQuery,
        body=CompactBody,
        answer=_DONE,
    ),
    route(
        "POST",
        "/v1/conversations/{conversation_id}/compact",
        "Compact a conversation's messages",
        compact,
        query=NoQuery,
        body=ConversationCompactBody,
        answer=_DONE,
    ),
)
