"""Opening a turn: one transaction that restores the agent, compiles or reuses its prompt, and takes the lease."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, structs

from eunoe.models.protocol import ModelInfo, Models
from eunoe.prompt.skills import Skill, with_skills
from eunoe.runtime.prompts import conversation_model, refresh_prompt
from eunoe.runtime.recovery import close_broken_calls, settle_lease
from eunoe.state.agents import AgentState
from eunoe.state.conversations import Conversation
from eunoe.state.errors import InvalidInput, NotFound
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, NewMessage
from eunoe.state.runs import Run, Usage
from eunoe.state.tools import ToolSchema
from eunoe.store import agents, conversations, messages, runs
from eunoe.store.database import Transaction

DEFAULT_MAX_STEPS = 50
MOST_STEPS = 1_000


class TurnRequest(Struct, frozen=True, kw_only=True):
    """What a caller asks of an agent.

    ``conversation_id`` is ``None`` for the default conversation. ``on_busy`` says what to do when another run holds
    the conversation: wait for it (bounded by the settings) or raise ``ConversationBusy``. ``options`` are kept with
    the run as the caller's.
    """

    agent_id: str
    messages: tuple[NewMessage, ...]
    conversation_id: str | None = None
    max_steps: int = DEFAULT_MAX_STEPS
    client_tools: tuple[ToolSchema, ...] = ()
    client_skills: tuple[Skill, ...] = ()
    override_model: str | None = None
    override_system: str | None = None
    background: bool = False
    on_busy: Literal["wait", "reject"] = "reject"
    options: dict[str, Any] = {}


class Turn(Struct, kw_only=True):
    """A turn that goes on: what was restored, and what has happened since (the only mutable state of a run).

    ``messages`` is the window without the system message. ``asked`` is the stored assistant message whose calls have no
    stored return yet; ``shown`` is text of an answer that was told and is not stored yet.
    """

    request: TurnRequest
    run: Run
    fence: int
    state: AgentState
    conversation: Conversation
    model: ModelInfo
    system: str
    messages: list[Message]
    usage: Usage = Usage()
    steps: int = 0
    context_tokens: int | None = None
    asked: Message | None = None
    shown: list[str] = []


def _check(request: TurnRequest) -> None:
    if not request.messages:
        raise InvalidInput("Messages must not be empty", field="messages")
    if not 1 <= request.max_steps <= MOST_STEPS:
        raise InvalidInput(f"max_steps must be from 1 to {MOST_STEPS}, not {request.max_steps}.", field="max_steps")


def stored_messages(request: TurnRequest, conversation_id: str, run_id: str | None, now: datetime) -> list[Message]:
    """Return the request's messages as they will be stored."""
    return [
        Message(
            id=new_id("message"),
            agent_id=request.agent_id,
            conversation_id=conversation_id,
            role=given.role,
            parts=given.parts,
            created_at=given.created_at or now,
            otid=given.otid,
            name=given.name,
            sender_id=given.sender_id,
            group_id=given.group_id,
            run_id=run_id,
        )
        for given in request.messages
    ]


def find_conversation(tx: Transaction, state: AgentState, conversation_id: str | None) -> Conversation:
    """Return the agent's conversation of this id, or its default one. Raises ``NotFound``."""
    if conversation_id is None:
        return state.conversation
    conversation = conversations.get(tx, conversation_id)
    if conversation.agent_id != state.agent.id:
        raise NotFound("Conversation", conversation_id)
    return conversation


def open_turn(
    tx: Transaction,
    request: TurnRequest,
    *,
    run_id: str,
    owner: str,
    is_running: Callable[[Conversation], bool],
    models: Models,
    now: datetime,
) -> Turn:
    """Restore the agent, heal what a crash left, and store the run with the request's messages.

    ``is_running`` says whether the run that holds a conversation's lease still lives. Everything here is one
    transaction: it is stored whole, or the request leaves no trace.
    Raises ``NotFound``, ``ConversationBusy`` and ``InvalidInput``.
    """
    _check(request)
    state = agents.state(tx, request.agent_id)
    conversation = find_conversation(tx, state, request.conversation_id)
    model = (
        models.resolve(request.override_model)
        if request.override_model
        else conversation_model(models, state, conversation)
    )
    settle_lease(tx, conversation, is_running=is_running, now=now)
    if state.agent.message_buffer_autoclear:
        conversation = conversations.get(tx, conversation.id)
        conversation = conversations.update(
            tx,
            structs.replace(conversation, window_from=conversation.next_position, summary_message_id=None),
            now=now,
        )
    close_broken_calls(tx, conversation, run_id=run_id, now=now)
    prompt = refresh_prompt(tx, state, conversation, model, now)
    run = Run(
        id=run_id,
        agent_id=state.agent.id,
        conversation_id=conversation.id,
        status="running",
        created_at=now,
        background=request.background,
        request=request.options,
    )
    runs.insert(tx, run)
    fence = conversations.take_lease(tx, conversation.id, run_id=run_id, owner=owner, now=now, expires_at=None)
    messages.append(tx, conversation.id, stored_messages(request, conversation.id, run_id, now), now)
    conversation = conversations.get(tx, conversation.id)
    return Turn(
        request=request,
        run=run,
        fence=fence,
        state=state,
        conversation=conversation,
        model=model,
        system=request.override_system or with_skills(prompt.text, request.client_skills),
        messages=list(conversations.window(tx, conversation)),
    )
