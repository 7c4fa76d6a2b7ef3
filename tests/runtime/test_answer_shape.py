"""Answers in a form that was asked for: what is taken, what is asked for again, and what ends a turn."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from chat_endpoint import MODEL, Answer, ChatEndpoint
from hypothesis import given
from hypothesis import strategies as st
from runtime_rig import Told, assert_ended, send, steps_of

from eunoe.embedded import Agent, Home
from eunoe.models.protocol import ModelInfo, ModelRequest
from eunoe.runtime.answer_shape import answer_fault
from eunoe.runtime.argument_checks import structure_fault
from eunoe.state.errors import InvalidInput
from eunoe.state.messages import Message, TextPart

PERSON: dict[str, Any] = {
    "type": "object",
    "title": "Person",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
BY_SCHEMA = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
BY_RAW_SCHEMA = {"type": "json_schema", "json_schema": PERSON}
LOOSE = {"type": "json_schema", "json_schema": {"type": "object", "properties": {"name": {}}}}
OF_SCHEMAS = {"type": "json_schema", "json_schema": {"type": "object", "properties": {"properties": {}}}}
LIST = {"type": "json_schema", "json_schema": {"type": "array", "items": {"type": "string"}}}
OBJECT = {"type": "json_object"}
ADA = '{"name": "Ada", "age": 36}'
SCHEMA = json.dumps(PERSON)
ECHO = "it is the JSON Schema itself, and no data that fits it"
HIDDEN = "[This is an automated system message hidden from the user] Your answer cannot be used: "


def asked(shape: dict[str, Any] | None, said: str = "Who is it?") -> ModelRequest:
    model = ModelInfo(
        handle="openai/m",
        name="m",
        provider="openai",
        provider_type="openai",
        dialect="openai_chat",
        base_url="http://h",
        context_window=0,
    )
    message = Message(
        id="message-1",
        agent_id="agent-1",
        conversation_id="conv-1",
        role="user",
        parts=(TextPart(text=said),),
        created_at=datetime(2026, 5, 1, tzinfo=UTC),
    )
    settings = {"response_format": shape} if shape else {}
    return ModelRequest(model=model, system="Be brief.", messages=(message,), settings=settings)


@pytest.mark.parametrize(
    ("shape", "answer", "fault"),
    [
        (None, "Ada.", None),
        ({"type": "text"}, "Ada.", None),
        (BY_SCHEMA, ADA, None),
        (BY_SCHEMA, f"\n  {ADA}\n", None),
        (BY_RAW_SCHEMA, ADA, None),
        (BY_SCHEMA, '{"name": "Ada", "age": "36"}', "age must be integer, not string"),
        (BY_SCHEMA, '{"name": "Ada"}', "age missing"),
        (BY_SCHEMA, '{"name": "Ada", "age": 36, "born": 1815}', "born unknown; known are name, age"),
        (BY_SCHEMA, "[]", "the answer must be object, not array"),
        (BY_SCHEMA, SCHEMA, ECHO),
        (BY_RAW_SCHEMA, SCHEMA, ECHO),
        (BY_SCHEMA, json.dumps(BY_SCHEMA["json_schema"]), ECHO),
        (LOOSE, json.dumps(LOOSE["json_schema"]), ECHO),
        (LOOSE, '{"type": "object", "title": "Reworded", "properties": {"name": {"title": "Name"}}}', ECHO),
        (LOOSE, '{"type": "object"}', None),
        (OF_SCHEMAS, SCHEMA, None),
        (LIST, '["a", "b"]', None),
        (LIST, '["a", 1]', "[1] must be string, not integer"),
        (OBJECT, "{}", None),
        (OBJECT, ADA, None),
        (OBJECT, "[1]", "the answer must be object, not array"),
        (OBJECT, "null", "the answer must be object, not null"),
    ],
)
def test_what_is_wrong_with_an_answer(shape: dict[str, Any] | None, answer: str, fault: str | None):
    assert answer_fault(asked(shape), answer) == fault


@pytest.mark.parametrize("answer", ["Ada.", f"```json\n{ADA}\n```", "", ADA[:-1], "{'a': 1}", "NaN", "[" * 100_000])
@pytest.mark.parametrize("shape", [BY_SCHEMA, OBJECT], ids=["json_schema", "json_object"])
def test_what_is_no_json_is_told_as_such(shape: dict[str, Any], answer: str):
    fault = answer_fault(asked(shape), answer)
    assert fault is not None
    assert fault.startswith("it is not JSON (")


def test_a_schema_is_an_echo_if_its_fields_stand_in_the_request_and_data_otherwise():
    assert answer_fault(asked(OBJECT, f"Fill this in: {SCHEMA}"), SCHEMA) == ECHO
    assert answer_fault(asked(OBJECT, f"Fill this in: {SCHEMA}"), ADA) is None
    assert answer_fault(asked(OBJECT, "Write me a JSON Schema of a person."), SCHEMA) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "properties", "required", "items", "enum", "anyOf", "additionalProperties", "a"]
                )
                | st.text(max_size=3),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.recursive(st.none() | st.integers(), lambda inner: st.dictionaries(st.just("a"), inner) | st.lists(inner)),
)
def test_what_is_no_schema_says_nothing_and_breaks_nothing(schema: Any, value: Any):
    fault = structure_fault(schema, value, "the answer")
    assert fault is None or fault
    if not isinstance(schema, dict):
        assert fault is None


def test_a_form_without_its_schema_is_refused():
    with pytest.raises(InvalidInput, match="response_format of type json_schema needs the schema"):
        answer_fault(asked({"type": "json_schema"}), ADA)


@pytest.fixture
async def formal(home: Home) -> Agent:
    return await home.create_agent(model=MODEL, response_format=BY_SCHEMA)


async def roles(agent: Agent) -> list[str]:
    return [message.role for message in await agent.window()]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("shape", "sent"),
    [(BY_SCHEMA, BY_SCHEMA), (OBJECT, OBJECT)],
    ids=["json_schema", "json_object"],
)
async def test_P13_a_schema_given_back_as_an_answer_is_asked_for_again_once(
    home: Home, endpoint: ChatEndpoint, shape: dict[str, Any], sent: dict[str, Any]
) -> None:
    agent = await home.create_agent(model=MODEL, response_format=shape)
    endpoint.answers(Answer(text=(SCHEMA[:9], SCHEMA[9:])), Answer(text=(ADA,)))
    told = await send(home, agent, f"Who is it? Answer as JSON: {SCHEMA}")
    await assert_ended(home, told, "end_turn", step_count=2)
    assert told.messages[-1].text == ADA
    first, second = endpoint.requests()
    assert [first["response_format"], second["response_format"]] == [sent, sent]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert [said["role"] for said in second["messages"][len(first["messages"]) :]] == ["assistant", "user"]
    assert second["messages"][-2]["content"] == SCHEMA
    assert second["messages"][-1]["content"].startswith(f"{HIDDEN}{ECHO}. ")
    assert told.ended.usage.completion_tokens == 20
    for step, body in zip(await steps_of(home, told), endpoint.received, strict=True):
        assert bytes((await agent.request_of(step.id)).body) == body


@pytest.mark.anyio
async def test_a_second_answer_in_the_wrong_form_ends_the_turn_and_is_kept(
    home: Home, formal: Agent, endpoint: ChatEndpoint
) -> None:
    endpoint.answers(Answer(text=("It is Ada.",)), Answer(text=('{"name": "Ada"}',)), Answer(text=(ADA,)))
    told = await send(home, formal, "Who is it?")
    await assert_ended(home, told, "invalid_llm_response", step_count=2)
    assert told.ended.error is not None
    assert (told.ended.error.type, told.ended.error.status) == ("llm_invalid_format", 502)
    assert told.ended.error.message == (
        "The model's answer does not have the form that response_format asks for: age missing."
    )
    assert await roles(formal) == ["user", "assistant", "user", "assistant"]
    assert await formal.ask("Who is it, then?") == ADA


async def ended_early(home: Home, agent: Agent, endpoint: ChatEndpoint, answer: Answer, **fields: Any) -> Told:
    endpoint.answers(answer)
    told = await send(home, agent, "Who is it?", **fields)
    assert len(endpoint.received) == 1
    return told


@pytest.mark.anyio
async def test_there_is_no_second_attempt_without_a_step_for_it(
    home: Home, formal: Agent, endpoint: ChatEndpoint
) -> None:
    told = await ended_early(home, formal, endpoint, Answer(text=("Ada.",)), max_steps=1)
    await assert_ended(home, told, "invalid_llm_response", step_count=1)


@pytest.mark.anyio
async def test_an_answer_that_was_cut_at_its_limit_is_told_as_such(
    home: Home, formal: Agent, endpoint: ChatEndpoint
) -> None:
    told = await ended_early(home, formal, endpoint, Answer(text=(ADA[:9],), finish="length"))
    await assert_ended(home, told, "max_tokens_exceeded", step_count=1)
