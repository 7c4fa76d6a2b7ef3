"""What kind of failure an endpoint told of: statuses, codes and wordings of the vendors, in one table."""

import re
from typing import Final

import msgspec

from eunoe.models.json_fields import JsonObject, object_in, parse_object, text_in
from eunoe.models.providers import Provider
from eunoe.state.errors import ModelError, ModelErrorKind

_OVERFLOW: Final = re.compile(
    r"context_length_exceeded|maximum context length|prompt is too long|exceed_context_size|"
    r"exceeds? the available context|exceeds? (the )?(model'?s )?(maximum )?context (window|length|size)|"
    r"context (window|length|size) exceeded|"
    r"input length and `?max_tokens`? exceed|input token count .* exceeds|reduce the length of the messages|"
    r"greater than the context length|too many tokens|request_too_large|model_context_window_exceeded",
    re.IGNORECASE,
)
"""Wordings of OpenAI, Anthropic, llama.cpp, vLLM, Ollama, LM Studio, Gemini and Groq for one fact."""

_NO_CREDITS: Final = re.compile(
    r"insufficient_quota|insufficient (credits?|balance)|credit balance is too low|billing_(hard_limit|error)|"
    r"exceeded your current quota",
    re.IGNORECASE,
)

_BY_WORD: Final[dict[str, ModelErrorKind]] = {
    "authentication_error": "authentication",
    "invalid_api_key": "authentication",
    "permission_error": "permission",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "overloaded_error": "overloaded",
    "api_error": "server_error",
    "server_error": "server_error",
    "internal_server_error": "server_error",
    "invalid_request_error": "invalid_request",
    "invalid_prompt": "invalid_request",
    "not_found_error": "invalid_request",
    "timeout_error": "timeout",
}
"""Error types and codes that arrive inside a stream, where there is no status."""

_BY_STATUS: Final[dict[int, ModelErrorKind]] = {
    401: "authentication",
    402: "insufficient_credits",
    403: "permission",
    408: "timeout",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

_SHORTEST_KEY: Final = 6

_LONGEST: Final = 500
"""Characters of an endpoint's own words that go into a message."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint said about its failure."""

    message: str
    words: tuple[str, ...] = ()
    """Its ``type`` and ``code``, where it gave them."""


def read_error(body: JsonObject | bytes | str) -> Told:
    """Find the message, type and code in an error body of any vendor; text that is no JSON is its own message."""
    if isinstance(body, (bytes, str)):
        text = body.decode(errors="replace") if isinstance(body, bytes) else body
        parsed = parse_object(text)
        if parsed is None:
            return Told(message=text.strip())
        body = parsed
    if isinstance(body.get("error"), str):
        return Told(message=text_in(body, "error"))
    inner = object_in(body, "error") or body
    words = tuple(str(inner[key]) for key in ("type", "code") if isinstance(inner.get(key), (str, int)))
    message = text_in(inner, "message") or text_in(inner, "detail") or msgspec.json.encode(inner).decode()
    return Told(message=message, words=words)


def kind_of(told: Told, status: int | None) -> ModelErrorKind:
    """Decide the kind from the status (``None`` inside a stream), the codes and the wording."""
    everything = " ".join((*told.words, told.message))
    if status in (None, 400, 413, 422, 429, 500) and _OVERFLOW.search(everything):
        return "context_overflow"
    if status in (None, 400, 403, 429) and _NO_CREDITS.search(everything):
        return "insufficient_credits"
    if status is None:
        numeric = next((int(word) for word in told.words if word.isdecimal()), None)
        if numeric is not None:
            return kind_of(Told(message=told.message), numeric)
        known: list[ModelErrorKind] = [_BY_WORD[word] for word in told.words if word in _BY_WORD]
        return known[0] if known else "server_error"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return "server_error" if status >= 500 else "invalid_request"


_ADVICE: Final[dict[ModelErrorKind, str]] = {
    "authentication": "Check the key in {key}.",
    "permission": "The key in {key} has no right to this; check it and the model's name.",
    "insufficient_credits": "Add credit to the account of the key in {key}.",
}


def failure(
    provider: Provider,
    body: JsonObject | bytes | str,
    *,
    status: int | None = None,
    retry_after: float | None = None,
    started: bool = False,
) -> ModelError:
    """Make the error for what an endpoint told: its own words, and what to do where we know it. No key is in it."""
    told = read_error(body)
    kind = kind_of(told, status)
    said = without_key(provider, told.message)[:_LONGEST] or "no reason given"
    where = f"{provider.name} answered {status}" if status is not None else f"{provider.name} reported an error"
    advice = _ADVICE.get(kind, "").format(key=provider.key_env or f"the settings of {provider.name}")
    if advice and not said.endswith((".", "!", "?")):
        said += "."
    return ModelError(
        kind,
        f"{where}: {said}{' ' + advice if advice else ''}",
        provider=provider.name,
        status=status,
        retry_after=retry_after,
        started=started,
    )


def without_key(provider: Provider, text: str) -> str:
    """Take the provider's key out of a text that an endpoint or library wrote (I14).

    What is shorter than any real key stands in for one (servers of one's own), and may be a common word.
    """
    key = provider.api_key.reveal() if provider.api_key else ""
    return text.replace(key, "***") if len(key) >= _SHORTEST_KEY else text
