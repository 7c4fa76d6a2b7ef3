"""The HTTP surface, byte by byte where it matters."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from eunoe.server.routes.table import ROUTES

SHAPES: dict[str, list[str]] = json.loads((Path(__file__).parent / "golden" / "shapes.json").read_text())
NO_AGENT = "agent-00000000-0000-4000-8000-000000000000"


def block_of(http: httpx2.Client, agent_id: str, label: str = "human") -> Any:
    return http.get(f"/v1/agents/{agent_id}/core-memory/blocks/{label}").json()


def say(http: httpx2.Client, agent_id: str, text: str) -> Any:
    answer = http.post(f"/v1/agents/{agent_id}/messages", json={"input": text})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_objects_have_the_keys_of_the_wire_in_its_order(http: httpx2.Client):
    body = {
        "model": "scripted/demo",
        "memory_blocks": [{"label": "human", "value": "x"}],
        "tool_rules": [{"type": "exit_loop", "tool_name": "memory_insert"}],
    }
    agent = http.post("/v1/agents/", json=body).json()
    answer = say(http, agent["id"], "SAY:hi")
    run = http.get(f"/v1/runs/?agent_id={agent['id']}").json()[0]
    context = http.get(f"/v1/agents/{agent['id']}/context").json()
    found = {
        "agent": agent,
        "llm_config": agent["llm_config"],
        "compaction_settings": agent["compaction_settings"],
        "memory": agent["memory"],
        "block": agent["blocks"][0],
        "tool": agent["tools"][0],
        "tool_rule": agent["tool_rules"][0],
        "answer": answer,
        "stop_reason": answer["stop_reason"],
        "usage_statistics": answer["usage"],
        "run": run,
        "request_config": run["request_config"],
        "step": http.get(f"/v1/runs/{run['id']}/steps").json()[0],
        "run_usage": http.get(f"/v1/runs/{run['id']}/usage").json(),
        "model": http.get("/v1/models/").json()[0],
        "context": context,
        "context_message": context["messages"][0],
    }
    assert {name: list(value) for name, value in found.items()} == {name: SHAPES[name] for name in found}


def test_times_of_objects_have_microseconds_and_an_offset(http: httpx2.Client, agent_id: str):
    agent = http.get(f"/v1/agents/{agent_id}").json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", agent["created_at"])
    message = say(http, agent_id, "SAY:x")["messages"][0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", message["date"])


def test_programs_older_than_the_1x_clients_get_all_relationships(http: httpx2.Client, agent_id: str):
    def labels(user_agent: str, **extra: str) -> list[str]:
        headers = {"user-agent": user_agent, **extra}
        return [block["label"] for block in http.get(f"/v1/agents/{agent_id}", headers=headers).json()["blocks"]]

    assert labels("curl/8.5") == ["human", "persona"]
    assert labels("letta-client/0.1.300") == ["human", "persona"]
    assert labels("letta-client/1.12.1") == []
    assert labels("Letta/JS 1.0", **{"x-stainless-package-version": "1.0.0"}) == []


def test_include_is_read_with_and_without_brackets(http: httpx2.Client, agent_id: str):
    both = http.get(f"/v1/agents/{agent_id}?include=agent.blocks&include=agent.tags").json()
    brackets = http.get(f"/v1/agents/{agent_id}?include[]=agent.blocks&include%5B%5D=agent.tags").json()
    assert len(both["blocks"]) == 2
    assert both["tags"] == ["example"]
    assert brackets == both


@pytest.mark.parametrize(
    "path",
    ["/v1/agents", "/v1/agents/", "/v1/health", "/v1/health/", "/v1/models/", "/v1/blocks/count/", "/docs", "/docs/"],
)
def test_paths_are_served_with_and_without_a_slash_and_never_by_a_redirect(http: httpx2.Client, path: str):
    assert http.get(path, follow_redirects=False).status_code == 200


def test_unknown_paths_and_methods_are_refused_in_json(http: httpx2.Client):
    missing = http.get("/v1/nothing/here")
    assert (missing.status_code, missing.json()) == (404, {"detail": "Not Found"})
    wrong = http.delete("/v1/agents/")
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})
    assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_cannot_be_told_again_is_refused_and_leaves_all_as_it_was(
    http: httpx2.Client, agent_id: str, time: str
):
    made = http.post(f"/v1/conversations/?agent_id={agent_id}", json={}).json()
    preset = {"messages": [{"role": "user", "content": "Hello.", "created_at": time}]}
    for answer in (
        http.patch(f"/v1/agents/{agent_id}", json={"last_run_completion": time}),
        http.patch(f"/v1/conversations/{made['id']}", json={"last_message_at": time}),
        http.post(f"/v1/conversations/?agent_id={agent_id}", json=preset),
        http.post(f"/v1/agents/{agent_id}/messages", json=preset),
        http.get("/v1/steps/", params={"agent_id": agent_id, "start_date": time}),
    ):
        assert answer.status_code in {400, 422}, answer.text
        assert "years 1 to 9999" in answer.text
    assert http.get(f"/v1/conversations/{made['id']}").json() == made
    assert say(http, agent_id, "SAY:x")["messages"][0]["content"] == "x"


@pytest.mark.parametrize("label", ["system/human", "a b", "ключ", "attach", "x/attach/y", "%", "a?b#c"])
def test_a_label_may_be_any_text(http: httpx2.Client, agent_id: str, label: str):
    block = http.post("/v1/blocks/", json={"label": label, "value": "v"}).json()
    http.patch(f"/v1/agents/{agent_id}/core-memory/blocks/attach/{block['id']}")
    escaped = "".join(f"%{byte:02X}" for byte in label.encode())
    path = f"/v1/agents/{agent_id}/core-memory/blocks/{escaped}"
    assert http.get(path).json()["id"] == block["id"]
    assert http.patch(path, json={"value": "w"}).json()["value"] == "w"
    assert http.get(f"{path}/").json()["value"] == "w"


def test_B02_a_value_over_the_limit_is_refused_with_its_figures(http: httpx2.Client, agent_id: str):
    block = block_of(http, agent_id)
    assert http.patch(f"/v1/blocks/{block['id']}", json={"limit": 4000}).status_code == 200
    for path in (f"/v1/blocks/{block['id']}", f"/v1/agents/{agent_id}/core-memory/blocks/human"):
        refused = http.patch(path, json={"value": "x" * 6538})
        body = refused.json()
        assert refused.status_code == 422
        assert (body["code"], body["label"], body["limit"], body["actual"]) == (
            "BLOCK_LIMIT_EXCEEDED",
            "human",
            4000,
            6538,
        )
    assert block_of(http, agent_id)["value"] == "Likes maps."


@pytest.mark.parametrize("by", ["header", "body"])
def test_B03_of_two_changes_from_one_revision_exactly_one_wins(http: httpx2.Client, agent_id: str, by: str):
    path = f"/v1/agents/{agent_id}/core-memory/blocks/human"
    tag = http.get(path).headers["etag"]
    assert tag == '"1"'

    def change(value: str) -> httpx2.Response:
        if by == "header":
            return http.patch(path, json={"value": value}, headers={"if-match": tag})
        return http.patch(path, json={"value": value, "expected_revision": 1})

    with ThreadPoolExecutor(2) as pool:
        answers = sorted(pool.map(change, ["one", "two"]), key=lambda answer: answer.status_code)
    assert [answer.status_code for answer in answers] == [200, 409]
    assert answers[0].headers["etag"] == '"2"'
    assert (answers[1].json()["code"], answers[1].json()["current_revision"]) == ("STALE_REVISION", 2)
    assert http.get(path).json()["value"] == answers[0].json()["value"]


def test_the_past_of_a_block_can_be_read(http: httpx2.Client, agent_id: str):
    block = block_of(http, agent_id)
    http.patch(f"/v1/blocks/{block['id']}", json={"value": "Likes tea.", "why": "She said so."})
    past = http.get(f"/v1/blocks/{block['id']}/revisions").json()
    assert [(item["revision"], item["value"], item["actor"], item["why"]) for item in past] == [
        (2, "Likes tea.", "user", "She said so."),
        (1, "Likes maps.", "user", ""),
    ]
    assert [item["revision"] for item in http.get(f"/v1/blocks/{block['id']}/revisions?limit=1").json()] == [2]


def test_the_manifest_and_its_verification(http: httpx2.Client, agent_id: str):
    say(http, agent_id, "SAY:x")
    answer = http.get(f"/v1/agents/{agent_id}/manifest?verify=true").json()
    assert answer["verification"] == {"ok": True, "differences": []}
    assert http.get(f"/v1/agents/{agent_id}/verify").json() == answer["verification"]
    parts = {(part["kind"], part["name"]): part for part in answer["manifest"]["parts"]}
    assert parts["block", "human"]["characters"] == len("Likes maps.")
    assert http.get(f"/v1/agents/{agent_id}/manifest").json()["parts"] == answer["manifest"]["parts"]


def test_the_exact_request_of_a_step_can_be_read(http: httpx2.Client, agent_id: str):
    message = say(http, agent_id, "SAY:x")["messages"][0]
    replayed = http.get(f"/v1/steps/{message['step_id']}/request").json()
    assert replayed["verified"] is True
    assert "Likes maps." in json.dumps(replayed["body"])


def test_a_busy_conversation_answers_409_with_the_run_that_holds_it(http: httpx2.Client, agent_id: str):
    path = f"/v1/agents/{agent_id}/messages"
    slow = {
        "messages": [{"role": "user", "content": "SAY:" + "word " * 3000}],
        "streaming": True,
        "stream_tokens": True,
    }
    with http.stream("POST", path, json=slow) as events:
        lines = events.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        run_id = json.loads(first[6:])["run_id"]
        refused = http.post(path, json={"input": "SAY:x"})
        assert list(lines)[-2] == "data: [DONE]"
    if refused.status_code == 200:
        pytest.fail("the run was over before the second request came: make its text longer")
    assert refused.status_code == 409
    assert (refused.json()["code"], refused.json()["run_id"]) == ("CONVERSATION_BUSY", run_id)


def test_a_background_stream_begins_at_once_and_tells_a_failure_as_an_event(http: httpx2.Client, agent_id: str):
    body = {"input": "ERROR:401", "streaming": True, "background": True}
    answer = http.post(f"/v1/agents/{agent_id}/messages", json=body)
    assert answer.status_code == 200
    kinds = [json.loads(line[6:])["message_type"] for line in answer.text.splitlines() if line.startswith("data: {")]
    assert kinds == ["ping", "stop_reason", "usage_statistics", "error_message"]
    assert "event: error\n" in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")


def test_tags_are_listed_in_pages_both_ways(http: httpx2.Client):
    http.post("/v1/blocks/", json={"label": "x", "tags": ["tag-b", "tag-d"]})
    http.post("/v1/agents/", json={"model": "scripted/demo", "tags": ["tag-a", "tag-c", "tag-b"]})

    def tags(query: str) -> list[str]:
        return list(http.get(f"/v1/tags/?name=tag-&{query}").json())

    assert tags("limit=3") == ["tag-a", "tag-b", "tag-c"]
    assert tags("limit=3&after=tag-c") == ["tag-d"]
    assert tags("limit=2&before=tag-d") == ["tag-b", "tag-c"]
    assert tags("limit=2&order=desc") == ["tag-d", "tag-c"]
    assert tags("limit=2&order=desc&before=tag-a") == ["tag-c", "tag-b"]


def test_cancelling_when_nothing_goes_on_is_a_conflict(http: httpx2.Client, agent_id: str):
    refused = http.post(f"/v1/agents/{agent_id}/messages/cancel", json={})
    assert refused.status_code == 409
    assert agent_id in refused.json()["detail"]


def test_identities_are_kept_by_key(http: httpx2.Client):
    body = {"identifier_key": "ada", "name": "Ada", "identity_type": "user"}
    created = http.post("/v1/identities/", json=body).json()
    assert http.post("/v1/identities/", json=body).status_code == 409
    upserted = http.put("/v1/identities/", json=body | {"name": "Ada L."}).json()
    assert (upserted["id"], upserted["name"]) == (created["id"], "Ada L.")
    properties = [{"key": "k", "value": 1, "type": "number"}]
    changed = http.patch(f"/v1/identities/{created['id']}", json={"properties": properties}).json()
    assert (changed["name"], changed["properties"]) == ("Ada L.", properties)
    assert [found["id"] for found in http.get("/v1/identities/?identifier_key=ada").json()] == [created["id"]]
    assert http.delete(f"/v1/identities/{created['id']}").status_code == 200
    assert http.get(f"/v1/identities/{created['id']}").status_code == 404


AGENTS, MESSAGES = "/v1/agents/", "/v1/agents/{agent}/messages"
HOSTILE: list[tuple[str, str, bytes, int, str]] = [
    ("POST", AGENTS, b"{not json", 422, "body: not valid JSON"),
    ("POST", AGENTS, b"[]", 422, "body: Expected `object`, got `array`"),
    ("POST", AGENTS, b"", 400, "INVALID_ARGUMENT: Must specify either model or llm_config in request"),
    ("POST", AGENTS, b'{"name":5,"model":"scripted/demo"}', 422, "body.name: Expected `str | null`, got `int`"),
    ("POST", AGENTS, b'{"model":"none"}', 400, "INVALID_ARGUMENT: The model handle should be in the format"),
    ("POST", AGENTS, b'{"model":"nobody/none"}', 404, "NOT_FOUND: Handle nobody/none not found"),
    (
        "POST",
        AGENTS,
        b'{"model":"scripted/demo","tools":["no_such_tool"]}',
        400,
        "Tools not found by name: {'no_such_tool'}",
    ),
    (
        "POST",
        AGENTS,
        b'{"model":"scripted/demo","name":"a\\u0000b"}',
        422,
        "body.name: must not contain the character U+0000",
    ),
    (
        "POST",
        AGENTS,
        b'{"model":"scripted/demo","tags":["a","\\ud800"]}',
        422,
        "body.tags[1]: must not contain the character U+D800",
    ),
    ("POST", AGENTS, b'{"name":"a\\ud800"}', 422, "body.name: must not contain the character U+D800"),
    ("POST", AGENTS, b'{"model":"scripted/demo","\\udfff":1}', 422, "must not contain the character U+DFFF"),
    ("POST", AGENTS, b'{"model":"scripted/demo","name":"\xff"}', 422, "body: not valid JSON: Invalid UTF-8"),
    ("POST", AGENTS, b"[" * 5000, 422, "body: nested too deeply"),
    (
        "POST",
        AGENTS,
        b'{"model":"scripted/demo","context_window_limit":-1}',
        422,
        "body.context_window_limit: Expected `int` >= 1, not -1",
    ),
    (
        "POST",
        AGENTS,
        b'{"model":"scripted/demo","name":"' + b"n" * 1001 + b'"}',
        422,
        "body.name: Expected `str` of length <= 1000, not 1001",
    ),
    (
        "POST",
        AGENTS,
        b'{"memory_blocks":[{"label":"a","value":"","limit":-7}]}',
        422,
        "body.memory_blocks[0].limit: Expected `int` >= 1, not -7",
    ),
    ("POST", AGENTS, b'{"model":"scripted/demo","context_window_limit":1e30}', 422, "body.context_window_limit"),
    (
        "POST",
        AGENTS,
        b'{"model":"scripted/demo","tool_rules":[{"type":"nope","tool_name":"x"}]}',
        422,
        "body.tool_rules[0].type",
    ),
    (
        "PATCH",
        "/v1/agents/{agent}",
        b'{"model_settings":{"temperature":"hot"}}',
        422,
        "The model settings are not valid: Expected `float | null`, got `str` - at `$.temperature`",
    ),
    ("PATCH", "/v1/agents/{agent}", b'{"response_format":{"type":"x"}}', 422, "$.response_format.type"),
    ("POST", "/v1/blocks/", b'{"label":"a","value":"\\u0007"}', 422, "U+0007"),
    ("POST", "/v1/blocks/", b'{"label":"a","value":"123456","limit":3}', 422, "at most 3 characters"),
    ("GET", "/v1/agents/nonsense", b"", 422, "agent_id: 'nonsense' is no id of the form"),
    ("GET", f"/v1/agents/{NO_AGENT}", b"", 404, f"Agent with ID {NO_AGENT} not found"),
    ("GET", "/v1/agents/?limit=-1", b"", 422, "query.limit: Expected `int` >= 1, not -1"),
    ("GET", "/v1/agents/?limit=1000000000", b"", 422, "query.limit: Expected `int` <= 1000, not 1000000000"),
    ("GET", "/v1/agents/?limit=many", b"", 422, "query.limit: Expected `int`"),
    ("GET", "/v1/agents/?limit=1&limit=2", b"", 422, "limit: given more than once"),
    ("GET", "/v1/agents/?order=sideways", b"", 422, "query.order"),
    ("GET", "/v1/agents/?name=%00", b"", 422, "name: must not contain the character U+0000"),
    (
        "GET",
        "/v1/blocks/?connected_to_agents_count_gt=99999999999999999999",
        b"",
        422,
        "query.connected_to_agents_count_gt",
    ),
    ("GET", f"/v1/agents/?after={NO_AGENT}", b"", 404, NO_AGENT),
    (
        "GET",
        MESSAGES + "?after=message-00000000-0000-4000-8000-000000000000",
        b"",
        404,
        "No message found with id 'message-00000000",
    ),
    ("POST", MESSAGES, b'{"messages":[]}', 422, "Messages must not be empty"),
    ("POST", MESSAGES, b"{}", 422, "Messages must not be empty"),
    (
        "POST",
        MESSAGES,
        b'{"input":"x","messages":[{"role":"user","content":"y"}]}',
        422,
        "input, messages: give one of them",
    ),
    ("POST", MESSAGES, b'{"input":"x","stream_tokens":true}', 422, "stream_tokens: only with streaming=true"),
    ("POST", MESSAGES, b'{"input":"x","background":true}', 422, "background: only with streaming=true"),
    ("POST", MESSAGES, b'{"messages":[{"content":"x"}]}', 422, "messages[0].role: required"),
    ("POST", MESSAGES, b'{"messages":[{"role":"robot","content":"x"}]}', 422, "body.messages[0].role"),
    ("POST", MESSAGES, b'{"messages":[{"role":"user","content":[{"type":"video"}]}]}', 422, "messages[0].content[0]"),
    (
        "POST",
        MESSAGES,
        b'{"messages":[{"role":"user","content":"x","created_at":"2026-01-01T00:00:00"}]}',
        422,
        "created_at",
    ),
    ("POST", MESSAGES, b'{"input":"x","max_steps":0}', 422, "body.max_steps"),
    (
        "POST",
        MESSAGES,
        b'{"input":"' + b"x" * 300_000 + b'"}',
        413,
        "has 300012 bytes, and this server takes at most 200000",
    ),
]


@pytest.fixture(scope="module")
def target(url: str) -> str:
    """An agent that nothing succeeds on."""
    return str(httpx2.post(f"{url}/v1/agents/", json={"model": "scripted/demo"}).json()["id"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    HOSTILE,
    ids=[f"{row[0]} {row[1][:40]} {row[2][:60]!r}" for row in HOSTILE],
)
def test_what_cannot_be_taken_is_refused_in_words(
    http: httpx2.Client, target: str, method: str, path: str, body: bytes, status: int, words: str
):
    answer = http.request(method, path.format(agent=target), content=body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]
    assert "Traceback" not in answer.text


def test_a_malformed_id_comes_with_an_example(http: httpx2.Client):
    assert http.get("/v1/agents/nonsense").json()["examples"] == ["agent-123e4567-e89b-42d3-8456-426614174000"]


def test_a_body_without_a_declared_length_is_bounded_too(http: httpx2.Client):
    chunks = (b"x" * 65_536 for _ in range(10))
    refused = http.post("/v1/blocks/", content=chunks)
    assert refused.status_code == 413
    assert refused.json()["limit"] == 200_000


def test_every_route_is_in_the_document_with_its_parameters(http: httpx2.Client):
    document = http.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    for line in ROUTES:
        path = line.path.replace(":path}", "}")
        operation = document["paths"][path][line.method.lower()]
        named = {part["name"] for part in operation["parameters"] if part["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path))
        assert operation["summary"]
    ids = [op["operationId"] for operations in document["paths"].values() for op in operations.values()]
    assert len(ids) == len(set(ids))


def test_every_reference_of_the_document_leads_somewhere(http: httpx2.Client):
    text = http.get("/openapi.json").text
    schemas = json.loads(text)["components"]["schemas"]
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert "AgentBody" in names
    assert names <= set(schemas)
    limit = schemas["PageQuery"]["properties"]["limit"]
    assert (limit["minimum"], limit["maximum"]) == (1, 1000)


def test_the_page_for_people_needs_nothing_from_elsewhere(http: httpx2.Client):
    answer = http.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in answer.text
    assert not re.findall(r"(?:src|href)=[\"']?https?:", answer.text)
    for line in ROUTES:
        assert line.path.replace(":path}", "}") in answer.text


@pytest.mark.parametrize("tags", [[], ["git-memory-enabled"]])
def test_the_context_overview_counts_each_part_once_and_shows_memory(http: httpx2.Client, tags: list[str]):
    blocks = [{"label": "human", "value": "Likes maps. " * 50}, {"label": "persona", "value": "I am careful."}]
    body = {"model": "scripted/demo", "memory_blocks": blocks, "tags": tags}
    agent_id = http.post("/v1/agents/", json=body).json()["id"]
    say(http, agent_id, "SAY:hi")
    context = http.get(f"/v1/agents/{agent_id}/context").json()
    parts = [value for name, value in context.items() if name.startswith("num_tokens_")]
    assert context["context_window_size_current"] == sum(parts)
    assert context["num_tokens_core_memory"] > 150
    assert "Likes maps." in context["core_memory"]
    assert "I am careful." in context["core_memory"]
