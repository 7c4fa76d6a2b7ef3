"""Where models are: providers as data, and how the environment names them.

What differs between vendors is a field here, never a subclass: a dialect reads the fields that it needs.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct, structs

from eunoe.models.protocol import DialectName
from eunoe.state.errors import InvalidInput

Listing = Literal["openai", "anthropic", "ollama", "lmstudio", "llamacpp", "none"]
"""How a provider tells which models it has."""


class ApiKey:
    """A key that shows itself only when asked: it has no readable ``repr`` and cannot be encoded (I14)."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key, to be sent in a header."""
        return self._value

    def __repr__(self) -> str:
        return "ApiKey(***)"


class Provider(Struct, frozen=True, kw_only=True):
    """An endpoint that answers for models, and what it understands.

    ``base_url`` is as the user wrote it; ``endpoint`` makes addresses of it. ``key_env`` and ``base_url_env`` name the
    environment variables that configure it, for error messages. ``list_complete`` says that a model which is not in
    its list does not exist (false where the vendor takes aliases that it does not list).
    """

    name: str
    provider_type: str
    dialect: DialectName
    base_url: str = ""
    api_key: ApiKey | None = None
    key_env: str | None = None
    base_url_env: str | None = None
    listing: Listing = "openai"
    list_complete: bool = True
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    include_usage: bool = True
    """It understands ``stream_options.include_usage``."""
    parallel_tool_calls: bool = True
    """It understands ``parallel_tool_calls``."""
    strict_schemas: bool = False
    """It understands ``strict`` in function definitions."""
    json_objects: bool = True
    """It can be held to answer with some JSON object."""
    json_schemas: bool = True
    """It can be held to a JSON Schema in its answer."""
    replay_reasoning: bool = False
    """It wants the reasoning text of the current turn back with the tool calls that followed from it."""


class _Template(Struct, frozen=True, kw_only=True):
    """A provider that the environment may configure; ``bases`` are tried in order."""

    provider: Provider
    key: str | None = None
    bases: tuple[str, ...] = ()


def _keyed(provider: Provider, prefix: str | None = None) -> _Template:
    """Make the template of a hosted provider, whose variables begin with its name or with ``prefix``."""
    key, base = ((prefix or provider.name.upper()) + suffix for suffix in ("_API_KEY", "_BASE_URL"))
    return _Template(provider=structs.replace(provider, key_env=key, base_url_env=base), key=key, bases=(base,))


def _hosted(name: str, base_url: str) -> Provider:
    return Provider(name=name, provider_type=name, dialect="openai_chat", base_url=base_url)


def _own_server(name: str, *bases: str, listing: Listing = "openai", provider_type: str | None = None) -> _Template:
    provider = Provider(
        name=name,
        provider_type=provider_type or name,
        dialect="openai_chat",
        base_url_env=bases[0],
        listing=listing,
    )
    return _Template(provider=provider, bases=bases)


def _without_json_objects(template: _Template) -> _Template:
    return structs.replace(template, provider=structs.replace(template.provider, json_objects=False))


_OPENAI: Final = Provider(
    name="openai",
    provider_type="openai",
    dialect="openai_chat",
    base_url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    base_url_env="OPENAI_BASE_URL",
    max_tokens_field="max_completion_tokens",
    strict_schemas=True,
)
_OPENAI_BASES: Final = ("OPENAI_BASE_URL", "OPENAI_API_BASE")

_TEMPLATES: Final = (
    _Template(provider=_OPENAI, key="OPENAI_API_KEY", bases=_OPENAI_BASES),
    _Template(
        provider=structs.replace(_OPENAI, name="openai-responses", dialect="openai_responses"),
        key="OPENAI_API_KEY",
        bases=_OPENAI_BASES,
    ),
    _Template(
        provider=Provider(
            name="anthropic",
            provider_type="anthropic",
            dialect="anthropic",
            base_url="https://api.anthropic.com",
            key_env="ANTHROPIC_API_KEY",
            base_url_env="ANTHROPIC_BASE_URL",
            listing="anthropic",
            list_complete=False,
            json_objects=False,
        ),
        key="ANTHROPIC_API_KEY",
        bases=("ANTHROPIC_BASE_URL",),
    ),
    _own_server("ollama", "OLLAMA_BASE_URL", listing="ollama"),
    _without_json_objects(
        _own_server("lmstudio", "LMSTUDIO_BASE_URL", listing="lmstudio", provider_type="lmstudio_openai")
    ),
    _own_server("vllm", "VLLM_BASE_URL", "VLLM_API_BASE"),
    _own_server("llamacpp", "LLAMACPP_BASE_URL", listing="llamacpp"),
    _keyed(structs.replace(_hosted("openrouter", "https://openrouter.ai/api/v1"), list_complete=False)),
    _keyed(_hosted("groq", "https://api.groq.com/openai/v1")),
    _keyed(structs.replace(_hosted("deepseek", "https://api.deepseek.com"), replay_reasoning=True, json_schemas=False)),
    _keyed(_hosted("together", "https://api.together.xyz/v1")),
    _keyed(structs.replace(_hosted("mistral", "https://api.mistral.ai/v1"), include_usage=False)),
    _keyed(_hosted("xai", "https://api.x.ai/v1")),
    _keyed(
        structs.replace(
            _hosted("google_ai", "https://generativelanguage.googleapis.com/v1beta/openai"), list_complete=False
        ),
        "GEMINI",
    ),
)

SCRIPTED: Final = Provider(name="scripted", provider_type="scripted", dialect="scripted", listing="none")
"""The model that needs no network and no key; always there."""


def providers_from_env(env: Mapping[str, str]) -> dict[str, Provider]:
    """Return the providers that these environment variables configure, by name, and ``scripted``.

    Raises ``InvalidInput`` for a key that cannot be sent, and for a base URL that holds a password: addresses are
    stored with steps and shown in errors.
    """
    found: dict[str, Provider] = {}
    for template in _TEMPLATES:
        key = env.get(template.key, "").strip() if template.key else ""
        named = [(name, env[name].strip()) for name in template.bases if env.get(name, "").strip()]
        if not key and not named:
            continue
        provider = template.provider
        if named:
            base_env, base_url = named[0]
            if "@" in base_url.partition("://")[2].partition("/")[0]:
                raise InvalidInput(
                    f"{base_env} holds a user name or password; addresses are shown, so give the secret as a key.",
                    field=base_env,
                )
            provider = structs.replace(provider, base_url_env=base_env, base_url=base_url)
        if key:
            if not (key.isascii() and key.isprintable()):
                raise InvalidInput(
                    f"{template.key} holds a character that no key has; set it again.", field=template.key
                )
            provider = structs.replace(provider, api_key=ApiKey(key))
        found[provider.name] = provider
    found[SCRIPTED.name] = SCRIPTED
    return found


def how_to_configure(name: str) -> str | None:
    """Say which variables configure the provider of this name; ``None`` when Eunoe does not know it."""
    for template in _TEMPLATES:
        if template.provider.name == name:
            variables = ((template.key,) if template.key else ()) + template.bases
            return f"To use {name}, set {' or '.join(variables)}."
    return None


_VERSION: Final = re.compile(r"v\d+(alpha|beta)?\d*")
_ENDPOINTS: Final = ("/chat/completions", "/responses", "/messages", "/models")


def endpoint(base_url: str, path: str) -> str:
    """Return the address of ``path`` (such as ``/chat/completions``) of an API whose base URL a person wrote.

    People write the base with or without ``/v1``, with a slash at the end, or copy a whole endpoint; all of these give
    the same address. A base that names a version anywhere in its path is taken as it is.
    """
    base = _trimmed(base_url)
    segments = base.partition("://")[2].split("/")[1:]
    if not any(_VERSION.fullmatch(segment) for segment in segments):
        base += "/v1"
    return base + path


def server_root(base_url: str) -> str:
    """Return the address above ``/v1``, where servers keep what is their own (Ollama's ``/api/tags`` and the like)."""
    return _trimmed(base_url).removesuffix("/v1")


def _trimmed(base_url: str) -> str:
    base = base_url.strip().rstrip("/")
    for suffix in _ENDPOINTS:
        base = base.removesuffix(suffix)
    return base.rstrip("/")
