"""The compiled prompt of a conversation: compile it, or reuse what is stored (I5)."""

from datetime import datetime

from msgspec import Struct, structs

from eunoe.models.protocol import ModelInfo, Models
from eunoe.prompt.compile import CompiledPrompt, PromptInputs, compile_prompt, fingerprint
from eunoe.state.agents import AgentState
from eunoe.state.conversations import Compiled, Conversation, PromptFacts
from eunoe.state.errors import NotFound, StoreError
from eunoe.state.messages import Message, TextPart
from eunoe.store import conversations, messages, texts
from eunoe.store.database import Transaction

_LINE_NUMBERED_TYPES = frozenset({"letta_v1_agent", "memgpt_v2_agent", "sleeptime_agent"})


class CurrentPrompt(Struct, frozen=True, kw_only=True):
    """The system text that a conversation's next request carries.

    ``fresh`` says that it is what is stored; otherwise it was compiled just now, and ``compiled`` says from what.
    """

    text: str
    compiled: Compiled
    fresh: bool


def prompt_inputs(state: AgentState, conversation: Conversation, model: ModelInfo, facts: PromptFacts) -> PromptInputs:
    """Gather what the text depends on."""
    agent = state.agent
    return PromptInputs(
        agent_id=agent.id,
        conversation_label="default" if conversation.is_default else conversation.id,
        agent_type=agent.agent_type,
        system=agent.system,
        blocks=state.blocks,
        tool_rules=agent.tool_rules,
        line_numbers=model.line_numbers and agent.agent_type in _LINE_NUMBERED_TYPES,
        facts=facts,
        timezone=agent.timezone,
    )


def current_facts(tx: Transaction, conversation: Conversation, now: datetime) -> PromptFacts:
    """Record anew what the metadata section tells: the time, and how many messages are out of view."""
    total = messages.count(tx, conversation.agent_id)
    in_view = len(conversations.window(tx, conversation))
    return PromptFacts(compiled_at=now, message_count=max(0, total - in_view))


def compiled_record(prompt: CompiledPrompt, facts: PromptFacts) -> Compiled:
    """Return what a conversation keeps of a compiled prompt."""
    return Compiled(
        hash=prompt.hash,
        system_hash=prompt.system_hash,
        memory_revision=prompt.memory_revision,
        inputs_hash=prompt.inputs_hash,
        facts=facts,
    )


def current_prompt(
    tx: Transaction,
    state: AgentState,
    conversation: Conversation,
    model: ModelInfo,
    now: datetime,
    *,
    renew_facts: bool = False,
) -> CurrentPrompt:
    """Return what the next request would carry; stores nothing.

    The stored text is reused when the raw system text, the memory revision and all other inputs are those that it was
    made from. The recorded facts are kept unless ``renew_facts``, so that a memory edit changes nothing but memory.
    """
    stored = conversation.compiled
    facts = stored.facts if stored and not renew_facts else current_facts(tx, conversation, now)
    inputs = prompt_inputs(state, conversation, model, facts)
    if stored and not renew_facts:
        made_from = (stored.system_hash, stored.memory_revision, stored.inputs_hash)
        if fingerprint(inputs) == made_from:
            return CurrentPrompt(text=_stored_text(tx, conversation.id, stored.hash), compiled=stored, fresh=True)
    prompt = compile_prompt(inputs)
    return CurrentPrompt(text=prompt.text, compiled=compiled_record(prompt, facts), fresh=False)


def _stored_text(tx: Transaction, conversation_id: str, key: str) -> str:
    try:
        return texts.get(tx, key)
    except NotFound:
        raise StoreError(
            f"The compiled prompt of conversation {conversation_id} is missing from the store. Repair the agent, which "
            f"compiles it afresh, or restore the store from a backup."
        ) from None


def refresh_prompt(
    tx: Transaction,
    state: AgentState,
    conversation: Conversation,
    model: ModelInfo,
    now: datetime,
    *,
    renew_facts: bool = False,
) -> CurrentPrompt:
    """As ``current_prompt``, and store the text if it was compiled anew."""
    current = current_prompt(tx, state, conversation, model, now, renew_facts=renew_facts)
    if not current.fresh:
        texts.put(tx, current.text)
        conversations.set_compiled(tx, conversation.id, current.compiled)
    return current


def conversation_model(models: Models, state: AgentState, conversation: Conversation) -> ModelInfo:
    """Return the model that a turn of this conversation asks: its own, else the agent's."""
    model = models.resolve(conversation.model or state.agent.model)
    if state.agent.context_window:
        return structs.replace(model, context_window=state.agent.context_window)
    return model


def system_message(
    tx: Transaction, state: AgentState, conversation: Conversation, model: ModelInfo, now: datetime
) -> Message:
    """Return the system message as the next request would carry it, in the form of a message.

    It has the conversation's constant ``system_message_id`` and position 0; its text is never kept as a message.
    """
    current = current_prompt(tx, state, conversation, model, now)
    return Message(
        id=conversation.system_message_id,
        agent_id=state.agent.id,
        conversation_id=conversation.id,
        role="system",
        parts=(TextPart(text=current.text),),
        created_at=current.compiled.facts.compiled_at,
        model=model.name,
    )
