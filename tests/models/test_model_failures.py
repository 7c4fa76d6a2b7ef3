"""What kind of failure the vendors' answers are."""

from typing import Any

import pytest

from eunoe.models.failures import failure
from eunoe.models.providers import ApiKey, Provider
from eunoe.state.errors import ModelErrorKind

PROVIDER = Provider(
    name="openai", provider_type="openai", dialect="openai_chat", api_key=ApiKey("sk-1234"), key_env="OPENAI_API_KEY"
)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}, "authentication"),
        (403, {"error": {"message": "no access to model"}}, "permission"),
        (402, {"error": {"message": "Insufficient Balance"}}, "insufficient_credits"),
        (
            429,
            {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
            "insufficient_credits",
        ),
        (400, {"type": "error", "error": {"message": "Your credit balance is too low"}}, "insufficient_credits"),
        (429, {"error": {"message": "Rate limit reached"}}, "rate_limit"),
        (503, "unavailable", "overloaded"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (500, {"error": "boom"}, "server_error"),
        (502, "<html>", "server_error"),
        (404, {"error": {"message": "model 'x' not found"}}, "invalid_request"),
        (400, {"error": {"message": "bad", "type": "invalid_request_error"}}, "invalid_request"),
        (400, {"error": {"message": "too long", "code": "context_length_exceeded"}}, "context_overflow"),
        (
            400,
            {"type": "error", "error": {"message": "prompt is too long: 200001 tokens > 200000 maximum"}},
            "context_overflow",
        ),
        (400, {"error": {"type": "exceed_context_size_error", "code": 400, "message": "…"}}, "context_overflow"),
        (400, {"error": {"message": "the request exceeds the available context size"}}, "context_overflow"),
        (
            400,
            {"object": "error", "message": "This model's maximum context length is 4096 tokens."},
            "context_overflow",
        ),
        (500, {"error": "input length exceeds the context length"}, "context_overflow"),
        (None, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (None, {"error": {"message": "slow down", "code": 429}}, "rate_limit"),
        (None, {"error": {"message": "went wrong", "code": "server_error"}}, "server_error"),
        (None, {"error": "went wrong"}, "server_error"),
    ],
)
def test_kinds(status: int | None, body: Any, kind: ModelErrorKind):
    assert failure(PROVIDER, body, status=status).kind == kind


def test_the_message_says_who_failed_what_it_said_and_what_to_do():
    error = failure(PROVIDER, {"error": {"message": "Incorrect API key provided: sk-1234."}}, status=401)
    assert error.message == "openai answered 401: Incorrect API key provided: ***. Check the key in OPENAI_API_KEY."


def test_a_body_without_words_still_gives_a_sentence():
    assert failure(PROVIDER, b"", status=500).message == "openai answered 500: no reason given"
