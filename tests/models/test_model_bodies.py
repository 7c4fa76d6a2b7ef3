"""The exact requests of each dialect: one whole conversation as golden files, and what changes them as tables."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eunoe.models import anthropic, openai_chat, openai_responses
from eunoe.models.protocol import ModelInfo, ModelRequest, ToolChoice
from eunoe.models.providers import Provider, providers_from_env
from eunoe.models.registry import ModelRegistry
from eunoe.models.schemas import strict_schema
from eunoe.state.errors import InvalidInput
from eunoe.state.messages import (
    ApprovalPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from eunoe.state.tools import ToolSchema

GOLDEN = Path(__file__).parent / "golden"
PROVIDERS = providers_from_env(
    {
        "OPENAI_API_KEY": "k",
        "ANTHROPIC_API_KEY": "k",
        "DEEPSEEK_API_KEY": "k",
        "GEMINI_API_KEY": "k",
        "VLLM_BASE_URL": "http://h",
        "LMSTUDIO_BASE_URL": "http://h",
    }
)
BUILD = {
    "openai_chat": openai_chat.build_body,
    "openai_responses": openai_responses.build_body,
    "anthropic": anthropic.build_body,
}
TOOL = ToolSchema(
    name="look",
    description="Look at a place.",
    parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
)


def message(role: Role, *parts: Part) -> Message:
    when = datetime(2026, 5, 1, tzinfo=UTC)
    return Message(
        id="message-1", agent_id="agent-1", conversation_id="conv-1", role=role, parts=parts, created_at=when
    )


def request(provider: Provider, model: str, *messages: Message, **fields: Any) -> ModelRequest:
    registry = ModelRegistry({provider.name: provider})
    return ModelRequest(
        model=registry.resolve(f"{provider.name}/{model}"), messages=messages, **{"system": "Be brief.", **fields}
    )


def body(provider: str, model: str, *messages: Message, **fields: Any) -> dict[str, Any]:
    found = PROVIDERS[provider]
    built = BUILD[found.dialect](request(found, model, *messages, **fields), found)
    return msgspec.json.decode(msgspec.json.encode(built))


def text(role: Role, words: str) -> Message:
    return message(role, TextPart(text=words))


def call(id: str = "c1", **fields: Any) -> ToolCallPart:  # noqa: A002 - the field's name
    return ToolCallPart(id=id, name="look", arguments='{"at":"door"}', **fields)


def returned(id: str = "c1", content: str = "open", **fields: Any) -> ToolReturnPart:  # noqa: A002 - the field's name
    return ToolReturnPart(tool_call_id=id, name="look", content=content, **fields)


def conversation(provider: str) -> tuple[Message, ...]:
    """Every kind of message and part, with reasoning of the provider and of a stranger."""
    own = ReasoningPart(
        text="First the door.",
        signature="sig",
        provider={
            "provider": provider,
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "First the door."}],
            "encrypted_content": "sealed",
        },
    )
    foreign = ReasoningPart(
        text="Not yours.", signature="x", provider={"provider": "elsewhere", "encrypted_content": "x"}
    )
    return (
        text("summary", "Before: they met."),
        text("system", "The house is dark."),
        message(
            "user",
            TextPart(text="Look "),
            ImagePart(data="aGk=", media_type="image/jpeg"),
            ImagePart(url="https://i.example/a.png", detail="low"),
        ),
        message("assistant", own, TextPart(text="Looking."), call("c1"), call("c2")),
        message("tool", returned("c1"), returned("c2", "no such place", status="error")),
        message("approval", ApprovalPart(tool_call_id="c1", approve=True)),
        message("assistant", foreign),
        message("assistant", foreign, TextPart(text="The door is open.")),
        text("user", "And now?"),
        text("user", "Well?"),
    )


@pytest.mark.parametrize(
    ("golden", "provider", "model"),
    [
        ("openai_chat", "openai", "gpt-4.1"),
        ("openai_responses", "openai-responses", "gpt-5"),
        ("anthropic", "anthropic", "claude-sonnet-4-5"),
    ],
)
def test_the_whole_conversation(golden: str, provider: str, model: str):
    settings = {"temperature": 0.5, "max_output_tokens": 900, "reasoning": {"reasoning_effort": "low"}}
    built = body(provider, model, *conversation(provider), tools=(TOOL,), settings=settings)
    expected = (GOLDEN / f"{golden}.json").read_text()
    assert msgspec.json.format(msgspec.json.encode(built), indent=2).decode() + "\n" == expected


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
def test_same_request_same_bytes(provider: str):
    registry = ModelRegistry(PROVIDERS)
    asked = request(PROVIDERS[provider], "m", *conversation(provider), tools=(TOOL,))
    assert registry.payload(asked).body == registry.payload(asked).body


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
def test_L21_an_empty_answer_in_the_history_is_left_out(provider: str):
    empty = message("assistant", ReasoningPart(text="hm", signature="s", provider={"provider": provider}))
    with_it = body(provider, "m", text("user", "a"), empty, message("assistant"), text("user", "b"))
    assert with_it == body(provider, "m", text("user", "a"), text("user", "b"))


def test_P01_a_signature_on_a_call_goes_back_verbatim_to_its_provider_only():
    signed = {"google": {"thought_signature": "abc=="}}
    history = (
        text("user", "go"),
        message("assistant", call(provider={"provider": "google_ai", "extra_content": signed})),
        message("tool", returned()),
    )
    sent = body("google_ai", "gemini-3-pro", *history)["messages"][2]
    assert sent["tool_calls"][0]["extra_content"] == signed
    assert sent["content"] is None
    assert "extra_content" not in body("openai", "gpt-4.1", *history)["messages"][2]["tool_calls"][0]


def test_deepseek_gets_the_reasoning_of_the_turn_back_and_openrouter_its_details():
    def history(**opaque: Any) -> tuple[Message, ...]:
        thought = ReasoningPart(text="hm", provider=opaque)
        turn = (text("user", "go"), message("assistant", thought, call()), message("tool", returned()))
        return (*turn, message("assistant", thought, TextPart(text="done")), *turn)

    sent = body("deepseek", "deepseek-reasoner", *history(provider="deepseek"))["messages"]
    assert [("reasoning_content" in said) for said in sent if said["role"] == "assistant"] == [False, False, True]
    openrouter = Provider(name="openrouter", provider_type="openrouter", dialect="openai_chat", base_url="http://h")
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    asked = request(openrouter, "a/b", *history(provider="openrouter", reasoning_details=details))
    built = openai_chat.build_body(asked, openrouter)["messages"]
    assert [said["reasoning_details"] for said in built if said["role"] == "assistant"] == [details] * 3


@pytest.mark.parametrize(
    ("provider", "choice", "expected"),
    [
        ("openai", ToolChoice(), "auto"),
        ("openai", ToolChoice(mode="required"), "required"),
        ("openai", ToolChoice(mode="none"), "none"),
        ("openai", ToolChoice(mode="tool", name="look"), {"type": "function", "function": {"name": "look"}}),
        ("openai-responses", ToolChoice(mode="required"), "required"),
        ("openai-responses", ToolChoice(mode="tool", name="look"), {"type": "function", "name": "look"}),
        ("anthropic", ToolChoice(), {"type": "auto"}),
        ("anthropic", ToolChoice(mode="required"), {"type": "any"}),
        ("anthropic", ToolChoice(mode="none"), {"type": "none"}),
        ("anthropic", ToolChoice(mode="tool", name="look"), {"type": "tool", "name": "look"}),
    ],
)
def test_tool_choice(provider: str, choice: ToolChoice, expected: Any):
    assert body(provider, "m", text("user", "a"), tools=(TOOL,), tool_choice=choice)["tool_choice"] == expected


def test_one_call_at_a_time():
    def asked(provider: str, *, by_user: bool) -> dict[str, Any]:
        settings = {"parallel_tool_calls": False} if by_user else {}
        return body(provider, "m", text("user", "a"), tools=(TOOL,), parallel_tool_calls=by_user, settings=settings)

    for by_user in (True, False):
        assert asked("openai", by_user=by_user)["parallel_tool_calls"] is False
        assert asked("openai-responses", by_user=by_user)["parallel_tool_calls"] is False
        assert asked("anthropic", by_user=by_user)["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "parallel_tool_calls" not in body("openai", "m", text("user", "a"), tools=(TOOL,))


@pytest.mark.parametrize(
    ("provider", "model", "settings", "expected"),
    [
        ("openai", "gpt-4.1", {"max_output_tokens": 9}, {"max_completion_tokens": 9}),
        ("vllm", "qwen", {"max_output_tokens": 9}, {"max_tokens": 9}),
        ("openai", "gpt-4.1", {"temperature": 0.0}, {"temperature": 0.0}),
        ("openai", "gpt-5", {"temperature": 0.7, "verbosity": "low"}, {"verbosity": "low"}),
        ("openai", "o3", {"reasoning": {"reasoning_effort": "high"}}, {"reasoning_effort": "high"}),
        ("openai", "gpt-4.1", {"response_format": {"type": "text"}}, {}),
        (
            "openai",
            "gpt-4.1",
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
        ),
        ("anthropic", "claude-3-5-haiku", {"provider_type": "anthropic"}, {"max_tokens": 8192}),
        ("anthropic", "unheard-of", {}, {"max_tokens": 8192}),
        ("anthropic", "claude-opus-4-6", {}, {"max_tokens": 32000}),
        ("anthropic", "claude-opus-4-6", {"effort": "low"}, {"max_tokens": 32000, "output_config": {"effort": "low"}}),
        (
            "anthropic",
            "claude-opus-4-6",
            {"max_output_tokens": 900, "thinking": {"type": "enabled", "budget_tokens": 2000}, "temperature": 1.0},
            {"max_tokens": 2900, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        ),
        (
            "anthropic",
            "claude-opus-4-6",
            {"thinking": {"type": "disabled"}, "temperature": 0.3, "max_output_tokens": 5},
            {"max_tokens": 5, "temperature": 0.3},
        ),
    ],
)
def test_settings(provider: str, model: str, settings: dict[str, Any], expected: dict[str, Any]):
    built = body(provider, model, text("user", "a"), settings=settings)
    always = {"model", "messages", "stream", "stream_options", "system"}
    assert {key: value for key, value in built.items() if key not in always} == expected


PLACE: dict[str, Any] = {"type": "object", "title": "A place", "properties": {"at": {"type": "string"}}}
NAMED = {"name": "A_place", "schema": PLACE}
IN_WORDS = "Answer with one JSON object and nothing else."
BY_SCHEMA_IN_WORDS = (
    "Answer with JSON and nothing else: with data that fits this JSON Schema, and never with the schema itself.\n"
    '{"type":"object","title":"A place","properties":{"at":{"type":"string"}}}'
)


@pytest.mark.parametrize("given", [PLACE, NAMED], ids=["schema", "named"])
@pytest.mark.parametrize(
    ("provider", "shape", "told"),
    [
        ("openai", {"type": "json_schema", "json_schema": NAMED}, ""),
        ("lmstudio", {"type": "json_schema", "json_schema": NAMED}, ""),
        ("deepseek", {"type": "json_object"}, BY_SCHEMA_IN_WORDS),
        ("openai-responses", {"type": "json_schema", **NAMED}, ""),
        ("anthropic", {"type": "json_schema", "schema": PLACE}, ""),
    ],
)
def test_a_vendor_is_held_to_a_schema_where_it_can_be_and_told_it_otherwise(
    provider: str, shape: dict[str, Any], told: str, given: dict[str, Any]
):
    settings = {"response_format": {"type": "json_schema", "json_schema": given}}
    assert _asked_form(body(provider, "m", text("user", "go"), settings=settings)) == (shape, told)


@pytest.mark.parametrize(
    ("provider", "shape", "told"),
    [
        ("openai", {"type": "json_object"}, IN_WORDS),
        ("lmstudio", {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}, ""),
        ("deepseek", {"type": "json_object"}, IN_WORDS),
        ("openai-responses", {"type": "json_object"}, IN_WORDS),
        ("anthropic", None, IN_WORDS),
    ],
)
def test_an_answer_that_is_some_object(provider: str, shape: dict[str, Any] | None, told: str):
    settings = {"response_format": {"type": "json_object"}}
    assert _asked_form(body(provider, "m", text("user", "go"), settings=settings)) == (shape, told)


def _asked_form(built: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return how an endpoint is asked for the form of its answer, and what is said of it after the system text."""
    shape = built.get("response_format") or built.get("text", built.get("output_config", {})).get("format")
    first = built.get("instructions") or built.get("system", built.get("messages", [{}])[:1])
    system = first if isinstance(first, str) else first[0].get("content") or first[0]["text"]
    assert system.startswith("Be brief.")
    return shape, system.removeprefix("Be brief.").strip("\n")


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(InvalidInput, match=r"not valid: Expected `float \| null`, got `str` - at `\$.temperature`"):
        body("openai", "gpt-4.1", settings={"temperature": "hot"})


@pytest.mark.parametrize(
    ("own", "choice", "thinks"),
    [(True, "auto", True), (False, "auto", False), (True, "required", False)],
    ids=["own thinking", "foreign thinking", "forced tool"],
)
def test_anthropic_thinks_only_where_the_vendor_allows_it(own: bool, choice: Any, thinks: bool):
    thought = ReasoningPart(text="hm", signature="s", provider={"provider": "anthropic" if own else "openai"})
    history = (text("user", "go"), message("assistant", thought, call()), message("tool", returned()))
    settings = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    built = body(
        "anthropic",
        "claude-sonnet-4-5",
        *history,
        settings=settings,
        tools=(TOOL,),
        tool_choice=ToolChoice(mode=choice),
    )
    assert ("thinking" in built) is thinks


def test_redacted_thinking_and_arguments_that_are_no_object():
    thought = ReasoningPart(redacted="blob", provider={"provider": "anthropic"})
    bad = ToolCallPart(id="c1", name="look", arguments='{"at": ')
    built = body("anthropic", "m", text("user", "go"), message("assistant", thought, bad), message("tool", returned()))
    assert built["messages"][1]["content"] == [
        {"type": "redacted_thinking", "data": "blob"},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"invalid_arguments": '{"at": '}},
    ]


def test_call_ids_of_other_vendors_are_written_in_anthropics_letters():
    history = (
        text("user", "go"),
        message("assistant", call("functions.look:0")),
        message("tool", returned("functions.look:0")),
    )
    _, asked, came = body("anthropic", "m", *history)["messages"]
    assert asked["content"][0]["id"] == came["content"][0]["tool_use_id"] == "call_ec0002042636dd8aa1e59e55"


def test_anthropic_begins_with_the_user_and_sends_no_blank_text():
    built = body("anthropic", "m", message("assistant", TextPart(text="Hello.")), message("user", TextPart(text=" \n")))
    assert [(said["role"], len(said["content"])) for said in built["messages"]] == [("user", 1), ("assistant", 1)]


def test_responses_leaves_out_what_the_model_is_not_asked_for():
    built = body("openai-responses", "gpt-4.1", text("user", "a"))
    assert list(built) == ["model", "instructions", "input", "store", "stream"]
    assert built["store"] is False


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, True),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": []}, False),
        (
            {
                "type": "object",
                "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                "required": ["a"],
            },
            False,
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"b": {}}}}},
                "required": ["a"],
            },
            False,
        ),
        ({"type": "object", "properties": {}, "additionalProperties": True}, False),
    ],
)
def test_a_schema_is_made_strict_only_if_it_means_the_same(schema: dict[str, Any], strict: bool):
    made = strict_schema(schema)
    assert (made is not None) is strict
    assert made is None or made["additionalProperties"] is False


def test_strict_is_sent_when_the_user_wants_it():
    built = body("openai", "gpt-4.1", text("user", "a"), tools=(TOOL,), settings={"strict": True})
    assert built["tools"][0]["function"]["strict"] is True
    assert (
        "strict"
        not in body("vllm", "m", text("user", "a"), tools=(TOOL,), settings={"strict": True})["tools"][0]["function"]
    )


def test_a_payload_holds_no_key():
    provider = providers_from_env({"OPENAI_API_KEY": "sk-secret"})["openai"]
    payload = ModelRegistry({"openai": provider}).payload(request(provider, "gpt-4.1", text("user", "a")))
    assert payload.url == "https://api.openai.com/v1/chat/completions"
    assert b"sk-secret" not in payload.body


def test_the_model_info_of_a_handle_keeps_slashes_in_names():
    info: ModelInfo = ModelRegistry(PROVIDERS).resolve("vllm/meta-llama/Llama-3.1-8B")
    assert (info.name, info.provider, info.context_window, info.base_url) == (
        "meta-llama/Llama-3.1-8B",
        "vllm",
        131_072,
        "http://h/v1",
    )
