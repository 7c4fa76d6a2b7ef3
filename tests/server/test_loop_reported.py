"""What people reported of loops, memory and models of systems like this one, by the official client."""

from typing import Any

import httpx2
import letta_client
import pytest
from letta_client import Letta
from loop_rig import EDIT, human, new_agent, post, say

pytestmark = pytest.mark.slow

SKILL: Any = {"name": "brewing", "description": "How tea is brewed.", "location": "/skills/brewing"}


def kinds(messages: Any) -> list[str]:
    return [str(message.message_type) for message in messages]


def system_of(http: httpx2.Client, agent_id: str, conversation: str, **body: Any) -> str:
    """The system text that a message to a conversation would be sent with."""
    path = f"/v1/conversations/{conversation}/messages/preview-raw-payload"
    return str(post(http, path, {"input": "hi", "agent_id": agent_id, **body})["messages"][0]["content"])


def test_L06_a_streamed_turn_with_a_tool_is_read_again_with_its_call_and_return(client: Letta) -> None:
    agent_id = new_agent(client)
    with client.agents.messages.create(agent_id, input=EDIT, streaming=True, stream_tokens=True) as events:
        told: list[Any] = list(events)
    listed: list[Any] = list(client.agents.messages.list(agent_id, order="asc"))
    assert kinds(listed) == [
        "system_message",
        "user_message",
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
    ]
    call, returned = listed[2:4]
    assert call.tool_call.tool_call_id == returned.tool_call_id
    (told_return,) = (event for event in told if event.message_type == "tool_return_message")
    assert (told_return.id, told_return.tool_return) == (returned.id, returned.tool_return)


def test_L14_an_exit_rule_that_is_set_later_is_read_back_and_stops_the_loop(client: Letta) -> None:
    agent_id = new_agent(client)
    rule: Any = {"type": "exit_loop", "tool_name": "memory_replace"}
    client.agents.update(agent_id, tool_rules=[rule])
    rules: Any = client.agents.retrieve(agent_id).tool_rules
    assert [(one.type, one.tool_name) for one in rules] == [("exit_loop", "memory_replace")]
    answer = client.agents.messages.create(agent_id, input=f"{EDIT}\nTHEN:\nSAY:too far")
    assert answer.stop_reason.stop_reason == "tool_rule"
    assert kinds(answer.messages) == ["tool_call_message", "tool_return_message"]


@pytest.mark.parametrize(
    "rule", [{"type": "exit_the_loop", "tool_name": "memory_replace"}, {"type": "exit_loop"}, {"tool_name": 3}]
)
def test_L14_a_rule_that_is_none_is_refused_and_the_rules_stay(
    client: Letta, http: httpx2.Client, rule: dict[str, Any]
) -> None:
    agent_id = new_agent(client, tool_rules=[{"type": "continue_loop", "tool_name": "memory_insert"}])
    before = client.agents.retrieve(agent_id).tool_rules
    refused = http.patch(f"/v1/agents/{agent_id}", json={"tool_rules": [rule]})
    assert refused.status_code == 422
    assert "tool_rules" in refused.text
    assert client.agents.retrieve(agent_id).tool_rules == before


def test_B07_a_harness_with_a_block_of_its_own_does_not_overwrite_what_a_person_wrote(
    client: Letta, http: httpx2.Client
) -> None:
    agent_id = new_agent(client)
    own = client.blocks.create(label="human", value="The harness's.")
    with pytest.raises(letta_client.ConflictError, match="already has a block with label 'human'"):
        client.agents.blocks.attach(own.id, agent_id=agent_id)
    path = f"/v1/agents/{agent_id}/core-memory/blocks/human"
    seen = http.get(path).headers["etag"]
    client.agents.blocks.update("human", agent_id=agent_id, value="Written by hand.")
    stale = http.patch(path, json={"value": "The harness's."}, headers={"if-match": seen})
    assert (stale.status_code, stale.json()["code"]) == (409, "STALE_REVISION")
    assert human(client, agent_id) == "Written by hand."


def test_B10_a_skill_that_is_loaded_in_one_conversation_is_in_no_other(client: Letta, http: httpx2.Client) -> None:
    agent_id = new_agent(client)
    first, second = (client.conversations.create(agent_id=agent_id).id for _ in range(2))
    before = [system_of(http, agent_id, one) for one in (second, "default")]
    with client.conversations.messages.create(first, input="SAY:x", client_skills=[SKILL]) as events:
        assert "assistant_message" in kinds(events)
    (step,) = client.steps.list(agent_id=agent_id).items
    sent = http.get(f"/v1/steps/{step.id}/request").json()
    assert "How tea is brewed." in sent["body"]["messages"][0]["content"]
    assert [system_of(http, agent_id, one) for one in (second, "default")] == before
    assert "brewing" not in before[0]
    assert "brewing" not in system_of(http, agent_id, first)


def test_P03_what_is_changed_in_one_conversation_leaves_window_and_model_of_agent_and_new_ones(
    client: Letta,
) -> None:
    agent_id = new_agent(client, context_window_limit=20_000)
    aside = client.conversations.create(agent_id=agent_id)
    client.conversations.update(aside.id, model="scripted/other")
    settings: Any = {"provider_type": "openai", "reasoning": {"reasoning_effort": "high"}}
    client.agents.update(agent_id, model_settings=settings)
    agent = client.agents.retrieve(agent_id)
    assert agent.model == "scripted/demo"
    assert agent.llm_config.context_window == 20_000
    fresh = client.conversations.create(agent_id=agent_id)
    assert fresh.model is None
    for conversation, model in ((aside, "other"), (fresh, "demo")):
        with client.conversations.messages.create(conversation.id, input="SAY:x") as events:
            assert "assistant_message" in kinds(events)
        step = client.steps.list(agent_id=agent_id).items[0]
        assert (step.model, step.context_window_limit) == (model, 20_000)


@pytest.mark.parametrize("end", ["2099-01-01", "2099-01-01T00:00:00Z", "now"])
def test_A04_a_search_by_date_works_or_says_what_a_date_looks_like(client: Letta, end: str) -> None:
    agent_id = new_agent(client)
    say(client, agent_id, "SAY:Vega barks")
    returned = say(client, agent_id, f'TOOL:conversation_search {{"query":"Vega","end_date":"{end}"}}')[1]
    if end == "now":
        assert returned.status == "error"
        assert "Use ISO 8601: YYYY-MM-DD or YYYY-MM-DDTHH:MM." in returned.tool_return
    else:
        assert "Vega barks" in returned.tool_return


@pytest.mark.parametrize("decision", [True, False])
def test_an_answer_may_name_the_message_that_asked(client: Letta, decision: bool) -> None:
    agent_id = new_agent(client, gated=True)
    (asked,) = say(client, agent_id, EDIT)
    wrong: Any = [{"type": "approval", "approve": decision, "approval_request_id": "message-00000000"}]
    with pytest.raises(letta_client.BadRequestError, match=asked.id):
        client.agents.messages.create(agent_id, messages=wrong)
    reply: Any = [{"type": "approval", "approve": decision, "approval_request_id": asked.id}]
    answers = [client.agents.messages.create(agent_id, messages=reply) for _ in range(2)]
    assert [kinds(answer.messages) for answer in answers] == [["tool_return_message", "assistant_message"]] * 2
    assert human(client, agent_id) == ("Likes tea." if decision else "Likes maps.")


def test_a_failed_tool_of_the_clients_returns_as_a_message_with_its_error_and_streams(client: Letta) -> None:
    agent_id = new_agent(client)
    clock: Any = {"name": "get_time", "description": "", "parameters": {"type": "object", "properties": {}}}
    asked: Any = client.agents.messages.create(agent_id, input="TOOL:get_time {}", client_tools=[clock])
    call_id = asked.messages[-1].tool_call.tool_call_id
    failed = {"tool_call_id": call_id, "tool_return": "no clock", "status": "error", "stdout": ["a"], "stderr": ["b"]}
    reply: Any = [{"type": "tool_return", "tool_returns": [{"type": "tool", **failed}]}]
    done: Any = client.agents.messages.create(agent_id, messages=reply, client_tools=[clock])
    returned: Any = done.messages[0]
    assert (returned.status, returned.tool_return, returned.stdout, returned.stderr) == (
        "error",
        "no clock",
        ["a"],
        ["b"],
    )
    assert done.stop_reason.stop_reason == "end_turn"
