"""Which models a provider has, and how large their windows are: asked of its own endpoint.

Every kind of server tells it in its own way; what they have in common is a list of names.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import anyio
from msgspec import Struct

from eunoe.models.json_fields import JsonObject, as_object, int_in, object_in, objects_in, text_in
from eunoe.models.providers import Provider, endpoint, server_root
from eunoe.state.errors import ModelError

CACHE_SECONDS: Final = 60.0
"""How long a list is used again before the endpoint is asked anew."""

LONGEST_ASK: Final = 10.0
"""Seconds that a provider has to tell all of it: someone waits for a list."""

_PARALLEL: Final = 4
"""How many models of one server are asked about at once."""


class Asker(Protocol):
    """What discovery needs of the sender."""

    async def get(self, provider: Provider, url: str, *, body: JsonObject | None = None) -> Any:
        """Return the JSON answer; raises ``ModelError``."""
        ...


class Listed(Struct, frozen=True, kw_only=True):
    """A model as its endpoint names it. A window of 0 was not told (tokens)."""

    name: str
    context_window: int = 0
    max_output_tokens: int | None = None
    supports_tools: bool = True


async def ask(asker: Asker, provider: Provider) -> dict[str, Listed]:
    """Ask the provider for its models, by name. Raises ``ModelError``."""
    match provider.listing:
        case "none":
            return {}
        case "ollama":
            return await _ollama(asker, provider)
        case "lmstudio":
            return await _lmstudio(asker, provider)
        case "llamacpp":
            return await _llamacpp(asker, provider)
        case "openai" | "anthropic":
            suffix = "?limit=1000" if provider.listing == "anthropic" else ""
            return _read(await asker.get(provider, endpoint(provider.base_url, "/models") + suffix))


class Directory:
    """The lists of all providers, each kept for ``CACHE_SECONDS``."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._known: dict[str, tuple[float, dict[str, Listed]]] = {}

    async def models(self, provider: Provider, *, having: str | None = None) -> dict[str, Listed]:
        """Return the provider's models. Raises ``ModelError``; failures are not kept.

        A kept list without the model ``having`` is asked for anew: it may have been loaded since.
        """
        known = self._known.get(provider.name)
        fresh = known is not None and anyio.current_time() - known[0] < CACHE_SECONDS
        if known is not None and fresh and (having is None or find_model(known[1], having) is not None):
            return known[1]
        try:
            with anyio.fail_after(LONGEST_ASK):
                listed = await ask(self._asker, provider)
        except TimeoutError as error:
            message = f"{provider.name} did not list its models within {LONGEST_ASK:.0f} s."
            raise ModelError("timeout", message, provider=provider.name) from error
        self._known[provider.name] = (anyio.current_time(), listed)
        return listed

    def remembered(self, provider: Provider, name: str) -> Listed | None:
        """Return what was last told about this model, without asking."""
        known = self._known.get(provider.name)
        return known[1].get(name) if known else None

    def forget(self, provider: Provider) -> None:
        """Ask this provider anew next time."""
        self._known.pop(provider.name, None)


def find_model(listed: Mapping[str, Listed], name: str) -> Listed | None:
    """Return the model of this name; Ollama's ``latest`` may be left out."""
    return listed.get(name) or listed.get(f"{name}:latest")


def window_in(model: JsonObject) -> int:
    """Return the window that an entry of a model list tells, or 0.

    The fields are those of LM Studio, vLLM, OpenRouter and Together, Groq, Mistral, LiteLLM and Anthropic, llama.cpp;
    what is loaded goes before what is possible.
    """
    names = ("loaded_context_length", "max_model_len", "context_length", "context_window", "max_context_length")
    for name in (*names, "max_input_tokens"):
        window = int_in(model, name)
        if window:
            return window
    return int_in(object_in(model, "meta"), "n_ctx") or int_in(object_in(model, "model_info"), "max_input_tokens") or 0


def _read(body: Any) -> dict[str, Listed]:
    fields = as_object(body)
    models = objects_in(fields, "data") if fields is not None else objects_in({"data": body}, "data")
    found: dict[str, Listed] = {}
    for model in models:
        name = text_in(model, "id").removeprefix("models/")  # Google's names carry the collection
        if name:
            most = int_in(model, "max_output_tokens") or int_in(model, "max_tokens")
            found[name] = Listed(name=name, context_window=window_in(model), max_output_tokens=most)
    return found


async def _lmstudio(asker: Asker, provider: Provider) -> dict[str, Listed]:
    try:
        return _read(await asker.get(provider, server_root(provider.base_url) + "/api/v0/models"))
    except ModelError as error:
        if error.status is None:
            raise
        # Versions before 0.3.6 have the common list only, without windows.
        return _read(await asker.get(provider, endpoint(provider.base_url, "/models")))


async def _llamacpp(asker: Asker, provider: Provider) -> dict[str, Listed]:
    listed = _read(await asker.get(provider, endpoint(provider.base_url, "/models")))
    try:
        props = as_object(await asker.get(provider, server_root(provider.base_url) + "/props")) or {}
    except ModelError as error:
        if error.status is None:
            raise
        return listed  # a proxy in between does not have to pass it on
    window = int_in(object_in(props, "default_generation_settings"), "n_ctx") or int_in(props, "n_ctx") or 0
    return {name: Listed(name=name, context_window=window or model.context_window) for name, model in listed.items()}


async def _ollama(asker: Asker, provider: Provider) -> dict[str, Listed]:
    root = server_root(provider.base_url)
    tags = as_object(await asker.get(provider, root + "/api/tags")) or {}
    names = [name for name in (text_in(model, "name") for model in objects_in(tags, "models")) if name]
    found: dict[str, Listed] = {}
    failures: list[ModelError] = []
    limit = anyio.CapacityLimiter(_PARALLEL)
    loaded = await _ollama_loaded(asker, provider, root)

    async def show(name: str) -> None:
        async with limit:
            try:
                told = as_object(await asker.get(provider, root + "/api/show", body={"model": name})) or {}
            except ModelError as error:
                if error.status is None:
                    failures.append(error)
                    return
                told: JsonObject = {}  # the model was removed meanwhile, or the server is old: its window is unknown
        found[name] = _ollama_model(name, told, loaded.get(name, 0))

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(show, name)
    if failures:
        raise failures[0]
    return {name: found[name] for name in names}


async def _ollama_loaded(asker: Asker, provider: Provider, root: str) -> dict[str, int]:
    """Return the windows that loaded models really run with: Ollama cuts longer prompts without a word."""
    try:
        running = as_object(await asker.get(provider, root + "/api/ps")) or {}
    except ModelError as error:
        if error.status is None:
            raise
        return {}  # older servers do not tell
    return {text_in(m, "name"): int_in(m, "context_length") or 0 for m in objects_in(running, "models")}


def _ollama_model(name: str, told: JsonObject, loaded: int) -> Listed:
    """Read ``/api/show``: the window set for the model goes before the one that it was trained with."""
    parameters = dict(
        line.split(maxsplit=1) for line in text_in(told, "parameters").splitlines() if " " in line.strip()
    )
    chosen = parameters.get("num_ctx", "").strip()
    information = object_in(told, "model_info")
    trained = next((int_in(information, key) for key in information if key.endswith(".context_length")), None)
    capabilities: Any = told.get("capabilities")
    return Listed(
        name=name,
        context_window=loaded or (int(chosen) if chosen.isdecimal() else 0) or trained or 0,
        supports_tools=not isinstance(capabilities, list) or "tools" in capabilities,
    )
