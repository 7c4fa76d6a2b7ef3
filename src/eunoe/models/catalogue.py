"""What is known about models beforehand: windows, longest answers, kinds, by prefix of their name.

What an endpoint says about its own model (``discovery``) goes before this. Figures are the vendors' published ones.
"""

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

DEFAULT_CONTEXT_WINDOW: Final = 128_000
"""Tokens that are assumed when neither the endpoint nor this catalogue knows the window."""


class Facts(Struct, frozen=True, kw_only=True):
    """What is known of a model. A window of 0 is unknown (tokens).

    ``fixed_temperature`` says that the vendor refuses a temperature for it.
    """

    context_window: int = 0
    max_output_tokens: int | None = None
    reasoning: bool = False
    fixed_temperature: bool = False


def _facts(window: int, output: int | None = None, *, reasoning: bool = False, fixed: bool = False) -> Facts:
    return Facts(context_window=window, max_output_tokens=output, reasoning=reasoning, fixed_temperature=fixed)


UNKNOWN: Final = Facts()

_BY_PREFIX: Final = {
    "gpt-3.5-turbo": _facts(16_385, 4_096),
    "gpt-4": _facts(8_192, 8_192),
    "gpt-4-turbo": _facts(128_000, 4_096),
    "gpt-4o": _facts(128_000, 16_384),
    "gpt-4.1": _facts(1_047_576, 32_768),
    "gpt-4.5": _facts(128_000, 16_384),
    "gpt-5": _facts(400_000, 128_000, reasoning=True, fixed=True),
    "gpt-5-chat": _facts(128_000, 16_384),
    "gpt-oss": _facts(131_072, reasoning=True),
    "o1": _facts(200_000, 100_000, reasoning=True, fixed=True),
    "o3": _facts(200_000, 100_000, reasoning=True, fixed=True),
    "o4": _facts(200_000, 100_000, reasoning=True, fixed=True),
    "claude-": _facts(200_000, 64_000, reasoning=True),
    "claude-3-": _facts(200_000, 8_192),
    "claude-3-opus": _facts(200_000, 4_096),
    "claude-3-haiku": _facts(200_000, 4_096),
    "claude-3-7": _facts(200_000, 64_000, reasoning=True),
    "claude-opus-4": _facts(200_000, 32_000, reasoning=True),
    "claude-opus-4-5": _facts(200_000, 64_000, reasoning=True),
    "claude-opus-4-6": _facts(200_000, 128_000, reasoning=True),
    "gemini-": _facts(1_048_576, 65_536, reasoning=True),
    "gemini-1.5": _facts(1_048_576, 8_192),
    "gemini-2.0": _facts(1_048_576, 8_192),
    "deepseek": _facts(128_000, 8_192),
    "deepseek-reasoner": _facts(128_000, 64_000, reasoning=True),
    "deepseek-r1": _facts(128_000, 32_768, reasoning=True),
    "grok-": _facts(131_072),
    "grok-4": _facts(256_000, reasoning=True),
    "llama3": _facts(8_192),
    "llama3.1": _facts(131_072),
    "llama3.2": _facts(131_072),
    "llama3.3": _facts(131_072),
    "llama-3": _facts(131_072),
    "llama-4": _facts(1_048_576),
    "meta-llama-3": _facts(131_072),
    "qwen": _facts(32_768),
    "qwen3": _facts(40_960, reasoning=True),
    "qwen2.5": _facts(32_768),
    "gemma": _facts(8_192),
    "gemma3": _facts(131_072),
    "gemma-3": _facts(131_072),
    "mistral": _facts(32_768),
    "mistral-large": _facts(128_000),
    "mistral-medium": _facts(128_000),
    "mistral-small": _facts(128_000),
    "mistral-nemo": _facts(128_000),
    "magistral": _facts(40_960, reasoning=True),
    "codestral": _facts(256_000),
    "kimi-k2": _facts(131_072),
    "glm-4": _facts(128_000),
    "phi": _facts(16_384),
    "smollm2": _facts(8_192),
}


@lru_cache(maxsize=256)
def facts_for(name: str) -> Facts:
    """Return what is known of the model of this name: the entry with the longest prefix, or ``UNKNOWN``.

    Owner prefixes (``meta-llama/…``) are left out of the comparison, and case does not matter.
    """
    bare = name.rsplit("/", 1)[-1].lower()
    matches = [prefix for prefix in _BY_PREFIX if bare.startswith(prefix)]
    return _BY_PREFIX[max(matches, key=len)] if matches else UNKNOWN


_NOT_CHAT: Final = re.compile(
    r"embed|whisper|(^|-)tts|dall-e|moderation|(^|-)image|audio|realtime|transcribe|sora|babbage|davinci|rerank"
)


def is_chat_model(name: str) -> bool:
    """Say whether a listed model of this name looks like one that can be talked to."""
    return _NOT_CHAT.search(name.lower()) is None
