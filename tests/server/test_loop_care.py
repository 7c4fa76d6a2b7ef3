"""Compaction by call and within turns, previews, and checks of what is stored, over HTTP."""

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import letta_client
import pytest
from letta_client import Letta
from loop_rig import EDIT, decide, frames, new_agent, post, say

from eunoe.store import conversations
from eunoe.store.sqlite import open_sqlite

pytestmark = pytest.mark.slow


def test_compaction_by_call_says_how_many_messages_were_and_are_in_view(client: Letta):
    agent_id = new_agent(client)
    for n in range(6):
        say(client, agent_id, f"SAY:answer {n}")
    settings: Any = {"mode": "all"}
    done = client.agents.messages.compact(agent_id, compaction_settings=settings)
    assert (done.num_messages_before, done.num_messages_after) == (13, 2)
    assert done.summary
    ids = client.agents.retrieve(agent_id).message_ids
    assert ids is not None
    assert len(ids) == 2
    listed: list[Any] = list(client.agents.messages.list(agent_id, order="asc"))
    assert len(listed) == 14
    summary = listed[-1]
    assert (summary.message_type, summary.id) == ("summary_message", ids[1])
    assert done.summary in summary.summary
    assert (summary.compaction_stats.trigger, summary.compaction_stats.messages_count_after) == ("manual", 2)


def test_a_list_shows_compaction_as_asked(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    say(client, agent_id, "SAY:x")
    conversation = client.conversations.fork("default", agent_id=agent_id)
    client.conversations.messages.compact(conversation.id, compaction_settings={"mode": "all"})
    path = f"/v1/conversations/{conversation.id}/messages?limit=1"

    def kinds(query: str) -> list[str]:
        return [body["message_type"] for body in http.get(path + query).json()]

    assert kinds("") == ["summary_message"]
    assert kinds("&order=desc&include_compaction_messages=true") == ["summary_message", "event_message"]
    (packed,) = http.get(path + "&include_compaction_messages=false").json()
    assert packed["message_type"] == "user_message"
    assert json.loads(packed["content"])["type"] == "system_alert"
    assert len(list(client.agents.messages.list(agent_id, conversation_id="default"))) == 3


def test_nothing_to_compact_is_refused(client: Letta):
    agent_id = new_agent(client)
    with pytest.raises(letta_client.BadRequestError, match="no messages that could go out of view"):
        client.agents.messages.compact(agent_id)
    with pytest.raises(letta_client.BadRequestError, match="no messages that could go out of view"):
        client.conversations.messages.compact("default", agent_id=agent_id)


@pytest.mark.parametrize("asked", [True, False])
def test_a_stream_tells_of_a_compaction_within_its_turn(client: Letta, http: httpx2.Client, asked: bool):
    agent_id = new_agent(client, context_window_limit=6000)
    kinds: list[str] = []
    for n in range(12):
        body = {"input": f"SAY:{n} " + "word " * 500, "include_compaction_messages": asked, "streaming": True}
        told = frames(http.post(f"/v1/agents/{agent_id}/messages", json=body).text)
        kinds = [one["message_type"] for one in told]
        if len(kinds) > 3:
            break
    shown = ["event_message", "summary_message"] if asked else ["user_message"]
    assert kinds == [*shown, "assistant_message", "stop_reason", "usage_statistics"]


def test_a_preview_is_the_request_that_the_message_then_sends(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    say(client, agent_id, EDIT)
    message = {"role": "user", "content": "SAY:hello", "otid": "0b3d7d0e-0000-4000-8000-000000000002"}
    before = list(client.agents.messages.list(agent_id))
    seen = post(http, f"/v1/agents/{agent_id}/messages/preview-raw-payload", {"messages": [message]})
    assert list(client.agents.messages.list(agent_id)) == before
    (said,) = post(http, f"/v1/agents/{agent_id}/messages", {"messages": [message]})["messages"]
    sent = http.get(f"/v1/steps/{said['step_id']}/request").json()
    assert sent["verified"] is True
    assert seen == sent["body"]


def test_a_preview_is_refused_where_the_message_would_be(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client, gated=True)
    path = f"/v1/agents/{agent_id}/messages/preview-raw-payload"
    (asked,) = say(client, agent_id, EDIT)
    waiting = post(http, path, {"input": "x"}, 409)
    assert waiting["detail"]["code"] == "PENDING_APPROVAL"
    reply = decide((asked.tool_call.tool_call_id, True))
    assert "A preview takes messages only" in post(http, path, {"messages": reply}, 400)["detail"]


def test_an_agent_that_is_whole_is_told_to_be_and_a_prompt_that_was_lost_is_made_anew(tmp_path: Path, serve_home: Any):
    with serve_home(tmp_path) as url, httpx2.Client(base_url=url) as http:
        agent_id = post(http, "/v1/agents", {"model": "scripted/demo"})["id"]
        post(http, f"/v1/agents/{agent_id}/messages", {"input": "SAY:x"})
        whole = http.get(f"/v1/agents/{agent_id}/integrity").json()
        assert whole == {"agent_id": agent_id, "ok": True, "violations": [], "healed": []}

    async def forget_the_prompt() -> str:
        database = await open_sqlite(tmp_path / "eunoe.db")
        conversation = await database.read(lambda tx: conversations.default(tx, agent_id))
        await database.write(lambda tx: conversations.set_compiled(tx, conversation.id, None))
        await database.aclose()
        return conversation.id

    conversation_id = anyio.run(forget_the_prompt)
    with serve_home(tmp_path) as url, httpx2.Client(base_url=url) as http:
        (violation,) = http.get(f"/v1/agents/{agent_id}/integrity").json()["violations"]
        assert violation == {
            "invariant": "I5",
            "subject": f"conversation {conversation_id}",
            "what": "Its prompt was never compiled.",
        }
        mended = post(http, f"/v1/agents/{agent_id}/repair")
        assert mended["ok"] is True
        assert mended["healed"] == [f"Compiled the prompt of conversation {conversation_id} afresh."]
        assert http.get(f"/v1/agents/{agent_id}/integrity").json()["ok"] is True
        post(http, "/v1/agents/agent-123e4567-e89b-42d3-8456-426614174000/repair", status=404)
