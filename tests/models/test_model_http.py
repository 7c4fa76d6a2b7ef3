"""Whole exchanges over real HTTP with the model servers: answers, failures, retries, cuts and silence."""

import json
import logging
import random
import socket
from typing import Any

import anyio
import pytest
from starlette.responses import Response
from test_model_bodies import TOOL, text

from eunoe.models.http import LONGEST_ANSWER
from eunoe.models.protocol import Completed, Failed, ModelEvent, ModelRequest, Piece, TextPiece
from eunoe.models.providers import providers_from_env
from eunoe.models.registry import ModelRegistry
from eunoe.state.messages import Message, ReasoningPart, TextPart, ToolCallPart, ToolReturnPart
from model_servers.control import ModelServer

pytestmark = pytest.mark.anyio

HANDLES = {"chat": "openai/gpt-4.1", "responses": "openai-responses/gpt-5", "anthropic": "anthropic/claude-sonnet-4-5"}
dialects = pytest.mark.parametrize("dialect", list(HANDLES))


@pytest.fixture
def servers(openai_server: ModelServer, anthropic_server: ModelServer) -> dict[str, ModelServer]:
    return {"chat": openai_server, "responses": openai_server, "anthropic": anthropic_server}


def registry(
    openai: ModelServer | str, anthropic: ModelServer | str = "http://127.0.0.1:1", **env: str
) -> ModelRegistry:
    urls = [server if isinstance(server, str) else server.base_url for server in (openai, anthropic)]
    keys = {"OPENAI_API_KEY": "sk-test", "ANTHROPIC_API_KEY": "sk-ant-test"}
    named = {"OPENAI_BASE_URL": urls[0], "ANTHROPIC_BASE_URL": urls[1], **keys, **env}
    timeout = float(named.get("EUNOE_MODEL_TIMEOUT", "300"))
    return ModelRegistry(providers_from_env(named), read_timeout=timeout, rng=random.Random(1))


def asked(models: ModelRegistry, handle: str, *messages: Message | str, **fields: Any) -> ModelRequest:
    window = tuple(text("user", message) if isinstance(message, str) else message for message in messages)
    return ModelRequest(
        model=models.resolve(handle), messages=window, **{"system": "Be brief.", "tools": (TOOL,), **fields}
    )


async def exchange(models: ModelRegistry, request: ModelRequest) -> list[ModelEvent]:
    with anyio.fail_after(20):
        return [event async for event in models.stream(request, models.payload(request))]


async def one(models: ModelRegistry, handle: str, *messages: Message | str, **fields: Any) -> Completed | Failed:
    try:
        *pieces, last = await exchange(models, asked(models, handle, *messages, **fields))
    finally:
        await models.aclose()
    assert not any(isinstance(piece, (Completed, Failed)) for piece in pieces)
    assert isinstance(last, (Completed, Failed))
    return last


def ok(last: Completed | Failed) -> Completed:
    assert isinstance(last, Completed), last
    return last


def bad(last: Completed | Failed) -> Failed:
    assert isinstance(last, Failed), last
    return last


@dialects
@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_with_tools_and_reasoning(dialect: str, stream: bool, servers: dict[str, ModelServer]):
    """The answer is stored, its calls are answered, and the vendor's strict check takes the history."""
    models = registry(servers["chat"], servers["anthropic"])
    script = 'THINK:hm\nSAY:Looking.\nTOOL:look {"at":"door"}\nTOOL:look {"at":"roof"}\nTHEN:\nSAY:All closed.'
    *_, first = await exchange(models, asked(models, HANDLES[dialect], script, stream=stream))
    assert isinstance(first, Completed)
    thought, said, door, roof = first.parts
    assert isinstance(thought, ReasoningPart)
    assert (thought.text, said) == ("hm", TextPart(text="Looking."))
    assert isinstance(door, ToolCallPart)
    assert isinstance(roof, ToolCallPart)
    assert (door.arguments, roof.arguments) == ('{"at":"door"}', '{"at":"roof"}')
    assert first.usage.prompt_tokens > 10
    returns = [ToolReturnPart(tool_call_id=call.id, name="look", content="closed") for call in (door, roof)]
    answer = text("assistant", "")
    history = (
        text("user", script),
        Message(**{**_fields(answer), "parts": first.parts}),
        Message(**{**_fields(answer), "role": "tool", "parts": tuple(returns)}),
    )
    last = ok(await one(models, HANDLES[dialect], *history, stream=stream))
    assert last.parts == (TextPart(text="All closed."),)


def _fields(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__struct_fields__}


@dialects
async def test_text_comes_in_pieces(dialect: str, servers: dict[str, ModelServer]):
    models = registry(servers["chat"], servers["anthropic"])
    pieces: list[Piece | Completed | Failed] = [
        *await exchange(models, asked(models, HANDLES[dialect], "SAY:one two three"))
    ]
    await models.aclose()
    assert [piece.text for piece in pieces if isinstance(piece, TextPiece)] == ["one ", "two ", "three"]


@dialects
async def test_one_connection_serves_one_answer_after_the_other(dialect: str, servers: dict[str, ModelServer]):
    models = registry(servers["chat"], servers["anthropic"])
    for _ in range(3):
        await exchange(models, asked(models, HANDLES[dialect], "SAY:hi"))
    await models.aclose()
    assert len(set(servers[dialect].ports)) == 1


async def test_a_server_that_holds_a_complete_answer_open_delays_nobody(openai_server: ModelServer):
    openai_server.behave(hang_after=5)  # role, text, finish, usage, [DONE]
    models = registry(openai_server)
    with anyio.fail_after(5):
        assert ok(await one(models, HANDLES["chat"], "SAY:hi")).parts == (TextPart(text="hi"),)


@dialects
async def test_a_server_that_ignores_stream_is_understood(dialect: str, servers: dict[str, ModelServer]):
    servers[dialect].behave(whole=True)
    models = registry(servers["chat"], servers["anthropic"])
    last = ok(await one(models, HANDLES[dialect], "SAY:whole\nTOOL:look {}"))
    assert [type(part) for part in last.parts] == [TextPart, ToolCallPart]
    assert last.finish_reason == "tool_calls"


@dialects
@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_P06_base_urls_with_and_without_v1(dialect: str, suffix: str, servers: dict[str, ModelServer]):
    models = registry(servers["chat"].root + suffix, servers["anthropic"].root + suffix)
    assert ok(await one(models, HANDLES[dialect], "SAY:hi")).parts == (TextPart(text="hi"),)


@dialects
async def test_the_key_is_sent_and_never_told(dialect: str, servers: dict[str, ModelServer]):
    server = servers[dialect]
    server.key = "sk-ant-test" if dialect == "anthropic" else "sk-test"
    models = registry(servers["chat"], servers["anthropic"])
    assert ok(await one(models, HANDLES[dialect], "SAY:hi")).parts == (TextPart(text="hi"),)
    server.key = "another"
    error = bad(await one(models, HANDLES[dialect], "SAY:hi")).error
    assert (error.kind, error.status) == ("authentication", 401)
    assert "sk-test" not in error.message
    assert error.message.endswith(f"Check the key in {'ANTHROPIC' if dialect == 'anthropic' else 'OPENAI'}_API_KEY.")


@pytest.mark.slow  # waits two to three seconds between its attempts
async def test_no_address_of_a_model_is_logged(openai_server: ModelServer, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        await one(registry(openai_server), HANDLES["chat"], "hello")
    assert openai_server.base_url.removesuffix("/v1") not in caplog.text


async def test_P08_an_unreachable_server_is_named_and_no_other_is_asked(openai_server: ModelServer):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    models = registry(openai_server, OLLAMA_BASE_URL=nobody)
    error = bad(await one(models, "ollama/llama3", "hi")).error
    assert error.kind == "unreachable"
    assert error.message.startswith(f"cannot reach {nobody}/v1/chat/completions: ")
    assert error.message.endswith("Start the server or correct OLLAMA_BASE_URL.")
    assert openai_server.requests == []


@pytest.mark.parametrize("url", ["not a url", "ftp://h", "http://h:port"])
async def test_a_base_url_that_is_none_is_told_so(url: str):
    error = bad(await one(registry(url), HANDLES["chat"], "hi")).error
    assert error.kind == "invalid_request"
    assert error.message.startswith(f"{url}/v1/chat/completions is no address that can be called: ")
    assert error.message.endswith("Correct OPENAI_BASE_URL.")


async def test_retries_end_with_the_answer_and_keep_the_bytes(openai_server: ModelServer):
    openai_server.behave(status=503, headers={"retry-after": "0"}, times=2)
    openai_server.behave(status=429, headers={"retry-after": "0"})
    assert ok(await one(registry(openai_server), HANDLES["chat"], "SAY:hi")).parts == (TextPart(text="hi"),)
    first, *others = openai_server.requests
    assert others == [first] * 3


async def test_retries_give_up(openai_server: ModelServer):
    openai_server.behave(status=500, headers={"retry-after": "0"}, times=9)
    error = bad(await one(registry(openai_server), HANDLES["chat"], "SAY:hi")).error
    assert (error.kind, error.message) == ("server_error", "openai answered 500: told to fail")
    assert len(openai_server.requests) == 4


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404])
async def test_what_will_not_get_better_is_not_repeated(status: int, openai_server: ModelServer):
    openai_server.behave(status=status)
    assert bad(await one(registry(openai_server), HANDLES["chat"], "SAY:hi")).error.status == status
    assert len(openai_server.requests) == 1


async def test_redirects_are_not_followed(openai_server: ModelServer):
    openai_server.behave(status=307, headers={"location": "http://elsewhere.example/"})
    assert bad(await one(registry(openai_server), HANDLES["chat"], "SAY:hi")).error.status == 307


@dialects
@pytest.mark.parametrize("cut", ["clean", "abrupt"])
async def test_a_cut_stream_fails_with_what_had_come_and_is_not_repeated(
    dialect: str, cut: str, servers: dict[str, ModelServer]
):
    servers[dialect].behave(cut_after=5, cut=cut)
    last = bad(
        await one(registry(servers["chat"], servers["anthropic"]), HANDLES[dialect], "SAY:one two three four five six")
    )
    assert (last.error.kind, last.error.started) == ("interrupted", True)
    (part,) = last.parts
    assert isinstance(part, TextPart)
    assert "one two three four five six".startswith(part.text)
    assert part.text
    assert len(servers[dialect].requests) == 1


async def test_a_failure_in_mid_stream_after_output_is_not_repeated(openai_server: ModelServer):
    openai_server.behave(
        raw='data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: {"error":{"message":"busy","code":503}}\n\n'
    )
    last = bad(await one(registry(openai_server), HANDLES["chat"], "SAY:hi"))
    assert (last.error.kind, last.error.started, last.parts) == ("overloaded", True, (TextPart(text="a"),))


@dialects
async def test_garbage_is_called_so(dialect: str, servers: dict[str, ModelServer]):
    servers[dialect].behave(garbage=True)
    error = bad(await one(registry(servers["chat"], servers["anthropic"]), HANDLES[dialect], "hi")).error
    assert error.kind == "invalid_response"
    assert f"Check that {'ANTHROPIC' if dialect == 'anthropic' else 'OPENAI'}_BASE_URL is the address" in error.message


async def test_a_web_page_is_told_from_an_answer(openai_server: ModelServer):
    page = Response("<html>Welcome</html>", media_type="text/html")
    openai_server.pages["/wrong/v1/chat/completions"] = page
    models = registry(openai_server.root + "/wrong")
    error = bad(await one(models, HANDLES["chat"], "hi")).error
    assert (error.kind, error.started) == ("invalid_response", False)
    assert error.message.endswith(
        "/wrong/v1/chat/completions answered with text/html that is neither JSON nor a stream of events. "
        "Check that OPENAI_BASE_URL is the address of a model API."
    )


async def test_an_answer_without_end_is_given_up_and_what_came_is_kept(openai_server: ModelServer):
    word = "data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "x" * 2**20}}]}) + "\n\n"
    openai_server.behave(raw=word * (LONGEST_ANSWER // 2**20 + 1))
    last = bad(await one(registry(openai_server), HANDLES["chat"], "hi"))
    assert last.error.message == "openai sent more than 128 MiB in one answer. Limit max_output_tokens."
    assert len(last.parts) == 1


async def test_silence_has_a_bound(openai_server: ModelServer):
    openai_server.behave(hang_after=3)
    models = registry(openai_server, EUNOE_MODEL_TIMEOUT="0.2")
    last = bad(await one(models, HANDLES["chat"], "SAY:one two three"))
    assert (last.error.kind, last.error.started, last.parts) == ("timeout", True, (TextPart(text="one two "),))
    assert last.error.message.endswith("Try again, or raise EUNOE_MODEL_TIMEOUT.")


async def test_a_stream_can_be_cancelled_at_any_time(openai_server: ModelServer):
    openai_server.behave(hang=True)
    models = registry(openai_server)
    request = asked(models, HANDLES["chat"], "hi")
    with anyio.move_on_after(0.1) as scope:
        await exchange(models, request)
    assert scope.cancelled_caught
    openai_server.release()
    assert ok(await one(models, HANDLES["chat"], "SAY:next")).parts == (TextPart(text="next"),)


async def test_a_history_that_breaks_the_pairs_is_refused_by_these_servers(servers: dict[str, ModelServer]):
    """The judge itself is tested: it must see what the vendors see."""
    lone = Message(**{**_fields(text("assistant", "")), "parts": (ToolCallPart(id="c1", name="look", arguments="{}"),)})
    for handle in HANDLES.values():
        models = registry(servers["chat"], servers["anthropic"])
        error = bad(await one(models, handle, "go", lone, "SAY:hi")).error
        assert (error.kind, error.status) == ("invalid_request", 400)


async def test_the_scripted_model_goes_the_same_way():
    models = registry("http://127.0.0.1:1")
    request = asked(models, "scripted/demo", "SAY:hi there")
    assert b'"model":"demo"' in models.payload(request).body
    events = await exchange(models, request)
    assert [type(event).__name__ for event in events] == ["TextPiece", "TextPiece", "Completed"]
