"""What the decoders make of what endpoints send: good answers, odd servers, and ends that are none."""

from collections.abc import Callable, Iterable
from itertools import count, pairwise
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from eunoe.models.answer import Decoder
from eunoe.models.anthropic_stream import AnthropicDecoder
from eunoe.models.openai_chat_stream import ChatDecoder
from eunoe.models.openai_responses_stream import ResponsesDecoder
from eunoe.models.protocol import Completed, Failed, ModelEvent, ModelRequest, TextPiece, ToolCallPiece
from eunoe.models.providers import Provider
from eunoe.models.registry import ModelRegistry
from eunoe.state.messages import ReasoningPart, TextPart, ToolCallPart
from eunoe.state.runs import Usage
from model_servers.anthropic_server import anthropic_server
from model_servers.openai_server import openai_server

PROVIDER = Provider(
    name="here", provider_type="x", dialect="openai_chat", base_url="http://h", base_url_env="HERE_BASE_URL"
)
REQUEST = ModelRequest(model=ModelRegistry({"here": PROVIDER}).resolve("here/m"), system="", messages=())
MAKE: dict[str, Callable[..., Decoder]] = {
    "chat": ChatDecoder,
    "responses": ResponsesDecoder,
    "anthropic": AnthropicDecoder,
}


def decoder(dialect: str) -> Decoder:
    numbers = count(1)
    return MAKE[dialect](REQUEST, PROVIDER, lambda: f"fresh_{next(numbers)}")


def fed(dialect: str, *events: Any) -> list[ModelEvent]:
    made = decoder(dialect)
    told: list[ModelEvent] = []
    for event in events:
        told += made.feed("message", event if isinstance(event, str) else msgspec.json.encode(event).decode())
    return told + made.end()


def completed(events: list[ModelEvent]) -> Completed:
    assert isinstance(events[-1], Completed), events[-1]
    return events[-1]


def failed(events: list[ModelEvent]) -> Failed:
    assert isinstance(events[-1], Failed), events[-1]
    return events[-1]


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def calls(*fragments: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return delta(finish, tool_calls=list(fragments))


def function(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


def made_calls(events: list[ModelEvent]) -> list[tuple[str, str, str]]:
    return [(p.id, p.name, p.arguments) for p in completed(events).parts if isinstance(p, ToolCallPart)]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param(
            [
                calls(function("f", "", index=0, id="a")),
                calls(function(arguments='{"x"', index=0)),
                calls(function(arguments=":1}", index=0)),
            ],
            [("a", "f", '{"x":1}')],
            id="fragments",
        ),
        pytest.param(
            [
                calls(function("f", "", index=0, id="a"), function("g", "", index=1, id="b")),
                calls(function(arguments="{1", index=1), function(arguments="{0", index=0)),
                calls(function(arguments="}", index=0), function(arguments="}", index=1)),
            ],
            [("a", "f", "{0}"), ("b", "g", "{1}")],
            id="two at once",
        ),
        pytest.param(
            [calls(function("f", "{}", id="a"), function("g", "{}", id="b"))],
            [("a", "f", "{}"), ("b", "g", "{}")],
            id="no index",
        ),
        pytest.param(
            [calls(function("f", "{}")), calls(function("g", "{}"))],
            [("fresh_1", "f", "{}"), ("fresh_2", "g", "{}")],
            id="neither index nor id",
        ),
        pytest.param(
            [calls(function("f", "{}", index=0, id="a")), calls(function("g", "{}", index=0, id="b"))],
            [("a", "f", "{}"), ("b", "g", "{}")],
            id="index always 0",
        ),
        pytest.param(
            [calls(function("f", "{}", index=0, id="a"), function("f", "{}", index=1, id="a"))],
            [("a", "f", "{}"), ("fresh_1", "f", "{}")],
            id="one id twice",
        ),
        pytest.param(
            [calls(function("f", "{", index=0, id="a")), calls(function("f", "}", index=0, id="a"))],
            [("a", "f", "{}")],
            id="name and id repeated",
        ),
        pytest.param(
            [calls(function(None, '{"x"', index=0, id="a")), calls(function("f", ":1}", index=0))],
            [("a", "f", '{"x":1}')],
            id="name late",
        ),
        pytest.param(
            [calls(function("f", {"x": 1}, index=0, id="a"))], [("a", "f", '{"x":1}')], id="arguments as an object"
        ),
        pytest.param([calls(function("f", None, index=0, id="a"))], [("a", "f", "{}")], id="no arguments"),
        pytest.param(
            [calls(function("f", '{"x": tru', index=0, id="a"))],
            [("a", "f", '{"x": tru')],
            id="broken arguments stay the model's text",
        ),
    ],
)
def test_calls_however_servers_send_them(chunks: list[dict[str, Any]], expected: list[tuple[str, str, str]]):
    events = fed("chat", *chunks, delta("stop"), "[DONE]")
    assert made_calls(events) == expected
    assert completed(events).finish_reason == "tool_calls"
    told = dict.fromkeys(range(len(expected)), "")
    for event in events:
        if isinstance(event, ToolCallPiece) and event.arguments is not None:
            told[event.part] += event.arguments
    assert list(told.values()) == [arguments for _, _, arguments in expected]


def test_an_id_that_the_history_already_has_is_made_fresh():
    from test_model_bodies import call, message, returned, text

    history = (text("user", "go"), message("assistant", call("call_0")), message("tool", returned("call_0")))
    made = ChatDecoder(msgspec.structs.replace(REQUEST, messages=history), PROVIDER, lambda: "fresh")
    made.feed("message", msgspec.json.encode(calls(function("f", "{}", index=0, id="call_0"), finish="stop")).decode())
    assert made_calls(made.end()) == [("fresh", "f", "{}")]


def test_P01_the_signature_of_a_call_is_kept():
    signed = {"google": {"thought_signature": "abc=="}}
    events = fed(
        "chat", calls(function("f", "{}", index=0, id="a", extra_content=signed), finish="tool_calls"), "[DONE]"
    )
    (part,) = completed(events).parts
    assert isinstance(part, ToolCallPart)
    assert part.provider == {"provider": "here", "extra_content": signed}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_comes_first_and_keeps_its_origin(field: str):
    events = fed("chat", delta(**{field: "h"}), delta(**{field: "m"}), delta(content="a"), delta("stop"), "[DONE]")
    assert completed(events).parts == (ReasoningPart(text="hm", provider={"provider": "here"}), TextPart(text="a"))


def test_reasoning_details_are_put_together():
    first = {"type": "reasoning.text", "index": 0, "text": "h", "signature": None}
    second = {"type": "reasoning.text", "index": 0, "text": "m", "signature": "s"}
    sealed = {"type": "reasoning.encrypted", "index": 1, "data": "x"}
    events = fed(
        "chat",
        delta(reasoning="h", reasoning_details=[first]),
        delta(reasoning="m", reasoning_details=[second]),
        delta("stop", reasoning_details=[sealed]),
    )
    (part,) = completed(events).parts
    assert isinstance(part, ReasoningPart)
    assert part.provider == {
        "provider": "here",
        "reasoning_details": [{**first, "text": "hm", "signature": "s"}, sealed],
    }


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(prompt_tokens=9, completion_tokens=3, cached_tokens=4, reasoning_tokens=2),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 3, "prompt_cache_hit_tokens": 5},
            Usage(prompt_tokens=9, completion_tokens=3, cached_tokens=5),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": None},
            Usage(prompt_tokens=9, completion_tokens=3),
        ),
        ({"prompt_tokens": 10**30, "completion_tokens": -5}, Usage(prompt_tokens=0, completion_tokens=0)),
    ],
)
def test_usage_comes_after_the_end_of_the_answer(usage: dict[str, Any], expected: Usage):
    assert (
        completed(fed("chat", delta("stop", content="a"), {"choices": [], "usage": usage}, "[DONE]")).usage == expected
    )


@pytest.mark.parametrize(
    ("said", "reason"), [("stop", "stop"), ("length", "length"), ("content_filter", "content_filter"), ("eos", "other")]
)
def test_finish_reasons(said: str, reason: str):
    assert completed(fed("chat", delta(said, content="a"), "[DONE]")).finish_reason == reason


def test_a_stream_without_DONE_is_complete_if_it_said_so_and_interrupted_if_not():
    assert completed(fed("chat", delta("stop", content="a"))).parts == (TextPart(text="a"),)
    cut = failed(fed("chat", delta(content="a")))
    assert (cut.error.kind, cut.error.started, cut.parts) == ("interrupted", True, (TextPart(text="a"),))
    nothing = failed(fed("chat"))
    assert (nothing.error.kind, nothing.error.started, nothing.parts) == ("interrupted", False, ())


def test_L21_an_answer_without_content_is_complete_and_empty():
    assert completed(fed("chat", delta("stop", content=""), "[DONE]")).parts == ()


@pytest.mark.parametrize(
    ("dialect", "event", "kind"),
    [
        ("chat", {"error": {"message": "busy", "code": 503}}, "overloaded"),
        ("chat", {"error": {"message": "This model's maximum context length is 5"}}, "context_overflow"),
        ("chat", {"choices": [{"finish_reason": "error", "error": {"message": "x", "code": 429}}]}, "rate_limit"),
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        ("responses", {"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, "rate_limit"),
        (
            "responses",
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "x"}}},
            "server_error",
        ),
        ("chat", "<html>", "invalid_response"),
        ("anthropic", "[]", "invalid_response"),
        ("responses", "no", "invalid_response"),
        ("responses", {"type": "response.created"}, "interrupted"),
        ("anthropic", {"type": "message_start", "message": {}}, "interrupted"),
    ],
)
def test_failures_inside_a_stream(dialect: str, event: Any, kind: str):
    assert failed(fed(dialect, event)).error.kind == kind


def test_S04_anthropics_text_comes_in_pieces_beside_its_thinking():
    events = fed(
        "anthropic",
        {
            "type": "message_start",
            "message": {
                "usage": {
                    "input_tokens": 5,
                    "cache_read_input_tokens": 70,
                    "cache_creation_input_tokens": 8,
                    "output_tokens": 1,
                }
            },
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "blob"}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "lo"}},
        {
            "type": "content_block_start",
            "index": 3,
            "content_block": {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
        },
        {"type": "content_block_stop", "index": 3},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    )
    assert [event for event in events if isinstance(event, TextPiece)] == [
        TextPiece(part=2, text="Hel"),
        TextPiece(part=2, text="lo"),
    ]
    last = completed(events)
    assert last.parts == (
        ReasoningPart(text="hm", signature="sig", provider={"provider": "here"}),
        ReasoningPart(redacted="blob", provider={"provider": "here"}),
        TextPart(text="Hello"),
        ToolCallPart(id="t1", name="f", arguments="{}"),
    )
    assert last.usage == Usage(prompt_tokens=83, completion_tokens=20, cached_tokens=70, cache_write_tokens=8)


def test_responses_reasoning_is_kept_for_replay_with_blank_lines_between_summaries():
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "encrypted_content": "sealed",
        "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
    }
    events = fed(
        "responses",
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "a"},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "b"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.incomplete",
            "response": {
                "incomplete_details": {"reason": "max_output_tokens"},
                "usage": {"input_tokens": 4, "input_tokens_details": {"cached_tokens": 1}, "output_tokens": 2},
            },
        },
    )
    last = completed(events)
    opaque = {"provider": "here", "id": "rs_1", "summary": item["summary"], "encrypted_content": "sealed"}
    assert last.parts == (ReasoningPart(text="a\n\nb", provider=opaque),)
    assert (last.finish_reason, last.usage) == ("length", Usage(prompt_tokens=4, completion_tokens=2, cached_tokens=1))


SCRIPT = 'THINK:Ünder 思考\nSAY:Ein Wört 🙂 und mehr\nTOOL:look {"at":"Tür 🚪"}\nTOOL:look {}'


def _recorded(dialect: str) -> bytes:
    """A stream of the test server, byte for byte."""
    if dialect == "anthropic":
        client = TestClient(anthropic_server().app, headers={"anthropic-version": "x"})
        messages = [{"role": "user", "content": [{"type": "text", "text": SCRIPT}]}]
        return client.post(
            "/v1/messages", json={"model": "m", "max_tokens": 5, "messages": messages, "stream": True}
        ).content
    client = TestClient(openai_server().app)
    if dialect == "chat":
        messages = [{"role": "user", "content": SCRIPT}]
        return client.post("/v1/chat/completions", json={"model": "m", "messages": messages, "stream": True}).content
    items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": SCRIPT}]}]
    return client.post("/v1/responses", json={"model": "m", "input": items, "stream": True}).content


RECORDED = {dialect: _recorded(dialect) for dialect in MAKE}


def _decoded(dialect: str, chunks: Iterable[bytes]) -> list[ModelEvent]:
    async def run() -> list[ModelEvent]:
        async def body():
            for chunk in chunks:
                yield chunk

        request = httpx2.Request("POST", "http://h")
        response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body(), request=request)
        made = decoder(dialect)
        told: list[ModelEvent] = []
        async for sse in httpx2.EventSource(response):
            told += made.feed(sse.event, sse.data)
        return told + made.end()

    return anyio.run(run)


@pytest.mark.parametrize("dialect", list(MAKE))
def test_a_recorded_stream_gives_the_whole_answer(dialect: str):
    thought, said, first, second = completed(_decoded(dialect, [RECORDED[dialect]])).parts
    assert isinstance(thought, ReasoningPart)
    assert (thought.text, said) == ("Ünder 思考", TextPart(text="Ein Wört 🙂 und mehr"))
    assert isinstance(first, ToolCallPart)
    assert isinstance(second, ToolCallPart)
    assert (msgspec.json.decode(first.arguments), second.arguments) == ({"at": "Tür 🚪"}, "{}")


@pytest.mark.parametrize("dialect", list(MAKE))
@settings(deadline=None, max_examples=40)
@given(cuts=st.lists(st.integers(min_value=1, max_value=4000), max_size=30))
def test_however_the_bytes_are_split_the_events_are_the_same(dialect: str, cuts: list[int]):
    recorded = RECORDED[dialect]
    bounds = sorted({0, len(recorded), *(cut for cut in cuts if cut < len(recorded))})
    chunks = [recorded[start:end] for start, end in pairwise(bounds)]
    assert _decoded(dialect, chunks) == _decoded(dialect, [recorded])


@pytest.mark.parametrize("dialect", list(MAKE))
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_the_pieces_add_up_to_the_parts_wherever_the_stream_is_cut(dialect: str, data: st.DataObject):
    recorded = RECORDED[dialect]
    end = data.draw(st.integers(min_value=0, max_value=len(recorded)))
    events = _decoded(dialect, [recorded[:end]])
    last = events[-1]
    assert isinstance(last, (Completed, Failed))
    told: dict[int, str] = {}
    for event in events[:-1]:
        assert not isinstance(event, (Completed, Failed))
        piece = (event.arguments or "") if isinstance(event, ToolCallPiece) else event.text
        told[event.part] = told.get(event.part, "") + piece
    kept = [part.arguments if isinstance(part, ToolCallPart) else getattr(part, "text", "") for part in last.parts]
    assert [told.get(index, "") for index in range(len(kept))] == kept
