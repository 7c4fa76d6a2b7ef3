"""The manifest: what came back, from which revision; and the check that it is what was stored (I1)."""

import hashlib
from datetime import datetime
from difflib import unified_diff
from typing import Any, Final

import msgspec
from msgspec import Struct

from eunoe.prompt.compile import CompiledPrompt, Section, compile_prompt
from eunoe.prompt.tokens import estimate_tokens
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.opening import state_in
from eunoe.runtime.prompts import conversation_model, current_facts, prompt_inputs
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.runtime.window import unanswered
from eunoe.state.agents import Agent, AgentState
from eunoe.state.blocks import Block
from eunoe.state.conversations import Compiled, Conversation
from eunoe.state.errors import NotFound, StoreError
from eunoe.state.memory import MemoryHead
from eunoe.state.messages import Message
from eunoe.state.tools import Tool
from eunoe.store import agents, conversations, isolated, messages, texts
from eunoe.store.database import Transaction

_DIFF_LINES: Final = 60


class ManifestPart(Struct, frozen=True, kw_only=True):
    """One part of an agent that came back.

    ``hash`` is the SHA-256 (hex) of the part's content in its canonical form, ``characters`` that content's length,
    ``tokens`` an estimate. ``source`` says where it is kept.
    """

    kind: str
    id: str
    name: str
    revision: str | None
    hash: str | None
    characters: int
    tokens: int
    source: str
    details: dict[str, Any] = {}


class Manifest(Struct, frozen=True, kw_only=True):
    """Every part of a restored agent. ``sections`` is the account of the compiled prompt."""

    agent_id: str
    name: str
    store: str
    read_at: datetime
    parts: tuple[ManifestPart, ...]
    sections: tuple[Section, ...]
    stale: bool
    """Something that the prompt shows has changed; the next run compiles it anew, if the refresh policy says so."""
    compiled_from: str | None = None
    """What memory the default conversation's prompt shows: a commit, where memory is files."""


class Difference(Struct, frozen=True, kw_only=True):
    """Something that is not as it was stored, in words; ``diff`` shows it where there is a text to show.

    ``stale`` marks what is in order: what the prompt shows was changed since, and the next run compiles it anew.
    """

    part: str
    what: str
    diff: str | None = None
    stale: bool = False


class Verification(Struct, frozen=True, kw_only=True):
    """The outcome of comparing what is stored with what a fresh compile gives, byte for byte.

    ``ok`` says that every difference is explained: there is none, or the prompt is only stale.
    """

    ok: bool
    differences: tuple[Difference, ...]


def _canonical(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _part(
    kind: str,
    key: str,
    name: str,
    text: str | None,
    *,
    source: str,
    revision: object = None,
    details: dict[str, Any] | None = None,
) -> ManifestPart:
    return ManifestPart(
        kind=kind,
        id=key,
        name=name,
        revision=None if revision is None else str(revision),
        hash=None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        characters=len(text or ""),
        tokens=estimate_tokens(text or ""),
        source=source,
        details=details or {},
    )


def _block_part(block: Block, **details: str) -> ManifestPart:
    return _part(
        "block",
        block.id,
        block.label,
        block.value,
        source=f"blocks/{block.id}",
        revision=block.revision,
        details={"limit": block.limit, "read_only": block.read_only, "hidden": block.hidden, **details},
    )


def _files_part(head: MemoryHead, agent: Agent) -> ManifestPart:
    return _part(
        "memory_files",
        agent.id,
        "files that are told by name",
        "\n".join(head.names),
        source=f"memory/{agent.id}",
        revision=head.revision,
        details={
            "layout": head.layout,
            "memory_refresh": agent.memory_refresh,
            "unread": None if head.unread is None else {"revision": head.unread.revision, "reason": head.unread.reason},
        },
    )


def _agent_parts(state: AgentState) -> list[ManifestPart]:
    agent = state.agent
    row = f"agents/{agent.id}"
    parts = [
        _part("system", agent.id, "system text", agent.system, source=row, revision=agent.revision),
        _part(
            "model",
            agent.id,
            agent.model,
            _canonical({"model": agent.model, "settings": agent.model_settings}),
            source=row,
            revision=agent.revision,
            details={"context_window": agent.context_window, "context_window_pinned": agent.context_window_pinned},
        ),
        _part("tool_rules", agent.id, "tool rules", _canonical(agent.tool_rules), source=row, revision=agent.revision),
    ]
    parts += [_block_part(block) for block in state.blocks]
    if state.memory is not None:
        parts.append(_files_part(state.memory, agent))
    parts += [
        _part(
            "tool",
            tool.id,
            tool.name,
            _canonical(tool.json_schema),
            source=f"tools/{tool.id}",
            details=_origin(tool),
        )
        for tool in state.tools
    ]
    parts += [
        _part("identity", identity.id, identity.name, _canonical(identity), source=f"identities/{identity.id}")
        for identity in state.identities
    ]
    parts += [_part("secret", secret.id, secret.key, None, source=f"secrets/{agent.id}") for secret in state.secrets]
    return parts


def _origin(tool: Tool) -> dict[str, Any]:
    """Return which MCP server a tool is from, if it is from one, and whether it was there when last asked."""
    facts: dict[str, Any] = tool.metadata.get("mcp") or {}
    if not facts:
        return {}
    return {"mcp_server": facts.get("server_name"), "missing": facts.get("missing", False)}


def _read_text(tx: Transaction, key: str) -> str | NotFound | StoreError:
    """Return a stored text, or why it cannot be read: a manifest tells of what is damaged beside what is whole."""
    try:
        return texts.get(tx, key)
    except (NotFound, StoreError) as error:
        return error


def _conversation_parts(tx: Transaction, conversation: Conversation, window: tuple[Message, ...]) -> list[ManifestPart]:
    source = f"conversations/{conversation.id}"
    label = "default" if conversation.is_default else conversation.id
    content = "\n".join(_canonical(message.parts) for message in window)
    parts = [
        _part(
            "window",
            conversation.id,
            label,
            content,
            source=source,
            revision=conversation.next_position,
            details={
                "messages": len(window),
                "first_message_id": window[0].id if window else None,
                "last_message_id": window[-1].id if window else None,
                "summary_message_id": conversation.summary_message_id,
                "stored_messages": messages.count(tx, conversation.agent_id, conversation.id),
            },
        )
    ]
    own = isolated.of_conversation(tx, conversation.id)
    parts += [_block_part(block, conversation_id=conversation.id) for block in own]
    compiled = conversation.compiled
    if compiled:
        text = _read_text(tx, compiled.hash)
        parts.append(
            _part(
                "compiled_prompt",
                compiled.hash,
                label,
                text if isinstance(text, str) else None,
                source=f"texts/{compiled.hash}",
                revision=compiled.memory_revision,
                details={
                    "system_hash": compiled.system_hash,
                    "inputs_hash": compiled.inputs_hash,
                    "compiled_at": compiled.facts.compiled_at.isoformat(),
                    **({} if isinstance(text, str) else {"error": text.message}),
                },
            )
        )
    return parts


def _memory_shown(state: AgentState) -> str | None:
    compiled = state.conversation.compiled
    if compiled is None or not compiled.memory_revision:
        return None
    return compiled.memory_revision[:40] if state.memory is not None else compiled.memory_revision


async def manifest(runtime: Runtime, agent_id: str) -> Manifest:
    """Return every part of the agent as it stands in the store, in one snapshot. Raises ``NotFound``."""
    await follow_memory(runtime, agent_id)
    now = utc_now()

    def read(tx: Transaction) -> Manifest:
        state = agents.state(tx, agent_id)
        parts = _agent_parts(state)
        for conversation in conversations.of_agent(tx, agent_id):
            parts += _conversation_parts(tx, conversation, conversations.window(tx, conversation))
        compiled = state.conversation.compiled
        facts = compiled.facts if compiled else current_facts(tx, state.conversation, now)
        model = conversation_model(runtime.models, state, state.conversation)
        fresh = compile_prompt(prompt_inputs(state, state.conversation, model, facts))
        return Manifest(
            agent_id=agent_id,
            name=state.agent.name,
            store=runtime.db.location,
            read_at=now,
            parts=tuple(parts),
            sections=fresh.sections,
            stale=compiled is None or bool(_causes(compiled, fresh)),
            compiled_from=_memory_shown(state),
        )

    return await runtime.db.read(read)


def _diff(stored: str, fresh: str) -> str:
    lines = unified_diff(stored.splitlines(), fresh.splitlines(), "stored", "compiled afresh", lineterm="", n=1)
    return "\n".join(list(lines)[:_DIFF_LINES])


def _causes(compiled: Compiled, fresh: CompiledPrompt) -> list[str]:
    """Name what has changed since a prompt was compiled."""
    return [
        name
        for name, then, now in (
            ("the system text", compiled.system_hash, fresh.system_hash),
            ("memory", compiled.memory_revision, fresh.memory_revision),
            ("tool rules, type, model or timezone", compiled.inputs_hash, fresh.inputs_hash),
        )
        if then != now
    ]


def _prompt_differences(
    tx: Transaction, runtime: Runtime, state: AgentState, conversation: Conversation
) -> list[Difference]:
    where = f"compiled prompt of conversation {conversation.id}"
    compiled = conversation.compiled
    if compiled is None:
        return [Difference(part=where, what="It was never compiled; the next run compiles it.", stale=True)]
    stored = _read_text(tx, compiled.hash)
    if not isinstance(stored, str):
        return [Difference(part=where, what=stored.message)]
    model = conversation_model(runtime.models, state, conversation)
    fresh = compile_prompt(prompt_inputs(state, conversation, model, compiled.facts))
    if fresh.text == stored:
        return []
    causes = _causes(compiled, fresh)
    what = (
        f"Since it was compiled, {' and '.join(causes)} changed; the next run compiles it anew."
        if causes
        else "A fresh compile of the same inputs gives other bytes."
    )
    return [Difference(part=where, what=what, diff=_diff(stored, fresh.text), stale=bool(causes))]


def _window_differences(window: tuple[Message, ...], conversation: Conversation) -> list[Difference]:
    return [
        Difference(
            part=f"window of conversation {conversation.id}",
            what=f"Message {broken.message.id} has calls without a return: {', '.join(c.id for c in broken.calls)}. "
            f"The next run closes them.",
        )
        for broken in unanswered(window)
    ]


async def verify(runtime: Runtime, agent_id: str) -> Verification:
    """Compile every conversation's prompt afresh, compare it with what is stored, and say what differs.

    Raises ``NotFound``.
    """
    await follow_memory(runtime, agent_id)

    def read(tx: Transaction) -> Verification:
        found: list[Difference] = []
        for conversation in conversations.of_agent(tx, agents.get(tx, agent_id).id):
            state, _ = state_in(tx, agent_id, conversation.id)
            found += _prompt_differences(tx, runtime, state, conversation)
            found += _window_differences(conversations.window(tx, conversation), conversation)
        return Verification(ok=all(one.stale for one in found), differences=tuple(found))

    return await runtime.db.read(read)
