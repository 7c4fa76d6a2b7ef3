"""Models and their settings as Letta v1 shows them.

The wire has two forms of one thing: the deprecated but required ``llm_config`` and ``model_settings``. What the user
named is shown over the defaults of the provider; what is not named is not sent to the provider either.
"""

from typing import Any, Final

from eunoe.models.protocol import ModelInfo
from eunoe.state.agents import Agent

DEFAULT_MAX_OUTPUT: Final = 16_384
"""Tokens shown for an answer's limit when neither the user nor the catalogue names one (Letta v1's default)."""

_COMMON: Final[dict[str, Any]] = {
    "max_output_tokens": DEFAULT_MAX_OUTPUT,
    "parallel_tool_calls": True,
}

_BY_PROVIDER: Final[dict[str, dict[str, Any]]] = {
    "anthropic": {
        "temperature": 1.0,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "response_format": None,
        "verbosity": None,
        "effort": None,
        "strict": False,
    },
    "openai": {
        "temperature": 1.0,
        "reasoning": {"reasoning_effort": "minimal"},
        "response_format": None,
        "strict": False,
    },
}
_OTHER: Final[dict[str, Any]] = {"temperature": 1.0, "response_format": None}

_TYPE_OF_PROVIDER: Final = {"openai-responses": "openai"}


_KNOWN_TO_CLIENTS: Final = frozenset(
    {
        "openai",
        "anthropic",
        "azure",
        "baseten",
        "bedrock",
        "chatgpt_oauth",
        "deepseek",
        "google_ai",
        "google_vertex",
        "groq",
        "moonshot",
        "moonshot_coding",
        "openrouter",
        "sglang",
        "together",
        "xai",
        "zai",
    }
)
"""Kinds of settings that the official clients have a type for; other providers take those of OpenAI."""


def provider_type(handle: str) -> str:
    """Return the wire's word for the kind of provider that a handle names."""
    provider = handle.partition("/")[0]
    return _TYPE_OF_PROVIDER.get(provider, provider)


def model_settings(handle: str, named: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an agent or conversation: the user's over the defaults of the model's provider."""
    kind = provider_type(handle)
    kind = kind if kind in _KNOWN_TO_CLIENTS else "openai"
    return {**_COMMON, "provider_type": kind, **_BY_PROVIDER.get(kind, _OTHER), **named}


def llm_config(agent: Agent) -> dict[str, Any]:
    """Return the deprecated form of an agent's model."""
    settings = agent.model_settings
    reasoning: dict[str, Any] = settings.get("reasoning") or {}
    thinking: dict[str, Any] = settings.get("thinking") or {}
    return {
        "model": agent.model.partition("/")[2],
        "display_name": None,
        "model_endpoint_type": provider_type(agent.model),
        "model_endpoint": None,
        "provider_name": agent.model.partition("/")[0],
        "provider_category": "base",
        "model_wrapper": None,
        "context_window": agent.context_window,
        "put_inner_thoughts_in_kwargs": False,
        "handle": agent.model,
        "temperature": settings.get("temperature", 1.0),
        "max_tokens": settings.get("max_output_tokens", DEFAULT_MAX_OUTPUT),
        "enable_reasoner": bool(reasoning or thinking.get("type") == "enabled"),
        "reasoning_effort": reasoning.get("reasoning_effort"),
        "max_reasoning_tokens": thinking.get("budget_tokens", 0),
        "effort": settings.get("effort"),
        "frequency_penalty": settings.get("frequency_penalty"),
        "compatibility_type": None,
        "verbosity": settings.get("verbosity"),
        "tier": None,
        "parallel_tool_calls": settings.get("parallel_tool_calls", False),
        "response_format": settings.get("response_format") or agent.response_format,
        "strict": settings.get("strict", False),
        "return_logprobs": False,
        "top_logprobs": None,
        "return_token_ids": False,
        "tool_call_parser": None,
    }


def model(info: ModelInfo) -> dict[str, Any]:
    """Return an entry of the list of models."""
    return {
        "handle": info.handle,
        "name": info.name,
        "display_name": info.name,
        "provider_type": info.provider_type,
        "provider_name": info.provider,
        "model_type": "llm",
        "model": info.name,
        "model_endpoint_type": info.provider_type,
        "model_endpoint": info.base_url or None,
        "provider_category": "base",
        "model_wrapper": None,
        "context_window": info.context_window,
        "put_inner_thoughts_in_kwargs": False,
        "temperature": 1.0,
        "max_tokens": info.max_output_tokens or DEFAULT_MAX_OUTPUT,
        "enable_reasoner": info.reasoning,
        "reasoning_effort": None,
        "max_reasoning_tokens": 0,
        "effort": None,
        "frequency_penalty": None,
        "compatibility_type": None,
        "verbosity": None,
        "tier": None,
        "parallel_tool_calls": False,
        "response_format": None,
        "strict": False,
        "return_logprobs": False,
        "top_logprobs": None,
        "return_token_ids": False,
        "tool_call_parser": None,
        "max_context_window": info.context_window,
    }
