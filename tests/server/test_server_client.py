"""The official client against a real server."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import letta_client
import pytest
from letta_client import Letta
from letta_client.types import AgentState

pytestmark = pytest.mark.slow


SHAPES: dict[str, list[str]] = json.loads((Path(__file__).parent / "golden" / "shapes.json").read_text())


def new_agent(client: Letta, **fields: Any) -> AgentState:
    blocks = [{"label": "human", "value": "Likes maps."}, {"label": "persona", "value": "I am careful."}]
    return client.agents.create(**({"model": "scripted/demo", "memory_blocks": blocks} | fields))


def say(client: Letta, agent_id: str, text: str) -> list[Any]:
    return client.agents.messages.create(agent_id, messages=[{"role": "user", "content": text}]).messages


def test_an_agent_is_created_whole_and_read_without_relationships_unless_asked(client: Letta):
    created = new_agent(client, name="Ada", tags=["a", "b"], secrets={"KEY": "hidden value"})
    assert [block.label for block in created.blocks] == ["human", "persona"]
    assert {tool.name for tool in created.tools} == {"conversation_search", "memory_insert", "memory_replace"}
    assert created.tags == ["a", "b"]
    assert created.message_ids is not None
    assert len(created.message_ids) == 1

    bare = client.agents.retrieve(created.id)
    assert (bare.name, bare.blocks, bare.tools, bare.tags) == ("Ada", [], [], [])
    asked = client.agents.retrieve(created.id, include=["agent.blocks", "agent.tags", "agent.secrets"])
    assert [block.value for block in asked.blocks] == ["Likes maps.", "I am careful."]
    assert asked.tags == ["a", "b"]
    assert [(secret.key, secret.value) for secret in asked.secrets or []] == [("KEY", "")]
    assert asked.tools == []


def test_an_agent_is_changed_by_named_fields_only_and_deleted(client: Letta):
    created = new_agent(client, description="before", model_settings={"provider_type": "openai", "temperature": 0.2})
    client.agents.update(created.id, name="Grace")
    client.agents.update(created.id, model_settings={"provider_type": "openai", "max_output_tokens": 77})
    found = client.agents.retrieve(created.id)
    assert (found.name, found.description, found.system) == ("Grace", "before", created.system)
    settings: Any = found.api_model_settings
    assert (settings.temperature, settings.max_output_tokens) == (0.2, 77)
    client.agents.delete(created.id)
    with pytest.raises(letta_client.NotFoundError):
        client.agents.retrieve(created.id)


def test_agents_are_listed_by_tag_in_pages(client: Letta):
    ids = [new_agent(client, tags=["paged"]).id for _ in range(5)]
    assert [found.id for found in client.agents.list(tags=["paged"], order="asc", limit=2)] == ids
    assert [found.id for found in client.agents.list(tags=["paged"], limit=2)] == ids[::-1]
    page = client.agents.list(tags=["paged"], order="asc", limit=2, before=ids[3]).items
    assert [found.id for found in page] == ids[1:3]


def test_an_answer_carries_text_stop_reason_and_usage(client: Letta):
    agent = new_agent(client)
    answer = client.agents.messages.create(agent.id, input="THINK:let me see\nSAY:done")
    assert [message.message_type for message in answer.messages] == ["reasoning_message", "assistant_message"]
    assert answer.stop_reason.stop_reason == "end_turn"
    assert answer.usage.step_count == 1
    assert (answer.usage.total_tokens or 0) > 0


EDIT = 'TOOL:memory_replace {"label":"human","old_string":"maps","new_string":"tea"}'


def test_a_tool_call_changes_memory_and_is_shown_with_its_return(client: Letta):
    agent = new_agent(client)
    called, returned, said = say(client, agent.id, EDIT)
    assert called.tool_call.name == "memory_replace"
    assert (returned.status, returned.tool_call_id) == ("success", called.tool_call.tool_call_id)
    assert said.content == "Understood."
    assert client.agents.blocks.retrieve("human", agent_id=agent.id).value == "Likes tea."


def stream(client: Letta, agent_id: str, text: str, *, tokens: bool) -> list[Any]:
    messages: Any = [{"role": "user", "content": text}]
    with client.agents.messages.create(agent_id, messages=messages, streaming=True, stream_tokens=tokens) as events:
        return list(events)


def test_a_stream_by_steps_tells_whole_messages_and_ends_in_order(client: Letta):
    agent = new_agent(client)
    kinds = [event.message_type for event in stream(client, agent.id, EDIT, tokens=False)]
    assert kinds == [
        "ping",
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
    ]


def test_S04_a_stream_by_tokens_tells_text_in_pieces(client: Letta):
    agent = new_agent(client)
    events = stream(client, agent.id, "THINK:hm\nSAY:one two three", tokens=True)
    pieces = [event for event in events if event.message_type == "assistant_message"]
    assert len(pieces) == 3
    assert "".join(piece.content for piece in pieces) == "one two three"
    assert len({piece.otid for piece in pieces}) == 1
    stored = client.agents.messages.list(agent.id, limit=1).items[0]
    assert (stored.id, stored.otid) == (pieces[0].id, pieces[0].otid)


def test_a_tool_call_streams_its_name_then_its_arguments(client: Letta):
    agent = new_agent(client)
    events = stream(client, agent.id, EDIT, tokens=True)
    deltas = [event.tool_call for event in events if event.message_type == "tool_call_message"]
    assert deltas[0].name == "memory_replace"
    assert json.loads("".join(delta.arguments or "" for delta in deltas))["new_string"] == "tea"
    assert [e.tool_return for e in events if e.message_type == "tool_return_message"] == ["Likes tea."]


def test_a_failure_before_output_is_an_http_error_in_both_ways(client: Letta):
    agent = new_agent(client)
    with pytest.raises(letta_client.AuthenticationError) as refused:
        say(client, agent.id, "ERROR:401")
    body: Any = refused.value.body
    assert body["error"]["type"] == "llm_authentication"
    with pytest.raises(letta_client.AuthenticationError):
        stream(client, agent.id, "ERROR:401", tokens=True)


@pytest.mark.parametrize("failing", ["ERROR:529", f"{EDIT}\nTHEN:\nERROR:401"])
def test_a_client_that_repeats_by_itself_does_not_store_the_message_of_a_failed_turn_again(client: Letta, failing: str):
    agent = new_agent(client)
    with pytest.raises(letta_client.APIStatusError) as refused:
        say(client.with_options(max_retries=2), agent.id, failing)
    assert refused.value.response.headers["x-should-retry"] == "false"
    listed = client.agents.messages.list(agent.id, order="asc")
    assert [message.message_type for message in listed].count("user_message") == 1


def test_a_failure_after_output_reaches_the_client_after_the_stop_reason(client: Letta):
    agent = new_agent(client)
    messages: Any = [{"role": "user", "content": f"{EDIT}\nTHEN:\nERROR:401"}]
    seen: list[str] = []
    with (
        client.agents.messages.create(agent.id, messages=messages, streaming=True) as events,
        pytest.raises(letta_client.APIStatusError) as failed,
    ):
        seen.extend(str(event.message_type) for event in events)
    assert seen == ["ping", "tool_call_message", "tool_return_message", "stop_reason", "usage_statistics"]
    body: Any = failed.value.body
    assert (body["message_type"], body["error_type"]) == ("error_message", "llm_authentication")


def test_messages_are_listed_both_ways_in_pages_with_the_system_message_as_the_oldest(client: Letta):
    agent = new_agent(client)
    for word in ("one", "two", "three"):
        say(client, agent.id, f"SAY:{word}")
    oldest_first = [message.id for message in client.agents.messages.list(agent.id, order="asc", limit=100)]
    assert len(oldest_first) == 7
    assert agent.message_ids == oldest_first[:1]
    for limit in (1, 3, 7):
        forward = client.agents.messages.list(agent.id, order="asc", limit=limit)
        assert [message.id for message in forward] == oldest_first
        backward = client.agents.messages.list(agent.id, order="desc", limit=limit)
        assert [message.id for message in backward] == oldest_first[::-1]
    page = client.agents.messages.list(agent.id, order="asc", before=oldest_first[2], limit=5).items
    assert [message.id for message in page] == oldest_first[:2]
    page = client.agents.messages.list(agent.id, order="desc", before=oldest_first[0], limit=2).items
    assert [message.id for message in page] == [oldest_first[2], oldest_first[1]]


def test_only_asked_types_are_listed_and_answered(client: Letta):
    agent = new_agent(client)
    answer = client.agents.messages.create(
        agent.id, input="THINK:x\nSAY:y", include_return_message_types=["assistant_message"]
    )
    assert [message.message_type for message in answer.messages] == ["assistant_message"]
    listed = client.agents.messages.list(agent.id, include_return_message_types=["user_message"], limit=1)
    assert [message.message_type for message in listed] == ["user_message"]


def test_runs_and_steps_tell_what_happened(client: Letta):
    agent = new_agent(client)
    say(client, agent.id, EDIT)
    (run,) = client.runs.list(agent_id=agent.id)
    assert (run.status, run.stop_reason, run.agent_id) == ("completed", "end_turn", agent.id)
    assert run.completed_at is not None
    assert run.completed_at.tzinfo is not None
    assert client.runs.retrieve(run.id).id == run.id
    steps = list(client.runs.steps.list(run.id, order="asc"))
    assert [step.status for step in steps] == ["success", "success"]
    usage = client.runs.usage.retrieve(run.id)
    assert usage.total_tokens == sum(step.total_tokens or 0 for step in steps)
    assert client.steps.retrieve(steps[0].id).model == "demo"
    assert run.created_at is not None
    began, ended = run.created_at.isoformat(), run.completed_at.isoformat()
    assert len(list(client.steps.list(agent_id=agent.id, start_date=began, end_date=ended))) == 2
    assert list(client.steps.list(agent_id=agent.id, start_date=ended)) == []
    assert list(client.steps.list(agent_id=agent.id, end_date=began)) == []
    kinds = [message.message_type for message in client.runs.messages.list(run.id)]
    assert kinds == ["user_message", "tool_call_message", "tool_return_message", "assistant_message"]


def test_blocks_are_created_attached_read_by_label_and_detached(client: Letta):
    agent = new_agent(client)
    block = client.blocks.create(label="notes/today", value="x", description="d", metadata={"k": 1}, tags=["t"])
    client.agents.blocks.attach(block.id, agent_id=agent.id)
    assert client.agents.blocks.retrieve("notes/today", agent_id=agent.id).id == block.id
    changed = client.agents.blocks.update("notes/today", agent_id=agent.id, value="y")
    assert (changed.value, changed.description, changed.metadata) == ("y", "d", {"k": 1})
    assert [found.label for found in client.agents.blocks.list(agent.id)] == ["human", "notes/today", "persona"]
    assert [found.id for found in client.blocks.agents.list(block.id)] == [agent.id]
    client.agents.blocks.detach(block.id, agent_id=agent.id)
    assert [found.label for found in client.agents.blocks.list(agent.id)] == ["human", "persona"]
    client.blocks.delete(block.id)
    with pytest.raises(letta_client.NotFoundError):
        client.blocks.retrieve(block.id)


def test_tools_are_listed_attached_and_detached(client: Letta):
    agent = new_agent(client)
    search = next(iter(client.tools.list(name="conversation_search")))
    client.agents.tools.detach(search.id, agent_id=agent.id)
    assert {tool.name for tool in client.agents.tools.list(agent.id)} == {"memory_insert", "memory_replace"}
    client.agents.tools.attach(search.id, agent_id=agent.id)
    assert [tool.name for tool in client.agents.tools.list(agent.id)][-1] == "conversation_search"
    assert client.tools.retrieve(search.id).name == "conversation_search"


@pytest.mark.parametrize("embedding", [None, "openai/text-embedding-3-small", "google_ai/embedding-of-tomorrow"])
def test_P12_an_agent_needs_no_embedding_and_takes_any_handle_of_one(client: Letta, embedding: str | None):
    agent = new_agent(client, embedding=embedding)
    assert agent.embedding == embedding
    say(client, agent.id, "SAY:A zebra crossed.")
    call, returned, answer = say(client, agent.id, 'TOOL:conversation_search {"query": "zebra"}\nTHEN:\nSAY:Found.')
    assert (call.message_type, answer.content) == ("tool_call_message", "Found.")
    assert "A zebra crossed." in returned.tool_return


def test_models_health_and_tags_answer(client: Letta):
    new_agent(client, tags=["tagged"])
    assert any(model.handle == "scripted/demo" for model in client.models.list())
    assert client.models.embeddings.list() == []
    assert client.health().status == "ok"
    assert "tagged" in list(client.tags.list())


def test_reset_deletes_messages_and_keeps_memory(client: Letta):
    agent = new_agent(client)
    say(client, agent.id, EDIT)
    client.agents.messages.reset(agent.id, add_default_initial_messages=False)
    assert [message.message_type for message in client.agents.messages.list(agent.id)] == ["system_message"]
    assert client.agents.blocks.retrieve("human", agent_id=agent.id).value == "Likes tea."


def approve(call_id: str, *, yes: bool, reason: str | None = None) -> Any:
    answer = {"type": "approval", "tool_call_id": call_id, "approve": yes, "reason": reason}
    return [{"type": "approval", "approvals": [answer]}]


def test_S06_a_turn_that_ends_by_approval_shows_its_call_and_goes_on_from_the_answer(client: Letta):
    agent = new_agent(client)
    client.agents.tools.update_approval("memory_replace", agent_id=agent.id, body_requires_approval=True)
    (asked,) = say(client, agent.id, EDIT)
    assert asked.message_type == "approval_request_message"
    assert json.loads(asked.tool_call.arguments)["new_string"] == "tea"
    listed = client.agents.messages.list(agent.id, limit=1).items[0]
    assert (listed.id, listed.message_type) == (asked.id, "approval_request_message")
    found = client.agents.retrieve(agent.id, include=["agent.pending_approval"])
    assert found.pending_approval is not None
    assert found.pending_approval.id == asked.id

    with pytest.raises(letta_client.ConflictError) as refused:
        say(client, agent.id, "hi")
    body: Any = refused.value.body
    assert (body["detail"]["code"], body["detail"]["pending_request_id"]) == ("PENDING_APPROVAL", asked.id)
    with pytest.raises(letta_client.BadRequestError, match="Invalid tool call IDs"):
        client.agents.messages.create(agent.id, messages=approve("call_nope", yes=True))

    call_id = asked.tool_call.tool_call_id
    answer = client.agents.messages.create(agent.id, messages=approve(call_id, yes=False, reason="not now"))
    returned, said = answer.messages
    assert returned.message_type == "tool_return_message"
    assert (returned.status, returned.tool_return) == (
        "error",
        "Error: request to call tool denied. User reason: not now",
    )
    assert said.message_type == "assistant_message"
    assert client.agents.blocks.retrieve("human", agent_id=agent.id).value == "Likes maps."
    assert client.agents.retrieve(agent.id, include=["agent.pending_approval"]).pending_approval is None


def test_an_approved_call_is_made(client: Letta):
    agent = new_agent(client)
    client.agents.tools.update_approval("memory_replace", agent_id=agent.id, body_requires_approval=True)
    (asked,) = say(client, agent.id, EDIT)
    client.agents.messages.create(agent.id, messages=approve(asked.tool_call.tool_call_id, yes=True))
    assert client.agents.blocks.retrieve("human", agent_id=agent.id).value == "Likes tea."


@pytest.mark.parametrize("tokens", [False, True])
def test_L08_a_call_of_the_clients_own_tool_is_streamed_as_a_request(client: Letta, tokens: bool):
    agent = new_agent(client)
    clock: Any = {"name": "get_time", "description": "time", "parameters": {"type": "object", "properties": {}}}
    question: Any = [{"role": "user", "content": "TOOL:get_time {}"}]
    with client.agents.messages.create(
        agent.id, messages=question, client_tools=[clock], streaming=True, stream_tokens=tokens
    ) as stream_of_events:
        events = list(stream_of_events)
    asked = [event for event in events if event.message_type == "approval_request_message"]
    assert [event.message_type for event in events if event.message_type == "tool_call_message"] == []
    assert "".join(event.tool_call.arguments or "" for event in asked) == "{}"
    assert [event.tool_call.name for event in asked if event.tool_call.name] == ["get_time"]
    returned = {
        "type": "tool",
        "tool_call_id": asked[0].tool_call.tool_call_id,
        "tool_return": "12:00",
        "status": "success",
    }
    reply: Any = [{"type": "tool_return", "tool_returns": [returned]}]
    answer = client.agents.messages.create(agent.id, messages=reply, client_tools=[clock])
    assert answer.messages[0].message_type == "tool_return_message"
    assert (answer.messages[0].name, answer.messages[0].tool_return) == ("get_time", "12:00")


def test_C01_a_changed_system_text_is_what_the_oldest_message_shows(client: Letta):
    agent = new_agent(client, system="You are A.")
    for _ in range(3):
        say(client, agent.id, "SAY:ok")
    client.agents.update(agent.id, system="You are B.")
    oldest: Any = client.agents.messages.list(agent.id, order="asc", limit=1).items[0]
    assert oldest.message_type == "system_message"
    assert oldest.content.startswith("You are B.")
    say(client, agent.id, "SAY:again")
    assert "You are B." in client.agents.recompile(agent.id, dry_run=True)


def test_C03_a_system_text_without_a_place_for_memory_shows_the_mode_that_memory_is_in(client: Letta):
    agent = new_agent(client, system="You are Ada.")
    say(client, agent.id, "SAY:ok")
    client.agents.update(agent.id, system="You are Ada.\nYou work on files.", tags=["git-memory-enabled"])
    shown = _oldest(client, agent.id)
    assert shown.startswith("You are Ada.\nYou work on files.\n\nReminder: <projection>")
    assert "$MEMORY_DIR/system/human.md" in shown
    assert "<memory_blocks>" not in shown
    say(client, agent.id, "SAY:ok")
    assert json.loads(client.agents.recompile(agent.id, dry_run=True)) == shown
    client.agents.update(agent.id, system="You are Ada.", tags=[])
    shown = _oldest(client, agent.id)
    assert shown.startswith("You are Ada.\n\n<memory_blocks>\n")
    assert "<projection>" not in shown


def _oldest(client: Letta, agent_id: str) -> str:
    message: Any = client.agents.messages.list(agent_id, order="asc", limit=1).items[0]
    assert message.message_type == "system_message"
    return message.content


def test_C05_an_edit_of_a_shared_block_is_seen_by_the_other_agent_at_once(client: Letta):
    first, second = new_agent(client), new_agent(client, memory_blocks=[])
    human = client.agents.blocks.retrieve("human", agent_id=first.id)
    client.agents.blocks.attach(human.id, agent_id=second.id)
    say(client, first.id, EDIT)
    assert client.agents.blocks.retrieve("human", agent_id=second.id).value == "Likes tea."
    assert "Likes tea." in client.agents.recompile(second.id, dry_run=True)


def test_B06_a_shared_block_outlives_the_agent_that_is_deleted(client: Letta):
    first, second = new_agent(client), new_agent(client, memory_blocks=[])
    blocks = {block.label: block for block in first.blocks}
    client.agents.blocks.attach(blocks["human"].id or "", agent_id=second.id)
    client.agents.delete(first.id)
    assert client.agents.blocks.retrieve("human", agent_id=second.id).value == "Likes maps."
    assert client.blocks.retrieve(blocks["persona"].id or "").value == "I am careful."


def test_B12_a_second_block_of_a_label_is_refused_in_words(client: Letta):
    agent = new_agent(client)
    other = client.blocks.create(label="human", value="x")
    with pytest.raises(letta_client.ConflictError) as refused:
        client.agents.blocks.attach(other.id, agent_id=agent.id)
    body: Any = refused.value.body
    assert body["code"] == "LABEL_TAKEN"
    assert "'human'" in body["detail"]
    assert "constraint" not in body["detail"]


def test_A03_every_time_that_is_told_is_an_instant(client: Letta):
    before = datetime.now(UTC)
    agent = new_agent(client)
    (said,) = say(client, agent.id, "SAY:x")
    times = [agent.created_at, said.date, next(iter(client.runs.list(agent_id=agent.id))).created_at]
    for told in times:
        assert told is not None
        assert told.tzinfo is not None
        assert abs((told - before).total_seconds()) < 60
