"""The compiled prompt of a conversation: compile it, or reuse what is stored (I5)."""

import hashlib
from datetime import datetime

import msgspec
from msgspec import Struct, structs

from eunoe.models.protocol import ModelInfo, Models
from eunoe.prompt.compile import CompiledPrompt, PromptInputs, compile_prompt, fingerprint, render_update
from eunoe.prompt.files import FileView, ShownFile, Unread
from eunoe.state.agents import AgentState
from eunoe.state.conversations import Compiled, Conversation, PromptFacts
from eunoe.state.errors import NotFound, StoreError
from eunoe.state.ids import new_id
from eunoe.state.memory import RefreshPolicy
from eunoe.state.messages import Message, TextPart
from eunoe.store import conversations, messages, texts
from eunoe.store.database import Transaction

_LINE_NUMBERED_TYPES = frozenset({"letta_v1_agent", "memgpt_v2_agent", "sleeptime_agent"})


class CurrentPrompt(Struct, frozen=True, kw_only=True):
    """The system text that a conversation's next request carries.

    ``fresh`` says that the stored text is up to date; otherwise it was compiled just now, and ``compiled`` says from
    what. ``stale`` is the memory revision that a kept text does not show, under a policy other than ``recompile``.
    """

    text: str
    compiled: Compiled
    fresh: bool
    stale: str | None = None


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
        files=memory_view(state),
    )


def memory_view(state: AgentState) -> FileView | None:
    """Return an agent's memory files as the prompt shows them, ``None`` when its memory is blocks.

    The blocks are the files of one commit (I7); a conversation's own blocks are told apart by the revision.
    """
    head = state.memory
    if head is None:
        return None
    revision = head.revision
    if state.isolated:
        shown = [(block.label, block.revision, block.id) for block in state.blocks]
        revision = f"{revision}+{hashlib.sha256(msgspec.json.encode(shown)).hexdigest()}"
    return FileView(
        revision=revision,
        layout=head.layout,
        files=tuple(
            ShownFile(path=f"{block.label}.md", description=block.description, value=block.value)
            for block in state.blocks
            if not block.hidden
        ),
        names=head.names,
        folders=head.folders,
        unread=Unread(revision=head.unread.revision, reason=head.unread.reason) if head.unread else None,
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
    policy: RefreshPolicy | None = None,
) -> CurrentPrompt:
    """Return what the next request would carry; stores nothing.

    The stored text is reused when the raw system text, the memory revision and all other inputs are those that it was
    made from. The recorded facts are kept unless ``renew_facts``, so that a memory edit changes nothing but memory.
    ``policy`` (the agent's, if ``None``) says what a change of memory alone does: ``append`` and ``defer`` keep the
    text, which is then stale.
    """
    stored = conversation.compiled
    facts = stored.facts if stored and not renew_facts else current_facts(tx, conversation, now)
    inputs = prompt_inputs(state, conversation, model, facts)
    if stored and not renew_facts:
        system_hash, memory_revision, inputs_hash = fingerprint(inputs)
        if (system_hash, inputs_hash) == (stored.system_hash, stored.inputs_hash):
            same = memory_revision == stored.memory_revision
            if same or (policy or state.agent.memory_refresh) != "recompile":
                text = _stored_text(tx, conversation.id, stored.hash)
                return CurrentPrompt(text=text, compiled=stored, fresh=same, stale=None if same else memory_revision)
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
    policy: RefreshPolicy | None = "recompile",
) -> CurrentPrompt:
    """As ``current_prompt``, and store the text if it was compiled anew; always afresh unless a policy is given."""
    current = current_prompt(tx, state, conversation, model, now, renew_facts=renew_facts, policy=policy)
    if not current.fresh and current.stale is None:
        texts.put_hashed(tx, current.compiled.hash, current.text)
        conversations.set_compiled(tx, conversation.id, current.compiled)
    return current


def memory_update(
    tx: Transaction,
    state: AgentState,
    conversation: Conversation,
    model: ModelInfo,
    current: CurrentPrompt,
    *,
    run_id: str,
    now: datetime,
) -> Message | None:
    """Return the message that tells the model of memory that its system message does not show, and record it as told.

    ``None`` when the newest revision is shown or was told before. Every later request carries the message until the
    next compile.
    """
    compiled, revision = current.compiled, current.stale
    shown_again = current.fresh and compiled.told_revision not in {None, compiled.memory_revision}
    if shown_again:
        revision = compiled.memory_revision
    if revision is None or revision == compiled.told_revision:
        return None
    inputs = prompt_inputs(state, conversation, model, compiled.facts)
    conversations.set_compiled(tx, conversation.id, structs.replace(compiled, told_revision=revision))
    return Message(
        id=new_id("message"),
        agent_id=state.agent.id,
        conversation_id=conversation.id,
        role="system",
        parts=(TextPart(text=render_update(inputs, revision[:40])),),
        run_id=run_id,
        created_at=now,
        meta={"memory_update": revision},
    )


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
