"""Conversations with a history to compact, and occasions to compact them as a run does."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from eunoe.embedded import Agent, Home
from eunoe.models.protocol import ModelRequest
from eunoe.runtime.compact import Compacted, Occasion, Trigger, compact
from eunoe.runtime.compaction_settings import read_compaction_settings
from eunoe.runtime.context_anchor import last_context_tokens
from eunoe.runtime.prompts import conversation_model, current_prompt
from eunoe.runtime.requests import schema_of
from eunoe.runtime.runtime import utc_now
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, Part, Role, TextPart, ToolCallPart, ToolReturnPart
from eunoe.store import agents, conversations, messages
from eunoe.store.database import Transaction

THEN = datetime(2026, 5, 1, 12, tzinfo=UTC)


def message(role: Role, *parts: Part, **fields: Any) -> Message:
    named = {"id": new_id("message"), "agent_id": "", "conversation_id": "", **fields}
    return Message(role=role, parts=parts, created_at=THEN, **named)


def said(role: Role, text: str, **fields: Any) -> Message:
    return message(role, TextPart(text=text), **fields)


def asks(*call_ids: str, **fields: Any) -> Message:
    calls = (ToolCallPart(id=call_id, name="look", arguments="{}") for call_id in call_ids)
    return message("assistant", *calls, **fields)


def returns(*call_ids: str, content: str = "seen") -> Message:
    return message(
        "tool", *(ToolReturnPart(tool_call_id=call_id, name="look", content=content) for call_id in call_ids)
    )


def exchange(count: int, size: int = 20) -> list[Message]:
    """Questions and answers in turn, ``count`` of each, of at least ``size`` characters, each one different."""
    return [said(role, f"{word} {i} {'x' * size}") for i in range(count) for role, word in _ROLES]


_ROLES: tuple[tuple[Role, str], ...] = (("user", "question"), ("assistant", "answer"))


async def store(home: Home, agent: Agent, history: Sequence[Message]) -> tuple[Message, ...]:
    """Add a history to the agent's default conversation."""

    def append(tx: Transaction) -> tuple[Message, ...]:
        conversation = conversations.default(tx, agent.id)
        own = [
            Message(
                id=one.id,
                agent_id=agent.id,
                conversation_id=conversation.id,
                role=one.role,
                parts=one.parts,
                created_at=one.created_at,
                needs_approval=one.needs_approval,
            )
            for one in history
        ]
        return messages.append(tx, conversation.id, own, utc_now())

    return await home.runtime.db.write(append)


async def history_of(home: Home, agent: Agent) -> list[Message]:
    """Return everything that is stored of the agent's default conversation, in or out of view, without summaries."""
    return await home.runtime.db.read(
        lambda tx: list(messages.tail(tx, conversations.default(tx, agent.id).id, from_position=0))
    )


async def occasion_of(
    home: Home,
    agent: Agent,
    *,
    fence: int | None = None,
    trigger: Trigger = "context_window_exceeded",
    **settings: Any,
) -> Occasion:
    """Return what a step of a run on this window would have compacted."""

    def look(tx: Transaction) -> Occasion:
        state = agents.state(tx, agent.id)
        conversation = state.conversation
        model = conversation_model(home.runtime.models, state, conversation)
        window = conversations.window(tx, conversation)
        return Occasion(
            request=ModelRequest(
                model=model,
                system=current_prompt(tx, state, conversation, model, utc_now()).text,
                messages=window,
                tools=tuple(schema_of(tool) for tool in state.tools),
            ),
            conversation=conversation,
            trigger=trigger,
            settings=read_compaction_settings(settings or state.agent.compaction_settings),
            context_tokens=last_context_tokens(tx, window),
            fence=fence,
        )

    return await home.runtime.db.read(look)


async def compact_in_run(
    home: Home, agent: Agent, *, trigger: Trigger = "context_window_exceeded", **settings: Any
) -> Compacted | None:
    """Compact the window as the run that holds it."""

    def lease(tx: Transaction) -> int:
        conversation = conversations.default(tx, agent.id)
        return conversations.take_lease(
            tx, conversation.id, run_id=new_id("run"), owner="a test", now=utc_now(), expires_at=None
        ).fence

    fence = await home.runtime.db.write(lease)
    occasion = await occasion_of(home, agent, fence=fence, trigger=trigger, **settings)
    return await compact(home.runtime.db, home.runtime.models, occasion, utc_now)
