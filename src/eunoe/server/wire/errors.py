"""Errors as HTTP answers: the status, the body, and the headers that go with them."""

from typing import Any, Final

from msgspec import Struct

from eunoe.runtime.failures import describe_model_error
from eunoe.state import errors
from eunoe.state.errors import EunoeError, InvalidInput, McpError, ModelError, NotFound, PendingApproval
from eunoe.state.runs import RunError

EXAMPLE_UUID: Final = "123e4567-e89b-42d3-8456-426614174000"

UNKNOWN: Final = {"detail": "An unknown error occurred"}
"""The body of an answer to a request that hit a bug; the log has the rest."""


class Failure(Struct, frozen=True):
    """An answer that says what went wrong."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = {}


class Unprocessable(EunoeError):
    """A request that cannot be read: wrong JSON, wrong type, out of bounds. ``examples`` show what an id looks like."""

    code = "UNPROCESSABLE"

    def __init__(self, message: str, *, examples: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.examples: Final = examples


class EmptyMessages(Unprocessable):
    """A request without messages."""

    def __init__(self) -> None:
        super().__init__("Messages must not be empty")


class Expired(EunoeError):
    """Something that was there and is not kept any more."""

    code = "EXPIRED"


class TooLarge(EunoeError):
    """A request body that is larger than the server takes."""

    code = "BODY_TOO_LARGE"


_RUN_ERRORS: Final[dict[str, int]] = {
    "llm_authentication": 401,
    "llm_insufficient_credits": 402,
    "llm_rate_limit": 429,
    "llm_timeout": 504,
    "internal_error": 500,
}
"""Statuses of the wire's error types, for a run error that names none itself."""

_REFUSED_WITH_400: Final = frozenset({"tools", "approvals", "approval_request_id"})
"""Fields whose values Letta v1 refuses as bad arguments, not as unreadable."""

_UNPROCESSABLE: Final = (errors.BlockLimitExceeded, errors.ReadOnlyBlock)


def failure(error: EunoeError) -> Failure:
    """Return the answer for an error that was raised on purpose."""
    match error:
        case EmptyMessages():
            return Failure(422, {"detail": error.message})
        case Unprocessable():
            return unprocessable(error.message, examples=error.examples)
        case Expired():
            return Failure(410, _coded(error))
        case TooLarge():
            return Failure(413, _coded(error))
        case ModelError():
            return run_failure(describe_model_error(error)[1])
        case McpError():
            return mcp_failure(error)
        case InvalidInput():
            return _invalid(error)
        case NotFound():
            prefix = f"{error.code}: " if error.details.get("kind") == "model" else ""
            return Failure(404, {"detail": prefix + error.message})
        case errors.Conflict() | errors.LeaseLost():
            return Failure(409, _conflict(error))
        case errors.StoreLocked():
            return Failure(503, _coded(error), {"retry-after": "1"})
        case errors.StoreError():
            return Failure(503, _coded(error))
        case _:
            return Failure(500, _coded(error))


def _conflict(error: errors.Conflict | errors.LeaseLost) -> dict[str, Any]:
    """Return the body of a conflict; programs tell by its words that a conversation is busy, and find the run."""
    if isinstance(error, PendingApproval):
        return {"detail": {"code": error.code, "message": f"CONFLICT: {error.message}", **error.details}}
    if isinstance(error, errors.ConversationBusy):
        conversation_id, run_id = error.details["conversation_id"], error.details["run_id"]
        sentence = f"Conversation {conversation_id} is currently being processed (run_id={run_id})."
        return {**_coded(error), "detail": f"{sentence} Wait for that run to end, or cancel it."}
    return _coded(error)


def _invalid(error: InvalidInput) -> Failure:
    if isinstance(error, _UNPROCESSABLE):
        return Failure(422, {"trace_id": "", **_coded(error)})
    if error.field == "model":
        return Failure(400, {"detail": f"{error.code}: {error.message}"})
    if error.field is None or error.field in _REFUSED_WITH_400:
        return Failure(400, {"detail": error.message, **error.details})
    return Failure(422, {"trace_id": "", **_coded(error), "field": error.field})


def unprocessable(message: str, *, examples: tuple[str, ...] = ()) -> Failure:
    """Return the answer for a request that cannot be read."""
    body: dict[str, Any] = {"trace_id": "", "detail": message}
    if examples:
        body["examples"] = list(examples)
    return Failure(422, body)


def run_failure(error: RunError) -> Failure:
    """Return the answer for a run that failed before it told anything.

    Its messages are stored and its model was asked again as often as makes sense, so the official clients are told
    not to repeat the request by themselves: each repetition would store the messages once more.
    """
    status = error.status if error.status is not None else _RUN_ERRORS.get(error.type, 502)
    body = {"error": {"type": error.type, "message": error.message, "detail": error.detail}}
    return Failure(status, body, {"x-should-retry": "false"})


def mcp_failure(error: McpError) -> Failure:
    """Return the answer for an MCP server that failed; the official clients are told not to call again by themselves.

    A server that is late may have done what it was asked.
    """
    if error.kind == "forbidden":
        return Failure(400, _coded(error))
    late = error.kind == "timeout"
    told = {"type": "mcp_timeout" if late else "mcp_connection_error", "message": error.message}
    return Failure(408 if late else 502, {**_coded(error), "error": told}, {"x-should-retry": "false"})


def _coded(error: EunoeError) -> dict[str, Any]:
    return {"detail": error.message, "code": error.code, **error.details}
