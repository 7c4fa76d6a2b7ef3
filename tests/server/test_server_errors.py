"""Errors as HTTP answers."""

from typing import Any

import pytest

from eunoe.server.wire.errors import EmptyMessages, TooLarge, Unprocessable, failure, run_failure
from eunoe.state import errors
from eunoe.state.errors import EunoeError
from eunoe.state.runs import RunError

CASES: list[tuple[EunoeError, int, dict[str, Any]]] = [
    (
        errors.NotFound("Agent", "agent-1", "Agent with ID agent-1 not found"),
        404,
        {"detail": "Agent with ID agent-1 not found"},
    ),
    (
        errors.NotFound("model", "openai/none", "Handle openai/none not found, must be one of []"),
        404,
        {"detail": "NOT_FOUND: Handle openai/none not found, must be one of []"},
    ),
    (
        errors.InvalidInput("The model handle should be in the format provider/model-name", field="model"),
        400,
        {"detail": "INVALID_ARGUMENT: The model handle should be in the format provider/model-name"},
    ),
    (
        errors.InvalidInput("Tools not found by name: {'x'}", field="tools"),
        400,
        {"detail": "Tools not found by name: {'x'}"},
    ),
    (
        errors.InvalidInput("Too long.", field="name"),
        422,
        {"trace_id": "", "detail": "Too long.", "code": "INVALID_ARGUMENT", "field": "name"},
    ),
    (EmptyMessages(), 422, {"detail": "Messages must not be empty"}),
    (
        Unprocessable("agent_id: no id", examples=("agent-1",)),
        422,
        {"trace_id": "", "detail": "agent_id: no id", "examples": ["agent-1"]},
    ),
    (
        TooLarge("Too large.", limit=1, size=2),
        413,
        {"detail": "Too large.", "code": "BODY_TOO_LARGE", "limit": 1, "size": 2},
    ),
    (
        errors.PendingApproval("message-1"),
        409,
        {
            "detail": {
                "code": "PENDING_APPROVAL",
                "message": "CONFLICT: Cannot send a new message: the agent is waiting for approval on a tool call. "
                "Approve or deny the pending request first.",
                "pending_request_id": "message-1",
            }
        },
    ),
]


@pytest.mark.parametrize(
    ("error", "status", "body"), CASES, ids=[type(case[0]).__name__ + str(case[1]) for case in CASES]
)
def test_an_error_has_its_status_and_body(error: EunoeError, status: int, body: dict[str, Any]):
    found = failure(error)
    assert (found.status, found.body) == (status, body)


def test_B02_a_value_over_the_limit_names_label_limit_and_size():
    found = failure(errors.BlockLimitExceeded("human", 4000, 6538))
    assert found.status == 422
    assert {key: found.body[key] for key in ("code", "label", "limit", "actual")} == {
        "code": "BLOCK_LIMIT_EXCEEDED",
        "label": "human",
        "limit": 4000,
        "actual": 6538,
    }
    assert "4000" in found.body["detail"]


def test_B03_a_stale_write_is_told_the_current_revision():
    found = failure(errors.StaleRevision("Block", "block-1", 1, 2))
    assert (found.status, found.body["code"], found.body["current_revision"]) == (409, "STALE_REVISION", 2)


def test_a_busy_conversation_names_the_run_that_holds_it():
    found = failure(errors.ConversationBusy("conv-1", "run-1"))
    assert (found.status, found.body["run_id"]) == (409, "run-1")


def test_a_locked_store_asks_to_come_back():
    found = failure(errors.StoreLocked("locked"))
    assert (found.status, found.headers) == (503, {"retry-after": "1"})
    assert failure(errors.StoreFull("full")).status == 503


@pytest.mark.parametrize(
    ("kind", "status", "word"),
    [
        ("authentication", 401, "llm_authentication"),
        ("insufficient_credits", 402, "llm_insufficient_credits"),
        ("rate_limit", 429, "llm_rate_limit"),
        ("unreachable", 502, "llm_error"),
        ("overloaded", 503, "llm_overloaded"),
        ("timeout", 504, "llm_timeout"),
    ],
)
def test_a_models_failure_has_the_status_of_its_kind(kind: errors.ModelErrorKind, status: int, word: str):
    found = failure(errors.ModelError(kind, "why", provider="openai"))
    assert (found.status, found.body["error"]["type"]) == (status, word)
    assert found.body["error"]["detail"] == "why"


def test_a_failed_run_without_a_status_has_that_of_its_type():
    assert run_failure(RunError(type="llm_rate_limit", message="m")).status == 429
    assert run_failure(RunError(type="something_new", message="m")).status == 502
    assert run_failure(RunError(type="llm_error", message="m", status=503)).status == 503
