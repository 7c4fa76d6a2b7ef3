"""Conversations: begin, list, read, change, fork and delete them, and what their prompt holds."""

from collections.abc import Sequence
from typing import Any, Final

from eunoe.runtime.conversations import (
    create_conversation,
    delete_conversation,
    fork_conversation,
    update_conversation,
)
from eunoe.runtime.recompile import recompile
from eunoe.server.routes.named import named_conversation
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.conversations import (
    ConversationBody,
    ConversationPatch,
    ConversationRecompileBody,
    conversation,
    conversation_changes,
    conversation_spec,
)
from eunoe.server.wire.errors import Unprocessable
from eunoe.server.wire.queries import (
    ConversationRecompileQuery,
    ConversationsQuery,
    ForkQuery,
    OwnerQuery,
)
from eunoe.server.wire.requests import Nothing
from eunoe.state.conversations import Conversation
from eunoe.store import conversations, isolated
from eunoe.store.conversations import ConversationQuery
from eunoe.store.database import Transaction
from eunoe.store.listing import window_ids


def shown(tx: Transaction, found: Sequence[Conversation]) -> list[dict[str, Any]]:
    """Return the wire's objects of these conversations."""
    windows = window_ids(tx, found)
    return [
        conversation(one, windows[one.id], [block.id for block in isolated.of_conversation(tx, one.id)])
        for one in found
    ]


async def _meant(call: Call[Any, Any], agent_id: str | None) -> Conversation:
    """Return the conversation that the path names."""
    name = call.path["conversation_id"]
    return await call.runtime.db.read(lambda tx: named_conversation(tx, name, agent_id))


async def _answer(call: Call[Any, Any], made: Conversation) -> object:
    return await call.runtime.db.read(lambda tx: shown(tx, [made])[0])


async def create(call: Call[OwnerQuery, ConversationBody]) -> object:
    """Begin a conversation of an agent."""
    if call.query.agent_id is None:
        raise Unprocessable("agent_id: required, the agent whose conversation it will be")
    return await _answer(
        call, await create_conversation(call.runtime, conversation_spec(call.query.agent_id, call.body))
    )


async def list_conversations(call: Call[ConversationsQuery, Nothing]) -> object:
    """Return a page of conversations."""
    asked = call.query
    query = ConversationQuery(
        before=asked.before,
        after=asked.after,
        limit=asked.limit,
        order=asked.order,
        order_by=asked.order_by,
        agent_id=asked.agent_id,
        summary_search=asked.summary_search,
    )
    return await call.runtime.db.read(lambda tx: shown(tx, conversations.page(tx, query)))


async def retrieve(call: Call[OwnerQuery, Nothing]) -> object:
    """Return one conversation."""
    return await _answer(call, await _meant(call, call.query.agent_id))


async def modify(call: Call[OwnerQuery, ConversationPatch]) -> object:
    """Change the named fields of a conversation."""
    meant = await _meant(call, call.query.agent_id)
    return await _answer(call, await update_conversation(call.runtime, meant.id, conversation_changes(call.body)))


async def delete(call: Call[OwnerQuery, Nothing]) -> object:
    """Delete a conversation, with its own blocks and those of its messages that no other conversation has."""
    meant = await _meant(call, call.query.agent_id)
    await delete_conversation(call.runtime, meant.id)
    return {"message": f"Conversation id={meant.id} successfully deleted"}


async def fork(call: Call[ForkQuery, Nothing]) -> object:
    """Begin a conversation with the same messages, all or up to one of them."""
    meant = await _meant(call, call.query.agent_id)
    made = await fork_conversation(call.runtime, meant.agent_id, meant.id, at_message_id=call.query.message_id)
    return await _answer(call, made)


async def recompile_prompt(call: Call[ConversationRecompileQuery, ConversationRecompileBody]) -> object:
    """Compile a conversation's prompt afresh and return its text."""
    query = call.query
    meant = await _meant(call, call.body.agent_id or query.agent_id)
    return await recompile(
        call.runtime, meant.agent_id, meant.id, update_timestamp=query.update_timestamp, dry_run=query.dry_run
    )


_ALL: Final = "/v1/conversations"
_ONE: Final = "/v1/conversations/{conversation_id}"
_IT: Final = "The conversation."

ROUTES: Final[tuple[Route, ...]] = (
    route("POST", _ALL, "Begin a conversation", create, query=OwnerQuery, body=ConversationBody, answer=_IT),
    route(
        "GET",
        _ALL,
        "List conversations",
        list_conversations,
        query=ConversationsQuery,
        body=Nothing,
        answer="Conversations, newest first by default.",
    ),
    route("GET", _ONE, "Read a conversation", retrieve, query=OwnerQuery, body=Nothing, answer=_IT),
    route("PATCH", _ONE, "Change a conversation", modify, query=OwnerQuery, body=ConversationPatch, answer=_IT),
    route("DELETE", _ONE, "Delete a conversation", delete, query=OwnerQuery, body=Nothing, answer="A message."),
    route("POST", f"{_ONE}/fork", "Fork a conversation", fork, query=ForkQuery, body=Nothing, answer=_IT),
    route(
        "POST",
        f"{_ONE}/recompile",
        "Compile a conversation's prompt afresh",
        recompile_prompt,
        query=ConversationRecompileQuery,
        body=ConversationRecompileBody,
        answer="The compiled system message, a JSON string.",
    ),
)
