"""The context window's overview as Letta v1 shows it."""

from typing import Any

import msgspec

from eunoe.runtime.context import ContextOverview
from eunoe.server.wire.dates import instant
from eunoe.server.wire.messages import content
from eunoe.state.messages import Message
from eunoe.state.tools import ToolSchema


def overview(found: ContextOverview) -> dict[str, Any]:
    """Return texts and token estimates of each section, under the wire's names."""
    tokens = {section.name: section.tokens for section in found.sections}
    text = found.system_message.text
    return {
        "context_window_size_max": found.context_window,
        "context_window_size_current": found.tokens,
        "num_messages": len(found.window) + 1,
        "num_archival_memory": 0,
        "num_recall_memory": found.stored_messages,
        "num_tokens_external_memory_summary": tokens.get("memory_metadata", 0),
        "external_memory_summary": _between(text, "memory_metadata") or "",
        "num_tokens_system": tokens.get("system", 0),
        "system_prompt": found.system,
        "num_tokens_core_memory": tokens.get("memory_blocks", tokens.get("memory_files", 0)),
        "core_memory": _between(text, "memory_blocks") or _files(text),
        "num_tokens_memory_filesystem": 0,
        "memory_filesystem": None,
        "num_tokens_tool_usage_rules": tokens.get("tool_usage_rules", 0),
        "tool_usage_rules": _between(text, "tool_usage_rules"),
        "num_tokens_directories": 0,
        "directories": None,
        "num_tokens_summary_memory": 0,
        "summary_memory": found.summary,
        "num_tokens_functions_definitions": found.tools_tokens,
        "functions_definitions": [_function(tool) for tool in found.tools],
        "num_tokens_messages": found.window_tokens,
        "messages": [_stored(message) for message in (found.system_message, *found.window)],
    }


def _between(text: str, section: str) -> str | None:
    """Return a section of the compiled text with its tags.

    Safe to cut by its tags: no value can hold one of them unescaped (I10).
    """
    start, end = text.find(f"<{section}>"), text.find(f"</{section}>")
    return text[start : end + len(section) + 3] if 0 <= start < end else None


def _files(text: str) -> str:
    """Return the section of memory files: what the agent is, and what it knows."""
    return "\n\n".join(filter(None, (_between(text, "self"), _between(text, "memory"))))


def _function(tool: ToolSchema) -> dict[str, Any]:
    schema = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": None,
    }
    return {"function": schema, "type": "function"}


def _stored(message: Message) -> dict[str, Any]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    returns = [
        {
            "tool_call_id": part.tool_call_id,
            "status": part.status,
            "stdout": msgspec.to_builtins(part.stdout),
            "stderr": msgspec.to_builtins(part.stderr),
            "func_response": part.content,
        }
        for part in message.tool_returns
    ]
    shown = content(message.parts)
    return {
        "created_by_id": None,
        "last_updated_by_id": None,
        "created_at": instant(message.created_at),
        "updated_at": None,
        "id": message.id,
        "agent_id": message.agent_id,
        "model": message.model,
        "role": message.role,
        "content": [{"type": "text", "text": shown, "signature": None}] if isinstance(shown, str) else shown,
        "name": message.name,
        "tool_calls": calls or None,
        "tool_call_id": returns[0]["tool_call_id"] if returns else None,
        "step_id": message.step_id,
        "run_id": message.run_id,
        "otid": message.otid,
        "tool_returns": returns,
        "group_id": message.group_id,
        "sender_id": message.sender_id,
        "batch_item_id": None,
        "conversation_id": None,
        "is_err": None,
        "approval_request_id": None,
        "approve": None,
        "denial_reason": None,
        "approvals": None,
    }
