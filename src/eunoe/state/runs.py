"""Runs and steps: one request's worth of work, and the model calls in it."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

StopReason = Literal[
    "end_turn",
    "error",
    "llm_api_error",
    "invalid_llm_response",
    "invalid_tool_call",
    "max_steps",
    "max_tokens_exceeded",
    "no_tool_call",
    "tool_rule",
    "cancelled",
    "insufficient_credits",
    "requires_approval",
    "context_window_overflow_in_system_prompt",
]

RunStatus = Literal["created", "running", "completed", "failed", "cancelled"]
StepStatus = Literal["pending", "success", "failed", "cancelled"]

COMPLETED_REASONS: frozenset[str] = frozenset({"end_turn", "max_steps", "tool_rule", "requires_approval"})

UNFINISHED: frozenset[str] = frozenset({"created", "running"})


def status_for(reason: StopReason) -> RunStatus:
    """Return the status of a run that ended for this reason."""
    if reason == "cancelled":
        return "cancelled"
    return "completed" if reason in COMPLETED_REASONS else "failed"


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens, as the provider reports them. ``None`` means that it did not say."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum; a figure that neither side reported stays unknown."""

        def add(a: int | None, b: int | None) -> int | None:
            return None if a is None and b is None else (a or 0) + (b or 0)

        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=add(self.cached_tokens, other.cached_tokens),
            cache_write_tokens=add(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens=add(self.reasoning_tokens, other.reasoning_tokens),
        )


class RunError(Struct, frozen=True, kw_only=True):
    """Why a run failed: ``type`` is the wire's word (``llm_timeout`` …), ``message`` says what to do."""

    type: str
    message: str
    detail: str | None = None
    status: int | None = None


class Run(Struct, frozen=True, kw_only=True):
    """One request's worth of work."""

    id: str
    agent_id: str
    conversation_id: str
    created_at: datetime
    status: RunStatus = "created"
    stop_reason: StopReason | None = None
    completed_at: datetime | None = None
    background: bool = False
    usage: Usage = Usage()
    step_count: int = 0
    error: RunError | None = None
    request: dict[str, Any] = {}
    """The options of the request that the wire returns with a run."""


class StepRequest(Struct, frozen=True, kw_only=True):
    """The content-addressed parts from which a step's request to the model is built again (replay).

    ``system_hash``, ``tools_hash`` and ``options_hash`` address stored texts; the messages are those of the
    conversation from position ``from_position`` to ``to_position`` that were stored by then (``seq`` up to ``to_seq``,
    so that a return added later by healing does not show), after the summary if there is one.
    ``payload_hash`` is the SHA-256 of the body that was sent. ``memory_commit`` is the commit of memory files that the
    agent had been told of then, ``None`` where memory is blocks.
    """

    dialect: str
    url: str
    system_hash: str
    tools_hash: str
    options_hash: str
    summary_message_id: str | None
    from_position: int
    to_position: int
    to_seq: int
    payload_hash: str
    memory_commit: str | None = None


class Step(Struct, frozen=True, kw_only=True):
    """One model call and the tool calls that it asked for."""

    id: str
    run_id: str
    agent_id: str
    conversation_id: str
    ordinal: int
    created_at: datetime
    status: StepStatus = "pending"
    provider: str | None = None
    model: str | None = None
    endpoint: str | None = None
    context_window: int = 0
    usage: Usage = Usage()
    stop_reason: StopReason | None = None
    error: RunError | None = None
    request: StepRequest | None = None
    model_ns: int | None = None
    tools_ns: int | None = None
    completed_at: datetime | None = None
