"""Creating and changing agents: defaults by type, checks, and one transaction each (I13)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import UNSET, UnsetType, structs

from eunoe.memory.verdict import check_text
from eunoe.models.protocol import ModelInfo
from eunoe.models.settings import read_settings
from eunoe.prompt.system import default_system
from eunoe.runtime.approvals import RESET, denials
from eunoe.runtime.blocks import attach_block, create_block, detach_block, with_default_description
from eunoe.runtime.commit import commit
from eunoe.runtime.compaction_settings import check_compaction_settings, merge_compaction_settings
from eunoe.runtime.converting import begin_files, end_files, tagged, wants_files
from eunoe.runtime.file_tools import attach_file_tools, detach_file_tools
from eunoe.runtime.following import follow
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.prompts import refresh_prompt
from eunoe.runtime.recovery import settle_lease
from eunoe.runtime.rule_checks import check_rules, without_duplicates
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.agents import Agent, AgentChanges, AgentSpec, AgentState
from eunoe.state.conversations import Conversation
from eunoe.state.errors import InvalidInput
from eunoe.state.ids import new_id
from eunoe.state.messages import Message
from eunoe.state.reflections import companion_tag
from eunoe.state.rules import ApprovalRule, ToolRule
from eunoe.state.tools import Tool
from eunoe.store import (
    agents,
    approvals,
    blocks,
    conversations,
    identities,
    isolated,
    memory_heads,
    messages,
    secrets,
    tools,
)
from eunoe.store.agents import AgentQuery
from eunoe.store.database import Transaction
from eunoe.tools.builtin import default_rules, default_tools

T = TypeVar("T")

NAME_LIMIT: Final = 255
SYSTEM_LIMIT: Final = 1_000_000
WINDOW_LIMIT: Final = 100_000_000
"""Tokens; far above any model, so that only nonsense is refused."""


def _check_name(name: str) -> None:
    check_text(name, "name")
    if not name.strip() or len(name) > NAME_LIMIT or "\n" in name:
        raise InvalidInput(
            f"name must be one line of 1 to {NAME_LIMIT} characters that is not blank; this one has {len(name)}.",
            field="name",
        )


def _check_system(system: str) -> None:
    if len(system) > SYSTEM_LIMIT:
        raise InvalidInput(
            f"system takes at most {SYSTEM_LIMIT} characters, and this text has {len(system)}.", field="system"
        )


def _check_timezone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"timezone must be an IANA name such as Europe/Paris, not {name!r}.", field="timezone"
        ) from None


def _check_window(tokens: int) -> None:
    if not 1 <= tokens <= WINDOW_LIMIT:
        raise InvalidInput(
            f"context_window_limit must be from 1 to {WINDOW_LIMIT} tokens, not {tokens}.", field="context_window_limit"
        )


def _checked_rules(rules: tuple[ToolRule, ...], tool_names: Sequence[str]) -> tuple[ToolRule, ...]:
    check_rules(rules, tool_names)
    return tuple(without_duplicates(rules))


def _find_tools(tx: Transaction, names: Sequence[str], ids: Sequence[str]) -> list[Tool]:
    by_name = tools.by_names(tx, names)
    missing = [name for name in names if name not in by_name]
    if missing:
        raise InvalidInput(f"Tools not found by name: {{{', '.join(map(repr, missing))}}}", field="tools")
    found = [by_name[name] for name in names] + [tools.get(tx, tool_id) for tool_id in ids]
    return list({tool.id: tool for tool in found}.values())


def _creation_rules(spec: AgentSpec, attached: Sequence[Tool]) -> tuple[ToolRule, ...]:
    own = list(spec.tool_rules or ())
    ruled = {rule.tool_name for rule in own}
    names = tuple(tool.name for tool in attached)
    added = default_rules(spec.agent_type, names, base_rules=spec.include_base_tool_rules)
    approvals = [ApprovalRule(tool_name=tool.name) for tool in attached if tool.default_requires_approval]
    return (*own, *(rule for rule in added if rule.tool_name not in ruled), *approvals)


def _new_agent(agent_id: str, spec: AgentSpec, model: ModelInfo, attached: Sequence[Tool], now: datetime) -> Agent:
    return Agent(
        id=agent_id,
        name=spec.name if spec.name is not None else f"agent-{agent_id[-8:]}",
        created_at=now,
        updated_at=now,
        system=spec.system if spec.system is not None else default_system(spec.agent_type),
        model=spec.model,
        agent_type=spec.agent_type,
        embedding=spec.embedding,
        context_window=spec.context_window_limit or model.context_window,
        context_window_pinned=spec.context_window_limit is not None,
        model_settings=spec.model_settings,
        compaction_settings=spec.compaction_settings,
        response_format=spec.response_format,
        description=spec.description,
        metadata=spec.metadata,
        tool_rules=_creation_rules(spec, attached),
        tags=tagged(tuple(dict.fromkeys(spec.tags)), spec.memory_kind),
        timezone=spec.timezone or "UTC",
        message_buffer_autoclear=spec.message_buffer_autoclear,
        enable_sleeptime=spec.enable_sleeptime,
        hidden=spec.hidden,
        memory_refresh=spec.memory_refresh,
        max_files_open=spec.max_files_open,
        per_file_view_window_char_limit=spec.per_file_view_window_char_limit,
        extra=spec.extra,
    )


def _check_spec(spec: AgentSpec) -> None:
    if spec.name is not None:
        _check_name(spec.name)
    if spec.system is not None:
        _check_system(spec.system)
    if spec.timezone is not None:
        _check_timezone(spec.timezone)
    if spec.context_window_limit is not None:
        _check_window(spec.context_window_limit)
    read_settings(spec.model_settings)


def _new_conversation(agent_id: str, now: datetime) -> Conversation:
    return Conversation(
        id=new_id("conv"),
        agent_id=agent_id,
        is_default=True,
        system_message_id=new_id("message"),
        created_at=now,
        updated_at=now,
    )


def _attach_blocks(tx: Transaction, agent_id: str, spec: AgentSpec, now: datetime) -> None:
    for given in spec.memory_blocks:
        block = create_block(tx, with_default_description(given), now=now)
        blocks.attach(tx, agent_id, block.id)
    for block_id in dict.fromkeys(spec.block_ids):
        blocks.attach(tx, agent_id, block_id)


def _initial_messages(spec: AgentSpec, conversation: Conversation, now: datetime) -> list[Message]:
    return [
        Message(
            id=new_id("message"),
            agent_id=conversation.agent_id,
            conversation_id=conversation.id,
            role=given.role,
            parts=given.parts,
            otid=given.otid,
            name=given.name,
            sender_id=given.sender_id,
            created_at=given.created_at or now,
        )
        for given in spec.initial_messages or ()
    ]


async def create_agent(runtime: Runtime, spec: AgentSpec) -> AgentState:
    """Create an agent with its memory, model and tools in one transaction, its first prompt compiled.

    Raises ``InvalidInput``, ``NotFound`` (model, block, tool or identity), ``LabelTaken`` and
    ``BlockLimitExceeded``; then nothing is stored.
    """
    _check_spec(spec)
    check_compaction_settings(runtime.models, spec.compaction_settings)
    model = await runtime.models.find(spec.model)
    now = utc_now()

    def create(tx: Transaction) -> AgentState:
        names = default_tools(spec.agent_type) if spec.include_base_tools else ()
        attached = _find_tools(tx, list(dict.fromkeys((*spec.tools, *names))), spec.tool_ids)
        _checked_rules(spec.tool_rules or (), [tool.name for tool in attached])
        agent = _new_agent(new_id("agent"), spec, model, attached, now)
        agents.insert(tx, agent)
        conversation = _new_conversation(agent.id, now)
        conversations.insert(tx, conversation)
        _attach_blocks(tx, agent.id, spec, now)
        for tool in attached:
            tools.attach(tx, agent.id, tool.id)
        identities.set_for_agent(tx, agent.id, spec.identity_ids)
        if spec.secrets:
            secrets.put(tx, agent.id, spec.secrets, runtime.cipher, now)
        if wants_files(agent.tags):
            begin_files(tx, runtime.homes, agent, now)
            if spec.include_base_tools:
                attach_file_tools(tx, agent.id, agent.agent_type)
        state = agents.state(tx, agent.id)
        refresh_prompt(tx, state, conversation, _in_window(model, agent), now)
        initial = _initial_messages(spec, conversation, now)
        if initial:
            messages.append(tx, conversation.id, initial, now)
        return agents.state(tx, agent.id)

    return await runtime.db.write(create)


def _in_window(model: ModelInfo, agent: Agent) -> ModelInfo:
    return structs.replace(model, context_window=agent.context_window) if agent.context_window else model


def _or(new: T | UnsetType, old: T) -> T:
    return old if isinstance(new, UnsetType) else new


def _settings_after(agent: Agent, changes: AgentChanges, model: ModelInfo | None) -> dict[str, Any]:
    """Merge model settings; settings for another kind of provider start anew."""
    if isinstance(changes.model_settings, UnsetType):
        if model and agent.model_settings.get("provider_type", model.provider_type) != model.provider_type:
            return {}
        return agent.model_settings
    kind = changes.model_settings.get("provider_type")
    same = kind is None or kind == agent.model_settings.get("provider_type", kind)
    return {**(agent.model_settings if same else {}), **changes.model_settings}


def _changed(agent: Agent, changes: AgentChanges, model: ModelInfo | None) -> Agent:
    window, pinned = agent.context_window, agent.context_window_pinned
    if not isinstance(changes.context_window_limit, UnsetType):
        window, pinned = changes.context_window_limit, True
    elif model and not pinned:
        window = model.context_window
    return structs.replace(
        agent,
        name=_or(changes.name, agent.name),
        system=_or(changes.system, agent.system),
        model=_or(changes.model, agent.model),
        embedding=_or(changes.embedding, agent.embedding),
        context_window=window,
        context_window_pinned=pinned,
        model_settings=_settings_after(agent, changes, model),
        compaction_settings=agent.compaction_settings
        if isinstance(changes.compaction_settings, UnsetType)
        else merge_compaction_settings(agent.compaction_settings, changes.compaction_settings),
        response_format=_or(changes.response_format, agent.response_format),
        description=_or(changes.description, agent.description),
        metadata=_or(changes.metadata, agent.metadata),
        tool_rules=_or(changes.tool_rules, agent.tool_rules),
        tags=tagged(_or(changes.tags, agent.tags), _or(changes.memory_kind, None)),
        timezone=_or(changes.timezone, agent.timezone),
        message_buffer_autoclear=_or(changes.message_buffer_autoclear, agent.message_buffer_autoclear),
        enable_sleeptime=_or(changes.enable_sleeptime, agent.enable_sleeptime),
        hidden=_or(changes.hidden, agent.hidden),
        memory_refresh=_or(changes.memory_refresh, agent.memory_refresh),
        max_files_open=_or(changes.max_files_open, agent.max_files_open),
        per_file_view_window_char_limit=_or(
            changes.per_file_view_window_char_limit, agent.per_file_view_window_char_limit
        ),
        last_stop_reason=_or(changes.last_stop_reason, agent.last_stop_reason),
        last_run_completion=_or(changes.last_run_completion, agent.last_run_completion),
        last_run_duration_ms=_or(changes.last_run_duration_ms, agent.last_run_duration_ms),
        extra=_or(changes.extra, agent.extra),
    )


def _check_changes(changes: AgentChanges) -> None:
    if changes.name is not UNSET:
        _check_name(changes.name)
    if changes.system is not UNSET:
        _check_system(changes.system)
    if changes.timezone is not UNSET:
        _check_timezone(changes.timezone)
    if changes.context_window_limit is not UNSET:
        _check_window(changes.context_window_limit)


def _replace_blocks(tx: Transaction, homes: MemoryHomes, agent_id: str, wanted: Sequence[str], now: datetime) -> None:
    held = {block.id for block in blocks.of_agent(tx, agent_id)}
    for block_id in held - set(wanted):
        detach_block(tx, homes, agent_id, block_id, now=now)
    for block_id in dict.fromkeys(wanted):
        if block_id not in held:
            attach_block(tx, homes, agent_id, block_id, now=now)


def _replace_tools(tx: Transaction, agent_id: str, wanted: Sequence[str]) -> None:
    held = {tool.id for tool in tools.of_agent(tx, agent_id)}
    for tool_id in held - set(wanted):
        tools.detach(tx, agent_id, tool_id)
    for tool_id in dict.fromkeys(wanted):
        if tool_id not in held:
            tools.attach(tx, agent_id, tool_id)


async def update_agent(runtime: Runtime, agent_id: str, changes: AgentChanges) -> AgentState:
    """Change the named fields of an agent in one transaction; lists replace, settings merge by key.

    The next request is compiled from the new state. Raises ``NotFound``, ``InvalidInput`` and ``LabelTaken``.
    """
    _check_changes(changes)
    model = None if changes.model is UNSET else await runtime.models.find(changes.model)
    now = utc_now()

    def update(tx: Transaction) -> AgentState:
        agent = agents.get(tx, agent_id)
        changed = _changed(agent, changes, model)
        check_compaction_settings(runtime.models, changed.compaction_settings)
        read_settings(changed.model_settings)
        if changes.block_ids is not UNSET:
            _replace_blocks(tx, runtime.homes, agent_id, changes.block_ids, now)
        if changes.tool_ids is not UNSET:
            _replace_tools(tx, agent_id, changes.tool_ids)
        if changes.identity_ids is not UNSET:
            identities.set_for_agent(tx, agent_id, changes.identity_ids)
        if changes.secrets is not UNSET:
            secrets.put(tx, agent_id, changes.secrets, runtime.cipher, now)
        if changes.tool_rules is not UNSET:
            names = [tool.name for tool in tools.of_agent(tx, agent_id)]
            changed = structs.replace(changed, tool_rules=_checked_rules(changes.tool_rules, names))
        if changed != agent:
            agents.update(tx, changed, now=now)
        if wants_files(changed.tags) != (memory_heads.revision(tx, agent_id) is not None):
            if wants_files(changed.tags):
                begin_files(tx, runtime.homes, changed, now)
                attach_file_tools(tx, agent_id, changed.agent_type)
            else:
                follow(tx, runtime.homes, agent_id, now)
                end_files(tx, agent_id, now)
                detach_file_tools(tx, agent_id)
        return agents.state(tx, agent_id)

    return await runtime.db.write(update)


async def delete_agent(runtime: Runtime, agent_id: str) -> None:
    """Delete an agent with its conversations, messages, runs and secrets.

    Its blocks stay, for others may share them; those that a conversation had for itself go. Memory files are put aside
    under ``memory/deleted/``.

    A run that goes on in this process is cancelled first. The hidden agent that reflected for it goes too. Raises
    ``NotFound``.
    """
    state = await runtime.db.read(lambda tx: agents.state(tx, agent_id))
    await runtime.end_runs_of(state.agent.id)
    now = utc_now()

    def delete(tx: Transaction) -> None:
        for conversation in conversations.of_agent(tx, agent_id):
            isolated.delete_of(tx, conversation.id)
        if memory_heads.revision(tx, agent_id) is not None:
            for block in blocks.of_agent(tx, agent_id):
                blocks.delete(tx, block.id)
            tx.after_commit(lambda: runtime.homes.put_aside(agent_id, now))
        agents.delete(tx, agent_id)

    await runtime.db.write(delete)
    for companion_id in await runtime.db.read(lambda tx: companions(tx, agent_id)):
        await delete_agent(runtime, companion_id)


def companions(tx: Transaction, agent_id: str) -> list[str]:
    """Return the ids of the hidden agents that reflect for an agent. One that shows only has the tag, as a copy may."""
    query = AgentQuery(tags=(companion_tag(agent_id),), show_hidden=True)
    return [found.id for found in agents.page(tx, query) if found.hidden and found.id != agent_id]


async def reset_messages(runtime: Runtime, agent_id: str) -> AgentState:
    """Delete all messages of an agent for good, and compile its prompt afresh. Memory stays.

    Open questions about tool calls go with the messages that asked. Raises ``NotFound``, and ``ConversationBusy`` while
    a run goes on in any of its conversations.
    """
    now = utc_now()

    def reset(tx: Transaction) -> AgentState:
        state = agents.state(tx, agent_id)
        for conversation in conversations.of_agent(tx, agent_id):
            settle_lease(tx, conversation, is_running=runtime.is_running, now=now)
            if pending := approvals.open_of(tx, conversation.id):
                approvals.answer(tx, pending, denials(pending, RESET), by="policy", run_id=None, now=now)
        messages.delete_all(tx, agent_id)
        conversation = conversations.get(tx, state.conversation.id)
        model = _in_window(runtime.models.resolve(state.agent.model), state.agent)
        refresh_prompt(tx, state, conversation, model, now, renew_facts=True)
        return agents.state(tx, agent_id)

    return await commit(runtime.db, reset)


def attach_tool(tx: Transaction, agent_id: str, tool_id: str, *, now: datetime) -> None:
    """Attach a tool; one that asks for approval by default brings its rule. Attaching twice changes nothing."""
    agent = agents.get(tx, agent_id)
    tool = tools.get(tx, tool_id)
    tools.attach(tx, agent_id, tool_id)
    rule = ApprovalRule(tool_name=tool.name)
    if tool.default_requires_approval and rule not in agent.tool_rules:
        agents.update(tx, structs.replace(agent, tool_rules=(*agent.tool_rules, rule)), now=now)


def detach_tool(tx: Transaction, agent_id: str, tool_id: str, *, now: datetime) -> None:
    """Detach a tool, with the rules that speak of it alone. Raises ``NotFound``."""
    agent = agents.get(tx, agent_id)
    tool = tools.get(tx, tool_id)
    tools.detach(tx, agent_id, tool_id)
    kept = tuple(rule for rule in agent.tool_rules if rule.tool_name != tool.name)
    if kept != agent.tool_rules:
        agents.update(tx, structs.replace(agent, tool_rules=kept), now=now)
