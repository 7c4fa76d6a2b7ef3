"""Messages: list what was said."""

from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from eunoe.models.protocol import Models
from eunoe.runtime.opening import state_in
from eunoe.runtime.prompts import conversation_model, system_message
from eunoe.runtime.runtime import utc_now
from eunoe.server.routes.named import named_conversation
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.messages import View, listed, roles_of
from eunoe.server.wire.queries import MessagesQuery, NoQuery, ShownMessages
from eunoe.server.wire.requests import Nothing
from eunoe.server.wire.turns import view_for
from eunoe.state.messages import Message
from eunoe.store import agents, messages
from eunoe.store.database import Transaction
from eunoe.store.messages import MessageQuery


async def list_of_agent(call: Call[MessagesQuery, Nothing]) -> object:
    """Return a page of an agent's messages; the system message is the oldest one."""
    query, agent_id, now = call.query, call.path["agent_id"], utc_now()
    named = query.conversation_id

    def read(tx: Transaction) -> object:
        conversation = None if named is None else named_conversation(tx, named, agent_id).id
        return messages_of(tx, call.runtime.models, agent_id, conversation, query, now)

    return await call.runtime.db.read(read)


def messages_of(
    tx: Transaction, models: Models, agent_id: str, conversation_id: str | None, query: ShownMessages, now: datetime
) -> list[dict[str, Any]]:
    """Return a page of the messages of a conversation, or of all of an agent's.

    The system message is the oldest one; of all conversations it is that of the default one. Raises ``NotFound``.
    """
    state, conversation = state_in(tx, agent_id, conversation_id)
    model = conversation_model(models, state, conversation)
    wanted = MessageQuery(
        agent_id=agent_id,
        conversation_id=conversation_id,
        before=query.before,
        after=query.after,
        limit=query.limit,
        order=query.order,
        roles=roles_of(query.include_return_message_types),
    )
    page = page_with_system(tx, wanted, system_message(tx, state, conversation, model, now))
    return listed(page, view_for(state.agent.agent_type, query), newest_first=query.order == "desc")


def page_with_system(tx: Transaction, query: MessageQuery, system: Message) -> list[Message]:
    """Return a page of messages as if the system message were stored as the oldest one."""
    limit = query.limit or 0
    if query.order == "asc":
        if query.before == system.id:
            return []
        if query.after == system.id:
            return messages.page(tx, replace(query, after=None))
        found = messages.page(tx, query)
        if query.after is not None or (query.before is not None and len(found) == limit):
            return found
        joined = [system, *found]
        return joined if query.before is not None else joined[:limit]
    if query.after == system.id:
        return []
    if query.before == system.id:
        return messages.page(tx, replace(query, before=None, order="asc"))[::-1]
    found = messages.page(tx, query)
    return found if query.before is not None or len(found) == limit else [*found, system]


async def list_all(call: Call[MessagesQuery, Nothing]) -> object:
    """Return a page of the messages of all agents."""
    query = call.query
    wanted = MessageQuery(
        conversation_id=query.conversation_id,
        before=query.before,
        after=query.after,
        limit=query.limit,
        order=query.order,
        roles=roles_of(query.include_return_message_types),
    )

    def read(tx: Transaction) -> object:
        found = messages.page(tx, wanted)
        return shown_to_caller(tx, found, query, newest_first=query.order == "desc")

    return await call.runtime.db.read(read)


def shown_to_caller(
    tx: Transaction, found: list[Message], query: ShownMessages, *, newest_first: bool = False
) -> list[dict[str, Any]]:
    """Return what the wire lists for messages of several agents, each shown as its agent's type wants."""
    ids = sorted({message.agent_id for message in found})
    views: dict[str, View] = {agent.id: view_for(agent.agent_type, query) for agent in agents.many(tx, ids)}
    out: list[dict[str, Any]] = []
    for message in found:
        out.extend(listed([message], views[message.agent_id], newest_first=newest_first))
    return out


async def retrieve(call: Call[NoQuery, Nothing]) -> object:
    """Return what the wire shows of one stored message: a list."""
    message_id = call.path["message_id"]

    def read(tx: Transaction) -> object:
        found = messages.get(tx, message_id)
        return listed([found], View())

    return await call.runtime.db.read(read)


_OF_AGENT: Final = "/v1/agents/{agent_id}/messages"

ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        _OF_AGENT,
        "List an agent's messages",
        list_of_agent,
        query=MessagesQuery,
        body=Nothing,
        answer="Messages, newest first by default.",
    ),
    route(
        "GET",
        "/v1/messages",
        "List the messages of all agents",
        list_all,
        query=MessagesQuery,
        body=Nothing,
        answer="Messages, newest first by default.",
    ),
    route(
        "GET",
        "/v1/messages/{message_id}",
        "Read one message",
        retrieve,
        query=NoQuery,
        body=Nothing,
        answer="A list: what is shown of one stored message.",
    ),
)
