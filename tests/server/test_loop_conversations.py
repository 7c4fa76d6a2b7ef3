"""Conversations by the official client against a real server."""

from typing import Any

import httpx2
import letta_client
import pytest
from letta_client import Letta
from loop_rig import EDIT, human, new_agent, post, say

pytestmark = pytest.mark.slow

KEYS = [
    "created_by_id",
    "last_updated_by_id",
    "created_at",
    "updated_at",
    "id",
    "agent_id",
    "summary",
    "in_context_message_ids",
    "isolated_block_ids",
    "model",
    "model_settings",
    "last_message_at",
]


def tell(client: Letta, conversation_id: str, text: str, **options: Any) -> list[Any]:
    """Send a text to a conversation and return what is streamed."""
    messages: Any = [{"role": "user", "content": text}]
    with client.conversations.messages.create(conversation_id, messages=messages, **options) as events:
        return list(events)


def contents(client: Letta, conversation_id: str, **options: Any) -> list[Any]:
    """Return what the messages of a conversation say, oldest first, without the system message."""
    listed: list[Any] = list(client.conversations.messages.list(conversation_id, order="asc", **options))
    return [message.content for message in listed if message.message_type != "system_message"]


def test_a_conversation_has_the_keys_of_the_wire_in_its_order(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    made = post(http, f"/v1/conversations/?agent_id={agent_id}", {"summary": "side"})
    assert list(made) == KEYS
    assert (made["summary"], made["agent_id"], made["in_context_message_ids"]) == ("side", agent_id, [])
    assert (made["last_message_at"], made["model"], made["isolated_block_ids"]) == (None, None, [])


def test_a_conversation_streams_by_default_and_keeps_its_messages_apart(client: Letta):
    agent_id = new_agent(client)
    conversation = client.conversations.create(agent_id=agent_id)
    kinds = [event.message_type for event in tell(client, conversation.id, "SAY:here")]
    assert kinds == ["ping", "assistant_message", "stop_reason", "usage_statistics"]
    say(client, agent_id, "SAY:elsewhere")
    assert contents(client, conversation.id) == ["SAY:here", "here"]
    assert contents(client, "default", agent_id=agent_id) == ["SAY:elsewhere", "elsewhere"]
    assert contents(client, agent_id) == ["SAY:elsewhere", "elsewhere"]
    every: list[Any] = list(client.agents.messages.list(agent_id, include_return_message_types=["assistant_message"]))
    assert [message.content for message in every] == ["elsewhere", "here"]
    listed = [message.id for message in client.conversations.messages.list(conversation.id, order="asc", limit=1)]
    found = client.conversations.retrieve(conversation.id)
    assert found.in_context_message_ids == listed
    assert found.last_message_at is not None
    (run,) = client.runs.list(agent_id=agent_id, conversation_id=conversation.id)
    assert run.conversation_id == conversation.id


def test_an_answer_may_come_as_json(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    conversation = client.conversations.create(agent_id=agent_id)
    body = {"input": "SAY:x", "streaming": False}
    answer = post(http, f"/v1/conversations/{conversation.id}/messages", body)
    assert [message["content"] for message in answer["messages"]] == ["x"]
    direct = post(http, "/v1/conversations/default/messages", body | {"agent_id": agent_id})
    assert [message["content"] for message in direct["messages"]] == ["x"]


def test_a_default_conversation_needs_its_agent_and_no_other_name_will_do(client: Letta, http: httpx2.Client):
    agent_id, other = new_agent(client), new_agent(client)
    nobody = http.post("/v1/conversations/default/messages", json={"input": "SAY:x"})
    assert (nobody.status_code, nobody.json()["detail"]) == (
        422,
        "agent_id: required when the conversation is 'default'",
    )
    odd = http.get("/v1/conversations/conv-1/messages")
    assert odd.status_code == 422
    assert odd.json()["examples"][0].startswith("conv-")
    conversation = client.conversations.create(agent_id=agent_id)
    with pytest.raises(letta_client.NotFoundError, match=f"Agent {other} has no conversation {conversation.id}"):
        client.conversations.cancel(conversation.id, agent_id=other)
    with pytest.raises(letta_client.UnprocessableEntityError, match="Messages must not be empty"):
        client.conversations.messages.create(conversation.id, messages=[])


def test_conversations_are_listed_in_pages_and_found_by_summary(client: Letta):
    agent_id = new_agent(client)
    ids = [client.conversations.create(agent_id=agent_id, summary=f"Trip {n}").id for n in range(3)]
    assert [one.id for one in client.conversations.list(agent_id=agent_id)] == ids[::-1]
    assert [one.id for one in client.conversations.list(agent_id=agent_id, order="asc", limit=2)] == ids[:2]
    assert [one.id for one in client.conversations.list(agent_id=agent_id, order="asc", after=ids[0])] == ids[1:]
    assert [one.id for one in client.conversations.list(agent_id=agent_id, summary_search="trip 1")] == [ids[1]]
    tell(client, ids[0], "SAY:x")
    assert client.conversations.list(agent_id=agent_id, order_by="last_message_at")[0].id == ids[0]
    assert client.conversations.list(agent_id=agent_id, order_by="last_run_completion")[0].id == ids[0]


def test_a_conversation_is_changed_by_named_fields_and_null_takes_back(client: Letta):
    conversation = client.conversations.create(
        agent_id=new_agent(client),
        summary="before",
        model="scripted/other",
        model_settings={"provider_type": "openai", "temperature": 0.5},
    )
    changed = client.conversations.update(conversation.id, summary="after", last_message_at="2026-01-02T03:04:05Z")
    assert (changed.summary, changed.model) == ("after", "scripted/other")
    assert changed.last_message_at is not None
    assert changed.last_message_at.isoformat() == "2026-01-02T03:04:05+00:00"
    settings: Any = changed.api_model_settings
    assert settings.temperature == 0.5
    taken_back = client.conversations.update(conversation.id, model=None)
    assert (taken_back.model, taken_back.summary) == (None, "after")
    with pytest.raises(letta_client.BadRequestError, match="provider/model-name"):
        client.conversations.update(conversation.id, model="nonsense")


def test_a_deleted_conversation_is_gone_and_the_default_one_cannot_be_deleted(client: Letta):
    agent_id = new_agent(client)
    conversation = client.conversations.create(agent_id=agent_id)
    tell(client, conversation.id, "SAY:x")
    client.conversations.delete(conversation.id)
    for again in (client.conversations.delete, client.conversations.retrieve):
        with pytest.raises(letta_client.NotFoundError):
            again(conversation.id)
    with pytest.raises(letta_client.ConflictError, match="default one"):
        client.conversations.delete(agent_id)


def test_a_block_of_its_own_is_changed_in_the_conversation_only(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    made = post(http, f"/v1/conversations?agent_id={agent_id}", {"isolated_block_labels": ["human"]})
    assert len(made["isolated_block_ids"]) == 1
    tell(client, made["id"], EDIT)
    assert human(client, agent_id) == "Likes maps."
    assert http.get(f"/v1/blocks/{made['isolated_block_ids'][0]}").json()["value"] == "Likes tea."
    assert "Likes tea." in client.conversations.recompile(made["id"])
    assert "Likes maps." in client.conversations.recompile("default", agent_id=agent_id)
    system: Any = client.conversations.messages.list(made["id"], order="asc", limit=1).items[0]
    assert "Likes tea." in system.content


def test_a_fork_has_the_same_messages_up_to_one_and_goes_on_by_itself(client: Letta):
    agent_id = new_agent(client)
    said = [say(client, agent_id, f"SAY:{word}")[0].id for word in ("one", "two")]
    whole = client.conversations.fork("default", agent_id=agent_id)
    part = client.conversations.fork("default", agent_id=agent_id, message_id=said[0])
    assert contents(client, whole.id) == ["SAY:one", "one", "SAY:two", "two"]
    assert contents(client, part.id) == ["SAY:one", "one"]
    assert part.in_context_message_ids is not None
    assert part.in_context_message_ids[-1] == said[0]
    tell(client, part.id, "SAY:three")
    assert contents(client, part.id) == ["SAY:one", "one", "SAY:three", "three"]
    assert contents(client, whole.id) == ["SAY:one", "one", "SAY:two", "two"]
    with pytest.raises(letta_client.NotFoundError, match="has no message"):
        client.conversations.fork(part.id, message_id=said[1])


def test_I03_a_conversation_begins_with_messages_of_earlier_times_which_are_found(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    preset = [
        {"role": "user", "content": "My dog is called Vega.", "created_at": "2024-02-03T10:00:00+01:00"},
        {"role": "assistant", "content": "A fine name.", "created_at": "2024-02-03T09:00:05Z"},
        {"role": "user", "content": "She likes the sea.", "created_at": "2023-01-01T00:00:00Z"},
    ]
    made = post(http, f"/v1/conversations/?agent_id={agent_id}", {"messages": preset})
    assert len(made["in_context_message_ids"]) == 4
    listed: list[Any] = list(client.conversations.messages.list(made["id"], order="asc"))[1:]
    assert [message.content for message in listed] == [message["content"] for message in preset]
    assert [message.date.isoformat() for message in listed] == [
        "2024-02-03T09:00:00+00:00",
        "2024-02-03T09:00:05+00:00",
        "2023-01-01T00:00:00+00:00",
    ]
    returned = say(client, agent_id, 'TOOL:conversation_search {"query":"Vega"}')[1]
    assert returned.status == "success"
    assert "My dog is called Vega." in returned.tool_return
    assert client.runs.list(agent_id=agent_id, conversation_id=made["id"]).items == []


def test_the_prompt_of_a_conversation_is_previewed_without_a_trace(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    conversation = client.conversations.create(agent_id=agent_id)
    before = client.conversations.retrieve(conversation.id)
    seen = post(http, f"/v1/conversations/{conversation.id}/messages/preview-raw-payload", {"input": "What now?"})
    assert [message["role"] for message in seen["messages"]] == ["system", "user"]
    assert seen["messages"][1]["content"] == "What now?"
    assert client.conversations.retrieve(conversation.id) == before
    assert list(client.runs.list(agent_id=agent_id)) == []
