"""Which conversation a path means: one by its id, or an agent's default one."""

from typing import Final

from eunoe.server.wire.errors import EXAMPLE_UUID, Unprocessable
from eunoe.state.conversations import Conversation
from eunoe.state.errors import NotFound
from eunoe.state.ids import is_id
from eunoe.store import conversations
from eunoe.store.database import Transaction

DEFAULT: Final = "default"
"""The name of every agent's default conversation; it needs the agent's id beside it."""


def named_conversation(tx: Transaction, name: str, agent_id: str | None) -> Conversation:
    """Return the conversation: by its id, by ``default`` with an agent's id, or (deprecated) by an agent's id alone.

    Raises ``NotFound``, also when the conversation is not this agent's, and ``Unprocessable`` for any other name.
    """
    if name == DEFAULT:
        if agent_id is None:
            raise Unprocessable("agent_id: required when the conversation is 'default'")
        return conversations.default(tx, agent_id)
    if is_id("agent", name):
        return conversations.default(tx, name)
    if not is_id("conv", name):
        example = f"conv-{EXAMPLE_UUID}"
        raise Unprocessable(f"conversation_id: {name!r} is no id of the form {example}", examples=(example, DEFAULT))
    found = conversations.get(tx, name)
    if agent_id not in {None, found.agent_id}:
        raise NotFound("Conversation", name, f"Agent {agent_id} has no conversation {name}")
    return found
