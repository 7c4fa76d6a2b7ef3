"""What becomes of what a server offers and answers: names, schemas, texts, and what is shown to whom."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import CallToolResult

from eunoe.state.errors import InvalidInput
from eunoe.state.mcp import McpSecrets, McpServer
from eunoe.tools.mcp.offer import choose_name, legal_name
from eunoe.tools.mcp.results import result_of
from eunoe.tools.mcp.schemas import LONGEST_SCHEMA, MOST_TOOLS, judge_tools
from eunoe.tools.mcp.target import check_server, target_of

EMPTY: Any = {"type": "object", "properties": {}}
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def a_server(kind: Any = "streamable_http", **fields: Any) -> McpServer:
    given: dict[str, Any] = {"id": "s", "name": "weather", "created_at": NOW, "updated_at": NOW}
    given |= {"url": "https://a.example/mcp"} if kind != "stdio" else {}
    return McpServer(kind=kind, **(given | fields))


# ---- names -----------------------------------------------------------------------------------------------------------


@given(st.text(min_size=1), st.text(min_size=1), st.sets(st.text(alphabet="ab_2", min_size=1)))
def test_a_chosen_name_is_legal_and_free(remote: str, server: str, taken: set[str]):
    taken |= {legal_name(remote), legal_name(f"{server}_{remote}")}
    name = choose_name(remote, server, taken.__contains__)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
    assert name not in taken


@pytest.mark.parametrize(
    ("remote", "taken", "name"),
    [
        ("rain", (), "rain"),
        ("rain", ("rain",), "weather_rain"),
        ("rain", ("rain", "weather_rain"), "weather_rain_2"),
        ("rain/day.v2", (), "rain_day_v2"),
    ],
)
def test_a_tool_keeps_its_name_if_it_is_free_and_legal(remote: str, taken: tuple[str, ...], name: str):
    assert choose_name(remote, "weather", taken.__contains__) == name


def test_two_long_names_that_begin_alike_stay_apart():
    one, two = legal_name("r" * 70), legal_name("r" * 71)
    assert one != two
    assert (one[:55], len(one)) == ("r" * 55, 64)


# ---- schemas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "named", "reason"),
    [
        ("rain", "(tool number 1)", "it is not a JSON object"),
        ({"inputSchema": EMPTY}, "(tool number 1)", "it has no name"),
        ({"name": "rain"}, "rain", "it has no inputSchema"),
        ({"name": "rain", "inputSchema": []}, "rain", "its inputSchema is not a JSON object"),
        ({"name": "rain", "inputSchema": {"type": "string"}}, "rain", "its inputSchema is not of type object"),
        ({"name": "rain", "inputSchema": EMPTY, "description": 7}, "rain", "its description is not a text"),
        (
            {"name": "rain", "inputSchema": {"type": "object", "properties": {"a": {"type": "strin"}}}},
            "rain",
            "its inputSchema is no JSON Schema: properties/a/type",
        ),
        ({"name": "rain", "inputSchema": {**EMPTY, "title": "x" * LONGEST_SCHEMA}}, "rain", "at most 100000 are taken"),
    ],
)
def test_a_tool_that_cannot_be_taken_is_named_with_the_reason(told: Any, named: str, reason: str):
    found = judge_tools([told, {"name": "sun", "inputSchema": EMPTY}])
    assert [tool.name for tool in found.tools] == ["sun"]
    (problem,) = found.problems
    assert problem.tool == named
    assert reason in "; ".join(problem.reasons)


def test_a_tool_that_is_named_twice_is_taken_once():
    found = judge_tools([{"name": "rain", "inputSchema": EMPTY}] * 2)
    assert len(found.tools) == 1
    assert found.problems[0].reasons == ("the server names it twice",)


def test_a_list_without_end_is_cut():
    found = judge_tools([{"name": f"t{n}", "inputSchema": EMPTY} for n in range(MOST_TOOLS + 1)])
    assert len(found.tools) == MOST_TOOLS
    assert found.problems[0].tool == "(the rest)"


def test_a_strict_schema_is_told_from_a_loose_one():
    strict = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    strict["additionalProperties"] = False
    loose = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}}
    one, two = judge_tools(
        [{"name": "one", "inputSchema": strict}, {"name": "two", "inputSchema": loose, "annotations": {}}]
    ).tools
    assert (one.strictness, one.reasons) == ("STRICT_COMPLIANT", ())
    assert two.strictness == "NON_STRICT_ONLY"
    assert two.reasons == (
        "inputSchema: additionalProperties is not false",
        "inputSchema: not required: a",
        "inputSchema.a[]: additionalProperties is not false",
    )


def test_only_a_servers_own_word_makes_a_tool_read_only():
    hinted = {"name": "one", "inputSchema": EMPTY, "annotations": {"readOnlyHint": True}}
    assert [tool.reads_only for tool in judge_tools([hinted, {"name": "two", "inputSchema": EMPTY}]).tools] == [
        True,
        False,
    ]


# ---- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": []}, "The tool returned nothing."),
        ({"content": [], "structuredContent": {"n": 1}}, '{"n":1}'),
        ({"content": [{"type": "text", "text": "one"}], "structuredContent": {"n": 1}}, "one"),
        ({"content": [{"type": "text", "text": "a\0b"}]}, "a\ufffdb"),
        (
            {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
            "[image, image/png, 4 characters of base64: not shown]",
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}]},
            "inside",
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}}]},
            "[resource file:///a, unknown type: not shown]",
        ),
        ({"content": [{"type": "resource_link", "name": "a", "uri": "file:///a"}]}, "[resource a: file:///a]"),
    ],
)
def test_a_result_is_told_as_text(answer: Any, content: str):
    result = result_of(CallToolResult.model_validate(answer))
    assert (result.content, result.status) == (content, "success")


def test_a_tool_that_fails_is_a_result_of_status_error():
    answer = {"content": [{"type": "text", "text": "no rain"}], "isError": True}
    assert result_of(CallToolResult.model_validate(answer)).status == "error"


# ---- what a server is shown ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "token", "sent"),
    [
        (None, "abc-123", {"Authorization": "Bearer abc-123"}),
        ("Authorization", "Bearer abc-123", {"Authorization": "Bearer abc-123"}),
        ("authorization", "Basic abc", {"authorization": "Basic abc"}),
        ("X-Api-Key", "abc-123", {"X-Api-Key": "abc-123"}),
    ],
)
def test_a_token_goes_into_its_header(header: str | None, token: str, sent: dict[str, str]):
    assert target_of(a_server(auth_header=header), McpSecrets(token=token)).headers == sent


def test_secrets_are_taken_out_of_what_a_server_says_and_never_printed():
    server = a_server(url="https://a.example/mcp?key=query-secret")
    target = target_of(server, McpSecrets(token="token-secret", headers={"X-Key": "header-secret"}))
    said = target.masked("no token-secret, header-secret or key=query-secret here")
    assert said == "no ***, *** or *** here"
    assert "secret" not in repr(target)
    assert target.where == "https://a.example/mcp"


@pytest.mark.parametrize(
    ("server", "secrets", "field"),
    [
        ({"name": " "}, {}, "server_name"),
        ({"name": "x" * 101}, {}, "server_name"),
        ({"url": ""}, {}, "config.server_url"),
        ({"url": "ftp://a.example"}, {}, "config.server_url"),
        ({"url": "file:///etc/passwd"}, {}, "config.server_url"),
        ({"url": "http://a.example:99999"}, {}, "config.server_url"),
        ({"url": "http://user:pass-word@a.example/"}, {}, "config.server_url"),
        ({"url": "http://a.example/ b"}, {}, "config.server_url"),
        ({}, {"token": "a\r\nX-More: b"}, "config.auth_token"),
        ({"auth_header": "X Key"}, {"token": "a"}, "config.auth_header"),
        ({}, {"headers": {"Host": "b.example"}}, "config.custom_headers"),
        ({}, {"headers": {"X-Key": "a\nb-secret"}}, "config.custom_headers"),
        ({"kind": "stdio", "command": ""}, {}, "config.command"),
        ({"kind": "stdio", "command": "a", "args": ("\0",)}, {}, "config"),
        ({"kind": "stdio", "command": "a"}, {"env": {"A=B": "c"}}, "config.env"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_its_field_without_its_value(server: Any, secrets: Any, field: str):
    with pytest.raises(InvalidInput) as refused:
        check_server(a_server(**server), McpSecrets(**secrets))
    assert refused.value.field == field
    assert "secret" not in refused.value.message
    assert "pass-word" not in refused.value.message
