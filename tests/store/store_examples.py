"""Things to store, and a store whose transactions a synchronous test can run."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal

from eunoe.state.agents import Agent
from eunoe.state.blocks import Block
from eunoe.state.conversations import Conversation
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, Role, TextPart
from eunoe.store import agents, blocks, conversations
from eunoe.store.database import Database, Transaction

T = TypeVar("T")

NOW = datetime(2026, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


class Store:
    """A database whose transactions block until they have ended."""

    def __init__(self, portal: BlockingPortal, database: Database) -> None:
        self._portal = portal
        self.database = database

    def read(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        return self._portal.call(self.database.read, lambda tx: work(tx, *args, **options))

    def write(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        return self._portal.call(self.database.write, lambda tx: work(tx, *args, **options))


def an_agent(**fields: Any) -> Agent:
    given: dict[str, Any] = {
        "id": new_id("agent"),
        "name": "Ada",
        "created_at": NOW,
        "updated_at": NOW,
        "system": "You are Ada.",
        "model": "scripted/demo",
    }
    return Agent(**(given | fields))


def a_block(label: str = "human", value: str = "Likes maps.", **fields: Any) -> Block:
    given: dict[str, Any] = {"id": new_id("block"), "created_at": NOW, "updated_at": NOW}
    return Block(label=label, value=value, **(given | fields))


def a_conversation(agent_id: str, *, is_default: bool = True, **fields: Any) -> Conversation:
    given: dict[str, Any] = {
        "id": new_id("conv"),
        "system_message_id": new_id("message"),
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Conversation(agent_id=agent_id, is_default=is_default, **(given | fields))


def a_message(conversation: Conversation, text: str = "Hello.", role: Role = "user", **fields: Any) -> Message:
    given: dict[str, Any] = {
        "id": new_id("message"),
        "agent_id": conversation.agent_id,
        "conversation_id": conversation.id,
        "created_at": NOW,
        "parts": (TextPart(text=text),),
    }
    return Message(role=role, **(given | fields))


def stored_conversation(tx: Transaction, **fields: Any) -> Conversation:
    """Store an agent with an empty default conversation, and return that."""
    agent = an_agent(**fields)
    agents.insert(tx, agent)
    conversation = a_conversation(agent.id)
    conversations.insert(tx, conversation)
    return conversation


def stored_block(tx: Transaction, *agent_ids: str, **fields: Any) -> Block:
    """Store a block, attach it to these agents, and return it."""
    block = a_block(**fields)
    blocks.insert(tx, block)
    for agent_id in agent_ids:
        blocks.attach(tx, agent_id, block.id)
    return block
