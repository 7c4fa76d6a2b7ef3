"""Which models there are, and how large their windows are, by each server's own way of telling."""

import socket
from typing import Any

import pytest

from eunoe.models.catalogue import DEFAULT_CONTEXT_WINDOW, facts_for, is_chat_model
from eunoe.models.providers import Provider, providers_from_env
from eunoe.models.registry import ModelRegistry
from eunoe.state.errors import InvalidInput, NotFound
from model_servers.control import ModelServer, json_response

pytestmark = pytest.mark.anyio


def registry(**env: str) -> ModelRegistry:
    return ModelRegistry(providers_from_env(env))


async def windows(models: ModelRegistry) -> dict[str, int]:
    listed = await models.list()
    await models.aclose()
    return {info.handle: info.context_window for info in listed if info.provider != "scripted"}


def ollama(server: ModelServer, *, parameters: str = "", information: dict[str, Any] | None = None) -> None:
    server.pages["/api/tags"] = {"models": [{"name": "llama3:latest"}, {"name": "nomic-embed-text:latest"}]}
    server.pages["/api/show"] = {
        "parameters": parameters,
        "model_info": information or {},
        "capabilities": ["completion"],
    }


async def test_P07_an_ollama_added_at_run_time_is_asked_for_its_tags(openai_server: ModelServer):
    ollama(openai_server, information={"llama.context_length": 8192})
    models = registry()
    models.add(
        Provider(
            name="mine", provider_type="ollama", dialect="openai_chat", base_url=openai_server.root, listing="ollama"
        )
    )
    found = {info.handle: info for info in await models.list()}
    assert list(found) == ["mine/llama3:latest", "scripted/demo"]
    assert found["mine/llama3:latest"].context_window == 8192
    assert found["mine/llama3:latest"].supports_tools is False
    assert openai_server.seen[0] in ("/api/tags", "/api/ps")
    assert (await models.find("mine/llama3")).context_window == 8192
    await models.aclose()


@pytest.mark.parametrize(
    ("parameters", "information", "loaded", "window"),
    [
        ('num_ctx                        4096\nstop "x"', {"llama.context_length": 131072}, None, 4096),
        ("", {"general.architecture": "llama", "llama.context_length": 131072}, None, 131072),
        ("", {"llama.context_length": 131072}, 2048, 2048),
        ("", {}, None, 8192),
    ],
    ids=["set for the model", "trained with", "loaded with", "not told: the catalogue"],
)
async def test_P10_windows_of_ollama(
    parameters: str, information: dict[str, Any], loaded: int | None, window: int, openai_server: ModelServer
):
    ollama(openai_server, parameters=parameters, information=information)
    if loaded is not None:
        openai_server.pages["/api/ps"] = {"models": [{"name": "llama3:latest", "context_length": loaded}]}
    models = registry(OLLAMA_BASE_URL=openai_server.root + "/v1")
    assert (await windows(models)) == {"ollama/llama3:latest": window}


async def test_P10_windows_of_lm_studio(openai_server: ModelServer):
    openai_server.pages["/api/v0/models"] = {
        "data": [
            {"id": "a", "type": "llm", "max_context_length": 131072, "loaded_context_length": 16384},
            {"id": "b", "type": "llm", "max_context_length": 131072},
            {"id": "text-embedding-c", "type": "embeddings", "max_context_length": 512},
        ]
    }
    assert await windows(registry(LMSTUDIO_BASE_URL=openai_server.base_url)) == {
        "lmstudio/a": 16384,
        "lmstudio/b": 131072,
    }


async def test_an_older_lm_studio_still_lists_its_models(openai_server: ModelServer):
    openai_server.models.append({"id": "unheard-of"})
    assert await windows(registry(LMSTUDIO_BASE_URL=openai_server.base_url)) == {
        "lmstudio/unheard-of": DEFAULT_CONTEXT_WINDOW
    }


async def test_the_window_that_llamacpp_runs_with(openai_server: ModelServer):
    openai_server.models.append({"id": "m", "meta": {"n_ctx_train": 131072}})
    openai_server.pages["/props"] = {"default_generation_settings": {"n_ctx": 4096}}
    assert await windows(registry(LLAMACPP_BASE_URL=openai_server.root)) == {"llamacpp/m": 4096}


@pytest.mark.parametrize(
    "entry",
    [
        {"max_model_len": 256000},
        {"context_length": 256000},
        {"context_window": 256000},
        {"max_input_tokens": 256000},
        {"model_info": {"max_input_tokens": 256000}},
    ],
    ids=["vLLM", "OpenRouter", "Groq", "proxy", "LiteLLM"],
)
async def test_P04_what_a_proxy_says_of_its_model_is_believed(entry: dict[str, Any], openai_server: ModelServer):
    openai_server.models.append({"id": "gpt-4o", **entry})
    models = registry(OPENAI_BASE_URL=openai_server.base_url)
    info = await models.find("openai/gpt-4o")
    await models.aclose()
    assert (info.context_window, models.resolve("openai/gpt-4o").context_window) == (256000, 256000)


async def test_a_model_that_the_list_lacks_is_refused_with_what_there_is(openai_server: ModelServer):
    openai_server.models.extend({"id": f"m{number}"} for number in range(10))
    models = registry(VLLM_BASE_URL=openai_server.base_url)
    assert (await models.find("vllm/m3")).handle == "vllm/m3"
    with pytest.raises(
        NotFound, match=r"^Handle vllm/gone not found, must be one of \[vllm/m0, .*vllm/m7\] and 2 more \(http"
    ):
        await models.find("vllm/gone")
    await models.aclose()


async def test_a_model_whose_name_sounds_like_no_chat_is_found_but_not_listed(openai_server: ModelServer):
    openai_server.models.extend([{"id": "qwen2-audio"}, {"id": "m"}])
    models = registry(VLLM_BASE_URL=openai_server.base_url)
    assert (await models.find("vllm/qwen2-audio")).name == "qwen2-audio"
    assert list(await windows(models)) == ["vllm/m"]


async def test_the_list_is_asked_once_a_minute(openai_server: ModelServer):
    openai_server.models.append({"id": "m"})
    models = registry(VLLM_BASE_URL=openai_server.base_url)
    for _ in range(3):
        await models.find("vllm/m")
    await models.aclose()
    assert openai_server.seen == ["/v1/models"]


async def test_a_model_that_was_loaded_a_moment_ago_is_found_at_once(openai_server: ModelServer):
    models = registry(VLLM_BASE_URL=openai_server.base_url)
    with pytest.raises(NotFound, match="the server has no models; load one"):
        await models.find("vllm/m")
    openai_server.models.append({"id": "m"})
    assert (await models.find("vllm/m")).name == "m"
    await models.aclose()


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
async def test_P05_a_server_that_wants_a_key_is_shown_it_when_its_models_are_listed(
    vendor: str, openai_server: ModelServer, anthropic_server: ModelServer
):
    server, name = (openai_server, "gpt-4o") if vendor == "openai" else (anthropic_server, "claude-sonnet-4-5")
    server.key = "a-key"
    server.models.append({"id": name, "type": "model"})
    prefix = vendor.upper()
    place = {f"{prefix}_BASE_URL": server.base_url}
    assert f"{vendor}/{name}" in await windows(registry(**place, **{f"{prefix}_API_KEY": "a-key"}))
    assert await windows(registry(**place, **{f"{prefix}_API_KEY": "another"})) == {}


@pytest.mark.parametrize("status", [401, 404, 500])
async def test_a_model_is_taken_as_it_is_where_there_is_no_list(status: int, anthropic_server: ModelServer):
    anthropic_server.pages["/odd/v1/models"] = json_response({"error": "no"}, status)
    models = registry(VLLM_BASE_URL=anthropic_server.root + "/odd")
    assert (await models.find("vllm/any/name")).name == "any/name"
    assert await windows(models) == {}


async def test_P08_a_model_of_a_server_that_is_down_is_taken_as_it_is():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    models = registry(OLLAMA_BASE_URL=nobody)
    info = await models.find("ollama/llama3.1")
    assert (info.provider, info.base_url, info.context_window) == ("ollama", f"{nobody}/v1", 131_072)
    assert await windows(models) == {}


async def test_an_alias_that_anthropic_does_not_list_is_taken(anthropic_server: ModelServer):
    anthropic_server.models.append({"id": "claude-sonnet-4-5-20250929", "type": "model", "max_input_tokens": 1_000_000})
    models = registry(ANTHROPIC_BASE_URL=anthropic_server.base_url)
    info = await models.find("anthropic/claude-sonnet-4-5")
    assert (info.context_window, info.line_numbers, info.dialect) == (200_000, True, "anthropic")
    assert await windows(models) == {"anthropic/claude-sonnet-4-5-20250929": 1_000_000}


async def test_a_provider_that_is_not_configured_is_refused_with_what_to_do():
    models = registry(OLLAMA_BASE_URL="http://h")
    with pytest.raises(NotFound) as refused:
        await models.find("openai/gpt-4o")
    assert refused.value.message == (
        "Handle openai/gpt-4o not found, must be one of [ollama/…, scripted/…]. "
        "To use openai, set OPENAI_API_KEY or OPENAI_BASE_URL or OPENAI_API_BASE."
    )
    with pytest.raises(NotFound, match="Eunoe knows no provider of the name 'letta'"):
        models.resolve("letta/letta-free")


@pytest.mark.parametrize("handle", ["gpt-4o", "", "/x", "openai/"])
async def test_a_handle_without_its_two_parts_is_refused(handle: str):
    with pytest.raises(InvalidInput, match="The model handle should be in the format provider/model-name"):
        await registry().find(handle)


async def test_the_scripted_model_is_always_there():
    models = registry()
    assert [info.handle for info in await models.list()] == ["scripted/demo"]
    assert (await models.find("scripted/anything")).dialect == "scripted"


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("gpt-4o-mini", 128_000),
        ("gpt-4-0613", 8_192),
        ("gpt-4.1-nano", 1_047_576),
        ("gpt-5-mini", 400_000),
        ("o4-mini", 200_000),
        ("claude-3-5-sonnet-latest", 200_000),
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
        ("llama3.2:1b", 131_072),
        ("Qwen/Qwen3-8B", 40_960),
        ("gemma3:4b", 131_072),
        ("mistral-small-latest", 128_000),
        ("nobody-knows", 0),
    ],
)
async def test_windows_that_are_known_beforehand(name: str, window: int):
    assert facts_for(name).context_window == window


@pytest.mark.parametrize(
    "name",
    [
        "text-embedding-3-small",
        "whisper-1",
        "tts-1",
        "dall-e-3",
        "gpt-4o-mini-tts",
        "gpt-image-1",
        "omni-moderation-latest",
    ],
)
async def test_what_is_no_chat_model_is_not_listed(name: str):
    assert not is_chat_model(name)
    assert is_chat_model("gpt-4o")
