"""Providers from the environment, and the addresses that are made of what people write."""

import msgspec
import pytest

from eunoe.models.providers import ApiKey, endpoint, providers_from_env, server_root
from eunoe.models.registry import ModelRegistry
from eunoe.state.errors import InvalidInput


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("http://h:1", "http://h:1/v1/chat/completions"),
        ("http://h:1/", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1/", "http://h:1/v1/chat/completions"),
        (" http://h:1/v1 ", "http://h:1/v1/chat/completions"),
        ("http://h:1/v1/chat/completions", "http://h:1/v1/chat/completions"),
        ("http://h:1/proxy", "http://h:1/proxy/v1/chat/completions"),
        ("https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1/chat/completions"),
        ("https://g.example/v1beta/openai", "https://g.example/v1beta/openai/chat/completions"),
        ("https://g.example/v1beta/openai/", "https://g.example/v1beta/openai/chat/completions"),
    ],
)
def test_P06_every_way_to_write_a_base_url_gives_one_address(base: str, expected: str):
    assert endpoint(base, "/chat/completions") == expected


@pytest.mark.parametrize(
    "base", ["https://a.example", "https://a.example/", "https://a.example/v1", "https://a.example/v1/messages"]
)
def test_P06_the_same_for_anthropic(base: str):
    assert endpoint(base, "/messages") == "https://a.example/v1/messages"


@pytest.mark.parametrize("base", ["http://h:11434", "http://h:11434/", "http://h:11434/v1", "http://h:11434/v1/"])
def test_P06_what_servers_keep_beside_v1(base: str):
    assert server_root(base) == "http://h:11434"


def test_only_what_the_environment_names_is_there():
    assert list(providers_from_env({})) == ["scripted"]
    named = providers_from_env({"OPENAI_API_BASE": "http://h:1", "GROQ_API_KEY": "g", "OLLAMA_BASE_URL": " "})
    assert list(named) == ["openai", "openai-responses", "groq", "scripted"]
    assert (named["openai"].base_url, named["openai"].api_key) == ("http://h:1", None)
    assert named["openai"].base_url_env == "OPENAI_API_BASE"
    assert named["groq"].base_url == "https://api.groq.com/openai/v1"


def test_OPENAI_BASE_URL_goes_before_OPENAI_API_BASE():
    both = providers_from_env({"OPENAI_API_BASE": "http://old", "OPENAI_BASE_URL": "http://new", "OPENAI_API_KEY": "k"})
    assert both["openai"].base_url == "http://new"


def test_servers_of_ones_own_need_no_key():
    env = {f"{name}_BASE_URL": "http://h" for name in ("OLLAMA", "LMSTUDIO", "VLLM", "LLAMACPP")}
    assert list(providers_from_env(env)) == ["ollama", "lmstudio", "vllm", "llamacpp", "scripted"]


def test_a_key_does_not_show():
    provider = providers_from_env({"OPENAI_API_KEY": "sk-secret"})["openai"]
    assert provider.api_key is not None
    assert provider.api_key.reveal() == "sk-secret"
    assert "sk-secret" not in f"{provider!r} {provider} {provider.api_key!r} {provider.api_key}"
    with pytest.raises(TypeError):
        msgspec.json.encode(ApiKey("sk-secret"))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"OPENAI_API_KEY": "sk-…"}, "OPENAI_API_KEY holds a character that no key has"),
        ({"OLLAMA_BASE_URL": "http://me:secret@h:1/v1"}, "OLLAMA_BASE_URL holds a user name or password"),
    ],
)
def test_what_cannot_be_sent_or_shown_is_refused_at_once(env: dict[str, str], message: str):
    with pytest.raises(InvalidInput, match=message) as refused:
        providers_from_env(env)
    assert "secret" not in refused.value.message.replace("the secret", "")


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan"])
def test_a_time_limit_that_is_none_is_refused(text: str):
    with pytest.raises(InvalidInput, match="EUNOE_MODEL_TIMEOUT must be a number of seconds above 0"):
        ModelRegistry.from_env({"EUNOE_MODEL_TIMEOUT": text})
