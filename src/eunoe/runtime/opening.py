"""Opening a turn: one transaction that restores the agent, compiles or reuses its prompt, and takes the lease."""

from collections.abc import Callable
from datetime import datetime

from msgspec import structs

from eunoe.models.protocol import ModelInfo, Models
from eunoe.prompt.skills import with_skills
from eunoe.runtime.approvals import WENT_ON, check_same_answer, denials, is_about, match_reply, nothing_pending
from eunoe.runtime.context_anchor import last_context_tokens
from eunoe.runtime.following import follow
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.mirror_notice import mirror_notice
from eunoe.runtime.prompts import conversation_model, memory_update, refresh_prompt
from eunoe.runtime.recovery import close_approval, healed_window, settle_lease
from eunoe.runtime.requests import offered_tools
from eunoe.runtime.skill_places import OutsideSkills, turn_skills
from eunoe.runtime.turn import MOST_STEPS, AlreadyStarted, Turn, TurnRequest
from eunoe.state.agents import AgentState
from eunoe.state.approvals import Answer, Approval
from eunoe.state.conversations import Conversation
from eunoe.state.errors import InvalidInput, NotFound, PendingApproval
from eunoe.state.ids import new_id
from eunoe.state.messages import ApprovalPart, Message, NewMessage
from eunoe.state.runs import Run
from eunoe.store import agents, approvals, conversations, isolated, messages, runs, steps
from eunoe.store.database import Transaction


def check_request(request: TurnRequest) -> None:
    """Raise ``InvalidInput`` for a request that asks nothing, or for too many steps."""
    if not request.messages and request.reply is None:
        raise InvalidInput("Messages must not be empty", field="messages")
    if not 1 <= request.max_steps <= MOST_STEPS:
        raise InvalidInput(f"max_steps must be from 1 to {MOST_STEPS}, not {request.max_steps}.", field="max_steps")


def new_message(given: NewMessage, agent_id: str, conversation_id: str, run_id: str | None, now: datetime) -> Message:
    """Return a caller's message as it will be stored."""
    return Message(
        id=new_id("message"),
        agent_id=agent_id,
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


def find_conversation(tx: Transaction, state: AgentState, conversation_id: str | None) -> Conversation:
    """Return the agent's conversation of this id, or its default one. Raises ``NotFound``."""
    if conversation_id is None:
        return state.conversation
    conversation = conversations.get(tx, conversation_id)
    if conversation.agent_id != state.agent.id:
        raise NotFound("Conversation", conversation_id)
    return conversation


def state_in(tx: Transaction, agent_id: str, conversation_id: str | None) -> tuple[AgentState, Conversation]:
    """Return an agent as one of its conversations sees it: with that conversation's own blocks in place.

    Raises ``NotFound``.
    """
    state = agents.state(tx, agent_id)
    conversation = find_conversation(tx, state, conversation_id)
    if conversation.is_default:
        return state, conversation
    own = isolated.of_conversation(tx, conversation.id)
    if not own:
        return state, conversation
    return structs.replace(state, blocks=isolated.in_place_of(state.blocks, own), isolated=True), conversation


def _taken_before(tx: Transaction, request: TurnRequest, conversation: Conversation) -> None:
    """Raise ``AlreadyStarted`` for messages, or for a reply, that a run of the conversation was started with.

    Raises ``Conflict`` for a reply that says something else than the one before.
    """
    otids = [given.otid for given in request.messages if given.otid]
    run_id = messages.run_of_otids(tx, conversation.id, otids) if otids else None
    reply = request.reply
    if run_id is None and reply is not None:
        pending = approvals.open_of(tx, conversation.id)
        if pending is None or not is_about(pending, reply):
            earlier = approvals.last_answered(tx, conversation.id, reply.call_ids, reply.request_id)
            if earlier is not None:
                check_same_answer(earlier, reply)
                run_id = earlier.answer_run_id
    if run_id is not None:
        raise AlreadyStarted(run_id)


def _clear_window(tx: Transaction, conversation: Conversation, now: datetime) -> Conversation:
    fresh = conversations.get(tx, conversation.id)
    cleared = structs.replace(fresh, window_from=fresh.next_position, summary_message_id=None)
    return conversations.update(tx, cleared, now=now)


def _answered(
    tx: Transaction,
    request: TurnRequest,
    conversation: Conversation,
    pending: Approval | None,
    run_id: str,
    now: datetime,
) -> tuple[Answer, ...]:
    """Record the request's reply, and return its answers. Raises ``InvalidInput``."""
    reply = request.reply
    if reply is None:
        return ()
    if pending is None:
        raise nothing_pending()
    answers = match_reply(pending, reply)
    by = "user" if all(isinstance(answer, ApprovalPart) for answer in answers) else "client"
    approvals.answer(tx, pending, answers, by=by, run_id=run_id, now=now)
    record = Message(
        id=new_id("message"),
        agent_id=conversation.agent_id,
        conversation_id=conversation.id,
        role="approval",
        parts=answers,
        created_at=now,
        run_id=run_id,
        meta={"approval_request_id": pending.message_id},
    )
    messages.append(tx, conversation.id, [record], now)
    return answers


def _open_question(
    tx: Transaction, request: TurnRequest, conversation: Conversation, run_id: str, now: datetime
) -> Approval | None:
    """Return the question that waits, after closing one that is over or that the caller passes by.

    Raises ``PendingApproval``.
    """
    pending = approvals.open_of(tx, conversation.id)
    if pending is None:
        return None
    if pending.expires_at is not None and pending.expires_at <= now:
        close_approval(tx, pending, by="timeout", run_id=run_id, now=now)
        return None
    if request.reply is not None:
        return pending
    if request.on_pending == "deny_and_continue":
        close_approval(tx, pending, denials(pending, WENT_ON), by="policy", run_id=run_id, now=now)
        return None
    raise PendingApproval(pending.message_id)


def _turn_model(models: Models, request: TurnRequest, state: AgentState, conversation: Conversation) -> ModelInfo:
    if request.override_model:
        return models.resolve(request.override_model)
    return conversation_model(models, state, conversation)


def open_turn(
    tx: Transaction,
    request: TurnRequest,
    *,
    run_id: str,
    owner: str,
    is_running: Callable[[Conversation], bool],
    models: Models,
    homes: MemoryHomes,
    outside: OutsideSkills,
    now: datetime,
) -> Turn:
    """Restore the agent, heal what a crash left, and store the run with the request's messages.

    ``is_running`` says whether the run that holds a conversation's lease still lives; ``outside`` are the skills that
    are not the agent's own. Everything here is one
    transaction: it is stored whole, or the request leaves no trace.
    Raises ``NotFound``, ``ConversationBusy``, ``PendingApproval``, ``InvalidInput`` and ``AlreadyStarted``; and
    ``Conflict`` for a reply that contradicts the answer which a question had before.
    """
    check_request(request)
    follow(tx, homes, request.agent_id, now)
    state, conversation = state_in(tx, request.agent_id, request.conversation_id)
    model = _turn_model(models, request, state, conversation)
    _taken_before(tx, request, conversation)
    settle_lease(tx, conversation, is_running=is_running, now=now)
    pending = _open_question(tx, request, conversation, run_id, now)
    if state.agent.message_buffer_autoclear and pending is None:
        conversation = _clear_window(tx, conversation, now)
    window = healed_window(tx, conversation, run_id=run_id, now=now)
    policy = request.memory_refresh or state.agent.memory_refresh
    prompt = refresh_prompt(tx, state, conversation, model, now, policy=policy)
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
    answers = _answered(tx, request, conversation, pending, run_id, now)
    given = [new_message(one, state.agent.id, conversation.id, run_id, now) for one in request.messages]
    if policy == "append" and not answers:
        update = memory_update(tx, state, conversation, model, prompt, run_id=run_id, now=now)
        given = [update, *given] if update else given
    if not answers:
        notice = mirror_notice(tx, state, conversation.id, run_id=run_id, now=now)
        given = [notice, *given] if notice else given
    if answers:
        window = conversations.window(tx, conversation)  # with the record of the answer
    conversation = conversations.take_lease(
        tx, conversation.id, run_id=run_id, owner=owner, now=now, expires_at=None, places=len(given)
    )
    stored = messages.append_reserved(tx, conversation.id, conversation.next_position, given)
    skills = turn_skills(homes, state, request, outside)
    asked = next((one for one in window if pending and one.id == pending.message_id), None) if answers else None
    return Turn(
        request=request,
        run=run,
        fence=conversation.fence,
        state=state,
        conversation=conversation,
        model=model,
        system=request.override_system or with_skills(prompt.text, skills),
        messages=list(window) if answers else [*window, *stored],
        asked=asked,
        asked_step=steps.get(tx, asked.step_id) if asked and asked.step_id else None,
        answers=answers,
        following=stored if answers else (),
        skills=skills,
        offered=offered_tools(state.tools, request.client_tools),
        context_tokens=last_context_tokens(tx, window),
    )
