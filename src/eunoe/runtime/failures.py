"""How the failure of a model ends a run: stop reason, the wire's error type, and the HTTP status (data)."""

from typing import Final

from eunoe.state.errors import EunoeError, ModelError, ModelErrorKind
from eunoe.state.runs import RunError, StopReason

_TABLE: Final[dict[ModelErrorKind, tuple[StopReason, str, int]]] = {
    "unreachable": ("llm_api_error", "llm_error", 502),
    "timeout": ("llm_api_error", "llm_timeout", 504),
    "authentication": ("llm_api_error", "llm_authentication", 401),
    "permission": ("llm_api_error", "llm_permission_denied", 403),
    "insufficient_credits": ("insufficient_credits", "llm_insufficient_credits", 402),
    "rate_limit": ("llm_api_error", "llm_rate_limit", 429),
    "overloaded": ("llm_api_error", "llm_overloaded", 503),
    "context_overflow": ("llm_api_error", "llm_error", 400),
    "invalid_request": ("llm_api_error", "llm_error", 400),
    "invalid_response": ("invalid_llm_response", "llm_error", 502),
    "interrupted": ("llm_api_error", "llm_error", 502),
    "server_error": ("llm_api_error", "llm_error", 502),
}

_SENTENCES: Final[dict[ModelErrorKind, str]] = {
    "authentication": "Authentication failed with the LLM model provider.",
    "rate_limit": "Rate limit exceeded for the LLM model provider. Please try again later.",
    "timeout": "The LLM request timed out. Please try again.",
    "insufficient_credits": "Insufficient credits or quota with the LLM model provider.",
    "unreachable": "The LLM model endpoint cannot be reached.",
    "overloaded": "The LLM model provider is overloaded. Please try again later.",
}

EMPTY_RESPONSE: Final = RunError(
    type="llm_empty_response",
    message="The model answered with nothing: no text and no tool call.",
    detail="Nothing was stored of this answer; the conversation can go on with the next message.",
    status=502,
)


def describe_model_error(error: ModelError) -> tuple[StopReason, RunError]:
    """Return how a run ends that the model failed. ``detail`` carries the endpoint's own words."""
    reason, kind, status = _TABLE[error.kind]
    message = _SENTENCES.get(error.kind, "An error occurred with the LLM request.")
    return reason, RunError(type=kind, message=message, detail=error.message, status=status)


def describe_own_error(error: EunoeError) -> RunError:
    """Return how a run ends that the store or another part of Eunoe failed."""
    return RunError(type="internal_error", message=error.message, detail=error.code, status=503)


MOST_REPETITIONS: Final = 5
"""How often a model may ask for the same calls, and get the same returns, in a row."""

REPEATED: Final = RunError(
    type="repeated_tool_call",
    message=f"The model asked for the same calls {MOST_REPETITIONS + 1} times in a row and got the same returns.",
    detail="The turn was stopped, since it would not end by itself. Say what you want in other words.",
    status=502,
)


def describe_barred(reason: str) -> RunError:
    """Return how a run ends in which the tool rules leave no tool although a call is due."""
    return RunError(
        type="tool_rules", message=reason, detail="Change the agent's tool rules, or attach the tools.", status=400
    )


OWN_FAULT: Final = RunError(
    type="internal_error",
    message="An unknown error occurred",
    detail="The server's log has the details. The conversation can go on with the next message.",
    status=500,
)
