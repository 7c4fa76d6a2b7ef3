"""The models that can be asked: providers, their lists, and the dialects that speak with them."""

import logging
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
from msgspec import Struct, structs

from eunoe.models import anthropic, openai_chat, openai_responses, scripted
from eunoe.models.answer import Decoder
from eunoe.models.anthropic_stream import AnthropicDecoder
from eunoe.models.catalogue import DEFAULT_CONTEXT_WINDOW, facts_for, is_chat_model
from eunoe.models.discovery import Directory, Listed, find_model
from eunoe.models.json_fields import JsonObject
from eunoe.models.local import LOCAL_MODEL, LocalModel, local_provider
from eunoe.models.openai_chat_stream import ChatDecoder
from eunoe.models.openai_responses_stream import ResponsesDecoder
from eunoe.models.protocol import DialectName, Failed, ModelEvent, ModelInfo, ModelRequest, Payload
from eunoe.models.providers import Provider, endpoint, how_to_configure, providers_from_env
from eunoe.state.errors import InvalidInput, ModelError, NotFound

if TYPE_CHECKING:
    from eunoe.models.http import Sender

DEFAULT_READ_TIMEOUT: Final = 300.0
"""Seconds that an endpoint may be silent; ``EUNOE_MODEL_TIMEOUT`` sets another figure."""

_NAMED: Final = 8
"""How many models an error message names."""

_AT_A_TIME: Final = 8
"""Pieces of an answer that the scripted model gives before it lets others have a turn."""

_FIXED: Final = (f"local/{LOCAL_MODEL}", "scripted/demo")
"""The models of the providers that have no list to ask for."""

_log = logging.getLogger(__name__)


class _Dialect(Struct, frozen=True, kw_only=True):
    path: str
    build_body: Callable[[ModelRequest, Provider], JsonObject]
    decoder: Callable[[ModelRequest, Provider], Decoder]


_DIALECTS: Final[dict[DialectName, _Dialect]] = {
    "openai_chat": _Dialect(path=openai_chat.PATH, build_body=openai_chat.build_body, decoder=ChatDecoder),
    "openai_responses": _Dialect(
        path=openai_responses.PATH, build_body=openai_responses.build_body, decoder=ResponsesDecoder
    ),
    "anthropic": _Dialect(path=anthropic.PATH, build_body=anthropic.build_body, decoder=AnthropicDecoder),
    "scripted": _Dialect(path="", build_body=openai_chat.build_body, decoder=ChatDecoder),
}


class ModelRegistry:
    """See ``Models``. ``read_timeout`` is in seconds."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        *,
        read_timeout: float = DEFAULT_READ_TIMEOUT,
        rng: random.Random | None = None,
    ) -> None:
        self._providers = dict(providers)
        self._read_timeout = read_timeout
        self._rng = rng or random.Random()  # noqa: S311 - jitter of retries, not a secret
        self._sender_made: Sender | None = None
        self._local = LocalModel()
        self._directory = Directory(self)

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> "ModelRegistry":
        """Open the models that the environment configures, and the local one where it is installed.

        Raises ``InvalidInput`` when ``EUNOE_MODEL_TIMEOUT`` is not a number of seconds.
        """
        providers = providers_from_env(env)
        here = local_provider()
        if here is not None:
            providers[here.name] = here
        return cls(providers, read_timeout=_read_timeout(env))

    @property
    def providers(self) -> Mapping[str, Provider]:
        """The providers by name; their keys do not show."""
        return self._providers

    def add(self, provider: Provider) -> None:
        """Add a provider, or replace the one of its name, while running."""
        self._providers[provider.name] = provider
        self._directory.forget(provider)

    async def find(self, handle: str) -> ModelInfo:
        """Return the model of this handle, with what its endpoint tells of it; see ``Models``."""
        provider, name = self._split(handle)
        if provider.listing == "none":
            return self.resolve(handle)
        try:
            listed = await self._directory.models(provider, having=name if provider.list_complete else None)
        except ModelError as error:
            _log.warning("%s is taken as it is: %s", handle, error.message)
            return self.resolve(handle)
        found = find_model(listed, name)
        if found is None and provider.list_complete:
            raise _no_such_model(handle, provider, listed)
        return _info(provider, name, found)

    def resolve(self, handle: str) -> ModelInfo:
        """Return what is known of this handle without asking anyone; see ``Models``."""
        provider, name = self._split(handle)
        if provider.name == "local" and name != LOCAL_MODEL:
            raise _no_such_model(handle, provider, {LOCAL_MODEL: Listed(name=LOCAL_MODEL)})
        return _info(provider, name, self._directory.remembered(provider, name))

    async def list(self) -> list[ModelInfo]:
        """Return the models of all providers, in order of provider and name; see ``Models``."""
        found: dict[str, list[ModelInfo]] = {}

        async def add(provider: Provider) -> None:
            try:
                listed = await self._directory.models(provider)
            except ModelError as error:
                _log.warning("the models of %s are left out: %s", provider.name, error.message)
                return
            found[provider.name] = [
                _info(provider, name, listed[name]) for name in sorted(listed) if is_chat_model(name)
            ]

        async with anyio.create_task_group() as group:
            for provider in self._providers.values():
                if provider.listing != "none":
                    group.start_soon(add, provider)
        fixed = [self.resolve(handle) for handle in _FIXED if handle.partition("/")[0] in self._providers]
        return [info for name in self._providers for info in found.get(name, [])] + fixed

    def payload(self, request: ModelRequest) -> Payload:
        """Build the exact request; see ``Models``. Raises ``InvalidInput`` for settings that are not valid."""
        provider = self._provider(request.model.provider, request.model.handle)
        dialect = _DIALECTS[provider.dialect]
        base = f"{provider.name}:" if provider.dialect == "scripted" else endpoint(provider.base_url, dialect.path)
        return Payload(url=base, body=msgspec.json.encode(dialect.build_body(request, provider)))

    async def stream(self, request: ModelRequest, payload: Payload) -> AsyncGenerator[ModelEvent, None]:
        """Send the payload and tell what comes; see ``Models``."""
        provider = self._provider(request.model.provider, request.model.handle)
        if provider.dialect == "scripted":
            for number, event in enumerate(scripted.answer(payload.body)):
                if number % _AT_A_TIME == 0:  # as many as come in one read from an endpoint
                    await anyio.lowlevel.checkpoint()
                yield event
            return
        if provider.name == "local":
            try:
                base_url = await self._local.start()
            except ModelError as error:
                yield Failed(error=error)
                return
            payload = structs.replace(payload, url=endpoint(base_url, openai_chat.PATH))
        decoder = _DIALECTS[provider.dialect].decoder
        sending = self._sender().send(provider, payload, lambda: decoder(request, provider))
        async with aclosing(sending) as events:
            async for event in events:
                yield event

    async def get(self, provider: Provider, url: str, *, body: JsonObject | None = None) -> Any:
        """Ask an endpoint about its models; see ``discovery.Asker``."""
        return await self._sender().get(provider, url, body=body)

    async def aclose(self) -> None:
        """Close connections, and stop the local model if it runs."""
        if self._sender_made is not None:
            await self._sender_made.aclose()
            self._sender_made = None
        await self._local.stop()

    def _sender(self) -> "Sender":
        if self._sender_made is None:
            from eunoe.models.http import Sender  # noqa: PLC0415 - the HTTP library costs 0.1 s; many runs need none

            self._sender_made = Sender(read_timeout=self._read_timeout, rng=self._rng)
        return self._sender_made

    def _split(self, handle: str) -> tuple[Provider, str]:
        provider, slash, name = handle.partition("/")
        if not slash or not provider or not name:
            raise InvalidInput(
                f"The model handle should be in the format provider/model-name, and {handle!r} is not.", field="model"
            )
        return self._provider(provider, handle), name

    def _provider(self, name: str, handle: str) -> Provider:
        found = self._providers.get(name)
        if found is None:
            configured = ", ".join(f"{known}/…" for known in sorted(self._providers))
            advice = how_to_configure(name) or f"Eunoe knows no provider of the name {name!r}."
            raise NotFound("model", handle, f"Handle {handle} not found, must be one of [{configured}]. {advice}")
        return found


def _info(provider: Provider, name: str, listed: Listed | None) -> ModelInfo:
    """Put together what the endpoint told, what the catalogue knows, and what is assumed, in this order."""
    facts = facts_for(name)
    told = listed or Listed(name=name)
    return ModelInfo(
        handle=f"{provider.name}/{name}",
        name=name,
        provider=provider.name,
        provider_type=provider.provider_type,
        dialect=provider.dialect,
        base_url=endpoint(provider.base_url, "") if provider.base_url else "",
        context_window=told.context_window or facts.context_window or DEFAULT_CONTEXT_WINDOW,
        max_output_tokens=told.max_output_tokens or facts.max_output_tokens,
        supports_tools=told.supports_tools,
        reasoning=facts.reasoning,
        line_numbers=provider.provider_type == "anthropic",
    )


def _no_such_model(handle: str, provider: Provider, listed: Mapping[str, Listed]) -> NotFound:
    names = sorted(listed)
    shown = ", ".join(f"{provider.name}/{name}" for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    where = provider.base_url or provider.name
    said = f"must be one of [{shown}]{more}" if names else "and the server has no models; load one"
    return NotFound("model", handle, f"Handle {handle} not found, {said} ({where}).")


def _read_timeout(env: Mapping[str, str]) -> float:
    text = env.get("EUNOE_MODEL_TIMEOUT", "").strip()
    if not text:
        return DEFAULT_READ_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InvalidInput(
            f"EUNOE_MODEL_TIMEOUT must be a number of seconds above 0, and it is {text!r}.", field="EUNOE_MODEL_TIMEOUT"
        )
    return seconds
