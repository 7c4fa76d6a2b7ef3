"""Questions about calls, and their answers, by the official client against a real server."""

from typing import Any

import httpx2
import letta_client
import pytest
from letta_client import Letta
from loop_rig import CLOCK, EDIT, PERSONA_EDIT, decide, human, new_agent, say

pytestmark = pytest.mark.slow


def kinds(messages: Any) -> list[str]:
    return [str(message.message_type) for message in messages]


def test_S06_a_question_its_answer_and_what_came_of_it_are_listed_in_order(client: Letta):
    agent_id = new_agent(client, gated=True)
    (asked,) = say(client, agent_id, EDIT)
    listed: list[Any] = list(client.agents.messages.list(agent_id, order="asc"))
    assert kinds(listed) == ["system_message", "user_message", "approval_request_message"]
    assert listed[-1].tool_call == asked.tool_call
    client.agents.messages.create(agent_id, messages=decide((asked.tool_call.tool_call_id, True)))
    listed = list(client.agents.messages.list(agent_id, order="asc"))
    assert kinds(listed)[2:] == [
        "approval_request_message",
        "approval_response_message",
        "tool_return_message",
        "assistant_message",
    ]
    answered = listed[3]
    assert (answered.approve, answered.approval_request_id) == (True, asked.id)
    assert [(one.tool_call_id, one.approve) for one in answered.approvals] == [(asked.tool_call.tool_call_id, True)]
    assert human(client, agent_id) == "Likes tea."


def test_S07_a_call_that_goes_through_approval_is_streamed_as_a_request_whose_pieces_are_the_call(client: Letta):
    agent_id = new_agent(client, gated=True)
    with client.agents.messages.create(
        agent_id, messages=[{"role": "user", "content": f"SAY:I ask.\n{EDIT}"}], streaming=True, stream_tokens=True
    ) as events:
        told: list[Any] = list(events)
    pieces = [event for event in told if event.message_type == "approval_request_message"]
    assert "tool_call_message" not in kinds(told)
    assert [event.tool_call.name for event in pieces if event.tool_call.name] == ["memory_replace"]
    stored: Any = client.agents.messages.list(agent_id, limit=1).items[0]
    assert stored.message_type == "approval_request_message"
    assert "".join(event.tool_call.arguments or "" for event in pieces) == stored.tool_call.arguments
    assert {(event.id, event.otid, event.tool_call.tool_call_id) for event in pieces} == {
        (stored.id, stored.otid, stored.tool_call.tool_call_id)
    }
    assert [event.stop_reason for event in told if event.message_type == "stop_reason"] == ["requires_approval"]


def test_a_message_is_refused_while_a_question_is_open_and_names_it(client: Letta):
    agent_id = new_agent(client, gated=True)
    (asked,) = say(client, agent_id, EDIT)
    pending = client.agents.retrieve(agent_id, include=["agent.pending_approval"]).pending_approval
    assert pending is not None
    assert pending.id == asked.id
    with pytest.raises(letta_client.ConflictError) as refused:
        say(client, agent_id, "SAY:hi")
    body: Any = refused.value.body
    assert (body["detail"]["code"], body["detail"]["pending_request_id"]) == ("PENDING_APPROVAL", asked.id)


def test_L07_a_message_may_deny_what_waits_and_go_on(client: Letta):
    agent_id = new_agent(client, gated=True)
    say(client, agent_id, EDIT)
    (answer,) = say(client, agent_id, "SAY:hi", extra_body={"on_pending": "deny_and_continue"})
    assert answer.content == "hi"
    assert human(client, agent_id) == "Likes maps."


def test_of_two_calls_that_wait_one_is_approved_and_one_denied_in_any_order(client: Letta):
    agent_id = new_agent(client, gated=True)
    (asked,) = say(client, agent_id, f"{EDIT}\n{PERSONA_EDIT}")
    first, second = (call.tool_call_id for call in asked.tool_calls)
    reply = decide((second, False), (first, True), reason="stay careful")
    answer: Any = client.agents.messages.create(agent_id, messages=reply)
    returned, said = answer.messages
    assert [(one.tool_call_id, one.status) for one in returned.tool_returns] == [(first, "success"), (second, "error")]
    denied = returned.tool_returns[1].tool_return
    assert denied == "Error: request to call tool denied. User reason: stay careful"
    assert said.content == "Understood."
    assert human(client, agent_id) == "Likes tea."
    assert client.agents.blocks.retrieve("persona", agent_id=agent_id).value == "I am careful."


def test_a_call_that_needs_no_answer_waits_with_the_one_that_does(client: Letta):
    agent_id = new_agent(client, gated=True)
    insert = 'TOOL:memory_insert {"label":"persona","new_string":"I wait."}'
    called, asked = say(client, agent_id, f"{insert}\n{EDIT}")
    assert (called.message_type, called.tool_call.name) == ("tool_call_message", "memory_insert")
    assert asked.message_type == "approval_request_message"
    assert [call.name for call in asked.tool_calls] == ["memory_replace"]
    assert "I wait." not in client.agents.blocks.retrieve("persona", agent_id=agent_id).value
    answer: Any = client.agents.messages.create(agent_id, messages=decide((asked.tool_call.tool_call_id, True)))
    assert [one.status for one in answer.messages[0].tool_returns] == ["success", "success"]
    assert "I wait." in client.agents.blocks.retrieve("persona", agent_id=agent_id).value


@pytest.mark.parametrize("choice", ["wrong", "missing", "additional"])
def test_an_answer_to_other_calls_than_those_that_wait_is_refused_with_the_right_ids(client: Letta, choice: str):
    agent_id = new_agent(client, gated=True)
    (asked,) = say(client, agent_id, f"{EDIT}\n{PERSONA_EDIT}")
    first, second = (call.tool_call_id for call in asked.tool_calls)
    given = {"wrong": [first, "call_nope"], "missing": [first], "additional": [first, second, "call_nope"]}[choice]
    with pytest.raises(letta_client.BadRequestError) as refused:
        client.agents.messages.create(agent_id, messages=decide(*((call_id, True) for call_id in given)))
    body: Any = refused.value.body
    assert body["detail"] == f"Invalid tool call IDs. Expected '{[first, second]}', but received '{given}'."
    assert human(client, agent_id) == "Likes maps."
    assert client.agents.retrieve(agent_id, include=["agent.pending_approval"]).pending_approval is not None


def test_an_answer_to_nothing_is_refused(client: Letta):
    agent_id = new_agent(client)
    with pytest.raises(letta_client.BadRequestError, match="No tool call is currently awaiting approval"):
        client.agents.messages.create(agent_id, messages=decide(("call_1", True)))


def test_L11_the_same_answer_twenty_times_is_one_answer(client: Letta):
    agent_id = new_agent(client, gated=True)
    (asked,) = say(client, agent_id, EDIT)
    reply = decide((asked.tool_call.tool_call_id, False), reason="no")
    answers = [client.agents.messages.create(agent_id, messages=reply) for _ in range(20)]
    assert len({tuple(message.id for message in answer.messages) for answer in answers}) == 1
    assert {answer.stop_reason.stop_reason for answer in answers} == {"end_turn"}
    listed = kinds(client.agents.messages.list(agent_id, order="asc"))
    assert listed.count("approval_response_message") == 1
    assert listed.count("tool_return_message") == 1
    assert len(list(client.runs.list(agent_id=agent_id))) == 2


def test_an_answer_that_contradicts_the_one_before_is_refused_and_changes_nothing(client: Letta):
    agent_id = new_agent(client, gated=True)
    (asked,) = say(client, agent_id, EDIT)
    call_id = asked.tool_call.tool_call_id
    client.agents.messages.create(agent_id, messages=decide((call_id, True)))
    with pytest.raises(letta_client.ConflictError, match="was answered before, by consent, and is now answered by den"):
        client.agents.messages.create(agent_id, messages=decide((call_id, False)))
    assert human(client, agent_id) == "Likes tea."


def test_L08_a_tool_of_the_clients_is_called_once_and_goes_on_from_its_return(client: Letta):
    agent_id = new_agent(client)
    conversation = client.conversations.create(agent_id=agent_id)
    question: Any = [{"role": "user", "content": 'TOOL:get_time {"zone":"UTC"}'}]
    with client.conversations.messages.create(conversation.id, messages=question, client_tools=[CLOCK]) as events:
        told: list[Any] = list(events)
    (asked,) = [event for event in told if event.message_type == "approval_request_message"]
    returned = {
        "type": "tool",
        "tool_call_id": asked.tool_call.tool_call_id,
        "tool_return": "12:00",
        "status": "success",
        "stdout": ["tick"],
    }
    reply: Any = [{"type": "approval", "approvals": [returned]}]
    with client.conversations.messages.create(conversation.id, messages=reply, client_tools=[CLOCK]) as events:
        told = list(events)
    assert kinds(told) == ["ping", "tool_return_message", "assistant_message", "stop_reason", "usage_statistics"]
    assert (told[1].tool_return, told[1].status, told[1].stdout) == ("12:00", "success", ["tick"])
    listed: list[Any] = list(client.conversations.messages.list(conversation.id, order="asc"))
    assert kinds(listed).count("approval_request_message") == 1
    answered = next(message for message in listed if message.message_type == "approval_response_message")
    assert [(one.type, one.tool_return) for one in answered.approvals] == [("tool", "12:00")]


def test_cancelling_while_a_question_waits_closes_its_calls(client: Letta):
    agent_id = new_agent(client, gated=True)
    (asked,) = say(client, agent_id, EDIT)
    cancelled: Any = client.agents.messages.cancel(agent_id)
    assert cancelled == {asked.run_id: "cancelled"}
    last: Any = client.agents.messages.list(agent_id, limit=1).items[0]
    assert last.tool_return == "The user cancelled the request, so the tool call was denied."
    assert (last.status, last.tool_call_id) == ("error", asked.tool_call.tool_call_id)
    assert client.agents.retrieve(agent_id, include=["agent.pending_approval"]).pending_approval is None
    with pytest.raises(letta_client.ConflictError):
        client.agents.messages.cancel(agent_id)
    assert say(client, agent_id, "SAY:on we go")[0].content == "on we go"


def test_a_run_that_asked_may_be_cancelled_by_its_id_and_one_that_is_over_may_not(client: Letta):
    agent_id = new_agent(client, gated=True)
    (done,) = say(client, agent_id, "SAY:done")
    (asked,) = say(client, agent_id, EDIT)
    outcome: Any = client.agents.messages.cancel(agent_id, run_ids=[done.run_id, asked.run_id])
    assert outcome == {done.run_id: "failed", asked.run_id: "cancelled"}


def test_cancelling_a_conversation_withdraws_its_question_and_no_other(client: Letta):
    agent_id = new_agent(client, gated=True)
    (elsewhere,) = say(client, agent_id, EDIT)
    conversation = client.conversations.create(agent_id=agent_id)
    with client.conversations.messages.create(conversation.id, messages=[{"role": "user", "content": EDIT}]) as events:
        asked: Any = next(event for event in events if event.message_type == "approval_request_message")
    outcome: Any = client.conversations.cancel(conversation.id)
    assert outcome == {asked.run_id: "cancelled"}
    pending = client.agents.retrieve(agent_id, include=["agent.pending_approval"]).pending_approval
    assert pending is not None
    assert pending.id == elsewhere.id


@pytest.mark.parametrize(
    ("names", "field"),
    [
        (["get time"], "client_tools[0].name"),
        (["get_time", "get_time"], "client_tools[1].name"),
        (["x" * 65], "65 char"),
    ],
)
def test_client_tools_that_no_model_takes_are_refused(http: httpx2.Client, client: Letta, names: list[str], field: str):
    tools = [{"name": name} for name in names]
    body = {"messages": [{"role": "user", "content": "SAY:x"}], "client_tools": tools}
    answer = http.post(f"/v1/agents/{new_agent(client)}/messages", json=body)
    assert answer.status_code == 422
    assert field in answer.json()["detail"]
