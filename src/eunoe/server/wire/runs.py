"""Runs, steps and token counts as Letta v1 shows them."""

from typing import Any, Final

from eunoe.server.wire.dates import instant
from eunoe.state.events import RunEnded
from eunoe.state.runs import Run, Step, Usage

_ORGANIZATION: Final = "org-00000000-0000-4000-8000-000000000000"

REQUEST_CONFIG: Final[dict[str, Any]] = {
    "use_assistant_message": True,
    "assistant_message_tool_name": "send_message",
    "assistant_message_tool_kwarg": "message",
    "include_return_message_types": None,
}
"""The options that the wire returns with a run, with their defaults."""


def run(value: Run) -> dict[str, Any]:
    """Return the wire's run object. ``metadata.error`` carries why a run failed, as Letta v1 does."""
    duration = None if value.completed_at is None else value.completed_at - value.created_at
    metadata: dict[str, Any] = {"run_type": "send_message"}
    if value.error is not None:
        metadata["error"] = {
            "type": value.error.type,
            "message": value.error.message,
            "detail": value.error.detail,
        }
    return {
        "id": value.id,
        "status": value.status,
        "created_at": instant(value.created_at),
        "completed_at": instant(value.completed_at),
        "agent_id": value.agent_id,
        "conversation_id": value.conversation_id,
        "base_template_id": None,
        "background": value.background,
        "metadata": metadata,
        "request_config": {**REQUEST_CONFIG, **{k: v for k, v in value.request.items() if k in REQUEST_CONFIG}},
        "stop_reason": value.stop_reason,
        "callback_url": None,
        "callback_sent_at": None,
        "callback_status_code": None,
        "callback_error": None,
        "ttft_ns": None,
        "total_duration_ns": None if duration is None else int(duration.total_seconds() * 1_000_000) * 1_000,
    }


def step(value: Step) -> dict[str, Any]:
    """Return the wire's step object."""
    usage = value.usage
    return {
        "id": value.id,
        "origin": None,
        "organization_id": _ORGANIZATION,
        "provider_id": None,
        "run_id": value.run_id,
        "agent_id": value.agent_id,
        "provider_name": value.provider,
        "provider_category": "base",
        "model": None if value.model is None else value.model.removeprefix(f"{value.provider}/"),
        "model_handle": _handle(value),
        "model_endpoint": value.endpoint,
        "context_window_limit": value.context_window,
        "completion_tokens": usage.completion_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.total_tokens,
        "cached_input_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "completion_tokens_details": _completion_details(usage),
        "prompt_tokens_details": _prompt_details(usage),
        "stop_reason": value.stop_reason,
        "tags": [],
        "tid": None,
        "trace_id": None,
        "request_id": None,
        "messages": [],
        "feedback": None,
        "project_id": None,
        "error_type": None if value.error is None else value.error.type,
        "error_data": None if value.error is None else {"message": value.error.message, "detail": value.error.detail},
        "status": value.status,
    }


def _handle(value: Step) -> str | None:
    if value.model is None or value.provider is None or value.model.startswith(f"{value.provider}/"):
        return value.model
    return f"{value.provider}/{value.model}"


def usage_of_run(usage: Usage) -> dict[str, Any]:
    """Return the totals of a run, as ``GET /v1/runs/{id}/usage`` answers."""
    return {
        "completion_tokens": usage.completion_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": _prompt_details(usage),
        "completion_tokens_details": _completion_details(usage),
    }


def usage_of_turn(ended: RunEnded) -> dict[str, Any]:
    """Return the ``usage_statistics`` object that ends an answer."""
    return {
        "message_type": "usage_statistics",
        "completion_tokens": ended.usage.completion_tokens,
        "prompt_tokens": ended.usage.prompt_tokens,
        "total_tokens": ended.usage.total_tokens,
        "step_count": ended.step_count,
        "run_ids": None,
        "cached_input_tokens": ended.usage.cached_tokens,
        "cache_write_tokens": ended.usage.cache_write_tokens,
        "reasoning_tokens": ended.usage.reasoning_tokens,
        "context_tokens": ended.context_tokens,
    }


def stop_reason(ended: RunEnded) -> dict[str, Any]:
    """Return the ``stop_reason`` object that comes before the usage."""
    return {"message_type": "stop_reason", "stop_reason": ended.stop_reason}


def _prompt_details(usage: Usage) -> dict[str, Any] | None:
    if usage.cached_tokens is None and usage.cache_write_tokens is None:
        return None
    return {
        "cached_tokens": usage.cached_tokens or 0,
        "cache_read_tokens": usage.cached_tokens or 0,
        "cache_creation_tokens": usage.cache_write_tokens or 0,
    }


def _completion_details(usage: Usage) -> dict[str, Any] | None:
    return None if usage.reasoning_tokens is None else {"reasoning_tokens": usage.reasoning_tokens}
