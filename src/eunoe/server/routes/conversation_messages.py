"""A conversation's messages: send them, list them, cancel what they began."""

from typing import Final

from msgspec.structs import replace
from starlette.responses import Response

from eunoe.runtime.runtime import utc_now
from eunoe.runtime.turn import TurnRequest
from eunoe.server.routes.cancelling import RUNS, cancel_runs
from eunoe.server.routes.messages import messages_of
from eunoe.server.routes.named import named_conversation
from eunoe.server.routes.sending import previewed, send_turn
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.queries import ConversationMessagesQuery, NoQuery, OwnerQuery
from eunoe.server.wire.requests import ConversationSendBody, Nothing
from eunoe.server.wire.turns import turn_request
from eunoe.store.database import Transaction


async def _request(call: Call[NoQuery, ConversationSendBody]) -> TurnRequest:
    name, body = call.path["conversation_id"], call.body
    meant = await call.runtime.db.read(lambda tx: named_conversation(tx, name, body.agent_id))
    return turn_request(meant.agent_id, replace(body, conversation_id=meant.id))


async def send(call: Call[NoQuery, ConversationSendBody]) -> Response:
    """Send messages to a conversation; the answer streams unless streaming=false."""
    return await send_turn(call.runtime, call.limits, await _request(call), call.body)


async def preview_payload(call: Call[NoQuery, ConversationSendBody]) -> object:
    """Return the request that these messages would send to the model; nothing is stored or sent."""
    return await previewed(call.runtime, await _request(call))


async def list_of_conversation(call: Call[ConversationMessagesQuery, Nothing]) -> object:
    """Return a page of a conversation's messages; the system message is the oldest one."""
    query, name, now = call.query, call.path["conversation_id"], utc_now()

    def read(tx: Transaction) -> object:
        meant = named_conversation(tx, name, query.agent_id)
        return messages_of(tx, call.runtime.models, meant.agent_id, meant.id, query, now)

    return await call.runtime.db.read(read)


async def cancel(call: Call[OwnerQuery, Nothing]) -> object:
    """End what goes on in a conversation as cancelled, with the question that waits there."""
    name, agent_id = call.path["conversation_id"], call.query.agent_id
    meant = await call.runtime.db.read(lambda tx: named_conversation(tx, name, agent_id))
    return await cancel_runs(call.runtime, meant.agent_id, conversation_id=meant.id)


_ONE: Final = "/v1/conversations/{conversation_id}"

ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        f"{_ONE}/messages",
        "List a conversation's messages",
        list_of_conversation,
        query=ConversationMessagesQuery,
        body=Nothing,
        answer="Messages, newest first by default.",
    ),
    route(
        "POST",
        f"{_ONE}/messages",
        "Send messages to a conversation",
        send,
        query=NoQuery,
        body=ConversationSendBody,
        answer="Server-sent events; with streaming=false messages, stop reason and usage.",
    ),
    route(
        "POST",
        f"{_ONE}/messages/preview-raw-payload",
        "Show the request that messages would send to the model",
        preview_payload,
        query=NoQuery,
        body=ConversationSendBody,
        answer="The body of the request, in the provider's form.",
    ),
    route("POST", f"{_ONE}/cancel", "Cancel runs", cancel, query=OwnerQuery, body=Nothing, answer=RUNS),
)
