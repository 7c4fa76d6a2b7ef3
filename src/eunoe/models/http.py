"""The one sender: everything that goes to a model endpoint goes through here.

This module is imported when the first request is made: the HTTP library costs a tenth of a second.
"""

import functools
import itertools
import logging
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Final

import anyio
import httpx2
import msgspec

from eunoe.models.answer import Decoder, Piece
from eunoe.models.anthropic import VERSION
from eunoe.models.failures import failure, without_key
from eunoe.models.json_fields import JsonObject
from eunoe.models.protocol import Failed, ModelEvent, Payload
from eunoe.models.providers import Provider
from eunoe.models.retry import Stop, decide, parse_retry_after
from eunoe.state.errors import ModelError

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to open a connection for an answer."""
LIST_CONNECT_TIMEOUT: Final = 3.0
LIST_TIMEOUT: Final = 10.0
"""Seconds of silence in an answer about models; ``discovery`` bounds the whole."""
READ_OUT_SECONDS: Final = 0.2
"""Seconds that a server has to end a stream whose answer is complete."""
LONGEST_ANSWER: Final = 128 * 1024 * 1024
"""Bytes of an answer with all its wrapping; a server that sends more has lost its way, and would fill the memory."""
LONGEST_EVENT: Final = 16 * 1024 * 1024
"""Bytes of one server-sent event; servers that send whole tool calls need more than a line."""

_log = logging.getLogger(__name__)

# It logs the address of each request, which may hold a key (I14).
logging.getLogger("httpx2").setLevel(logging.WARNING)


def auth_headers(provider: Provider) -> dict[str, str]:
    """Return the headers that carry the key, in the provider's way."""
    key = provider.api_key.reveal() if provider.api_key else None
    if provider.dialect == "anthropic":
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
    return {"authorization": f"Bearer {key}"} if key else {}


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Load the certificates that are trusted once in a process: it takes a twentieth of a second."""
    return httpx2.create_ssl_context()


class Sender:
    """An HTTP client with our timeouts, our errors and our retries.

    ``read_timeout`` is how long, in seconds, an endpoint may be silent between two pieces of an answer.
    """

    def __init__(self, *, read_timeout: float, rng: random.Random) -> None:
        self._rng = rng
        timeout = httpx2.Timeout(read_timeout, connect=CONNECT_TIMEOUT)
        self._client = httpx2.AsyncClient(timeout=timeout, follow_redirects=False, verify=_trusted())

    async def send(
        self, provider: Provider, payload: Payload, new_decoder: Callable[[], Decoder]
    ) -> AsyncGenerator[ModelEvent, None]:
        """Send the payload and tell what comes; repeat by the policy of ``retry`` while nothing has come."""
        for attempt in itertools.count(1):
            refused: Failed | None = None
            async with aclosing(self._attempt(provider, payload, new_decoder())) as events:
                async for event in events:
                    if isinstance(event, Failed):
                        refused = event
                    else:
                        yield event
            if refused is None:
                return
            decision = decide(refused.error, attempt, rng=self._rng)
            if isinstance(decision, Stop):
                yield refused
                return
            _log.warning("%s; request %d is repeated in %.1f s", refused.error.message, attempt, decision.seconds)
            await anyio.sleep(decision.seconds)

    async def _attempt(
        self, provider: Provider, payload: Payload, decoder: Decoder
    ) -> AsyncGenerator[ModelEvent, None]:
        headers = {"content-type": "application/json", "accept": "text/event-stream", **auth_headers(provider)}
        refused: ModelError | None = None
        answering = False
        try:
            async with self._client.stream("POST", payload.url, content=payload.body, headers=headers) as response:
                answering = response.status_code == 200 and _is_event_stream(response)
                async with aclosing(_pieces(provider, response, decoder)) as pieces:
                    async for piece in pieces:
                        yield piece
        except ModelError as error:
            refused = error
        except (httpx2.RemoteProtocolError, httpx2.ReadError) as error:
            if not answering:
                refused = _transport_error(provider, payload.url, error)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            refused = _transport_error(provider, payload.url, error)
        ending = decoder.end()
        if refused is None:
            for event in ending:
                yield event
            return
        parts = getattr(ending[-1], "parts", ()) if answering else ()
        refused = _marked(refused, started=bool(parts))
        yield Failed(error=refused, parts=parts)

    async def get(self, provider: Provider, url: str, *, body: JsonObject | None = None) -> Any:
        """Ask an endpoint about its models: GET, or POST when there is a body; return the JSON value.

        Raises ``ModelError``.
        """
        timeout = httpx2.Timeout(LIST_TIMEOUT, connect=LIST_CONNECT_TIMEOUT)
        method = "GET" if body is None else "POST"
        try:
            response = await self._client.request(
                method, url, json=body, headers=auth_headers(provider), timeout=timeout
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _transport_error(provider, url, error) from error
        if response.status_code != 200:
            raise _refusal(provider, response, response.content)
        value = _json(response.content)
        if value is None:
            raise ModelError("invalid_response", f"{url} did not answer with JSON.", provider=provider.name)
        return value

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.aclose()


async def _read_out(events: AsyncIterator[httpx2.ServerSentEvent]) -> None:
    """Read the end of a stream whose answer is complete: a connection that was read out can be used again."""
    with anyio.move_on_after(READ_OUT_SECONDS):
        async for _ in events:
            continue


def _is_event_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def _pieces(provider: Provider, response: httpx2.Response, decoder: Decoder) -> AsyncGenerator[Piece, None]:
    """Tell what an answer brings, whole or as a stream. Raises ``ModelError`` when it is none, or has no end."""
    if response.status_code != 200:
        raise _refusal(provider, response, await _whole(provider, response))
    if not _is_event_stream(response):
        value = _json(await _whole(provider, response))
        if value is None:
            raise _no_answer(provider, response)
        for piece in decoder.feed_whole(value):
            yield piece
        return
    size = 0
    events = aiter(httpx2.EventSource(response, max_event_size=LONGEST_EVENT))
    async for sse in events:
        size += len(sse.data)
        if size > LONGEST_ANSWER:
            raise _too_long(provider)
        for piece in decoder.feed(sse.event, sse.data) if sse.data else ():
            yield piece
        if decoder.done:
            await _read_out(events)
            return


async def _whole(provider: Provider, response: httpx2.Response) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > LONGEST_ANSWER:
            raise _too_long(provider)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_long(provider: Provider) -> ModelError:
    message = f"{provider.name} sent more than {LONGEST_ANSWER // 2**20} MiB in one answer. Limit max_output_tokens."
    return ModelError("invalid_response", message, provider=provider.name)


def _no_answer(provider: Provider, response: httpx2.Response) -> ModelError:
    kind = response.headers.get("content-type", "").partition(";")[0].strip() or "no content type"
    variable = provider.base_url_env or f"the base URL of {provider.name}"
    message = f"{response.url} answered with {kind} that is neither JSON nor a stream of events."
    advice = f"Check that {variable} is the address of a model API."
    return ModelError("invalid_response", f"{message} {advice}", provider=provider.name)


def _refusal(provider: Provider, response: httpx2.Response, body: bytes) -> ModelError:
    retry_after = parse_retry_after(response.headers.get("retry-after"), now=datetime.now(UTC))
    return failure(provider, body, status=response.status_code, retry_after=retry_after)


def _transport_error(provider: Provider, url: str, error: Exception) -> ModelError:
    """Say which address failed and which variable names it; another vendor is never asked instead."""
    variable = provider.base_url_env or f"the base URL of {provider.name}"
    reason = without_key(provider, str(error)).rstrip(".") or type(error).__name__
    if isinstance(error, (httpx2.ReadTimeout, httpx2.WriteTimeout, httpx2.PoolTimeout)):
        message = f"{url} was silent for too long ({type(error).__name__}). Try again, or raise EUNOE_MODEL_TIMEOUT."
        return ModelError("timeout", message, provider=provider.name)
    if isinstance(error, (httpx2.DecodingError, httpx2.SSEError)):
        return ModelError("invalid_response", f"cannot read the answer of {url}: {reason}", provider=provider.name)
    if isinstance(error, (httpx2.InvalidURL, httpx2.UnsupportedProtocol)):
        message = f"{url} is no address that can be called: {reason}. Correct {variable}."
        return ModelError("invalid_request", message, provider=provider.name)
    return ModelError(
        "unreachable", f"cannot reach {url}: {reason}. Start the server or correct {variable}.", provider=provider.name
    )


def _marked(error: ModelError, *, started: bool) -> ModelError:
    return ModelError(
        error.kind,
        error.message,
        provider=error.provider,
        status=error.status,
        retry_after=error.retry_after,
        started=started,
    )
