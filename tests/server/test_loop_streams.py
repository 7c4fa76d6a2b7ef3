"""Runs in the background, and streams that are taken up again."""

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from letta_client import Letta
from loop_rig import EDIT, decide, frames, human, new_agent, post, say, undated

from eunoe.store import run_events
from eunoe.store.sqlite import open_sqlite
from model_servers.control import ModelServer

pytestmark = pytest.mark.slow

Serve = Callable[..., Any]

WORDS = [f"word{number} " for number in range(60)]
TEXT = "".join(WORDS).strip()


def begin(http: httpx2.Client, agent_id: str, text: str, **fields: Any) -> str:
    """Start a background run and return its whole stream."""
    body = {"input": text, "streaming": True, "background": True, "stream_tokens": True, **fields}
    answer = http.post(f"/v1/agents/{agent_id}/messages", json=body)
    assert answer.status_code == 200, answer.text
    return answer.text


class Held:
    """A server whose model stops in the middle of an answer until it is let go on."""

    def __init__(self, http: httpx2.Client, model: ModelServer) -> None:
        self.http = http
        self.model = model
        agent = post(http, "/v1/agents", {"model": "openai/gpt-test"})
        self.agent_id = str(agent["id"])

    def cut_off(self, after: int = 10, **fields: Any) -> list[Any]:
        """Start a background run that goes on for as long as it is not let go, leave it, and return what was told."""
        self.model.behave(hang_after=after + 1)
        body = {"input": f"SAY:{TEXT}", "streaming": True, "background": True, "stream_tokens": True, **fields}
        seen: list[Any] = []
        with self.http.stream("POST", f"/v1/agents/{self.agent_id}/messages", json=body) as events:
            for message in messages_in(events.iter_lines()):
                seen.append(message)
                if len(seen) == after:
                    return seen
        pytest.fail("the stream ended before it was cut off")


def model_settings(model: ModelServer) -> dict[str, Any]:
    model.models.append({"id": "gpt-test", "object": "model"})
    return {"environment": {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "none"}}


@pytest.fixture
def held(openai_server: ModelServer, tmp_path: Path, serve_home: Serve) -> Iterator[Held]:
    with serve_home(tmp_path, settings=model_settings(openai_server)) as url:
        with httpx2.Client(base_url=url, timeout=20) as http:
            yield Held(http, openai_server)
        openai_server.release()


def messages_in(lines: Iterator[str]) -> Iterator[Any]:
    for line in lines:
        if line.startswith("data: {"):
            body = json.loads(line[6:])
            if body["message_type"] != "ping":
                yield body


def resume(http: httpx2.Client, run_id: str, after: int = 0) -> list[Any]:
    answer = http.post(f"/v1/runs/{run_id}/stream", json={"starting_after": after})
    assert answer.status_code == 200, answer.text
    return frames(answer.text)


def run_of(told: list[Any]) -> str:
    return str(told[0]["run_id"])


def test_what_a_background_run_tells_is_numbered_without_gaps(client: Letta, http: httpx2.Client):
    told = frames(begin(http, new_agent(client), f"THINK:hm\n{EDIT}\nTHEN:\nSAY:one two three"))
    assert [body["seq_id"] for body in told] == list(range(1, len(told) + 1))
    assert [body["message_type"] for body in told[-2:]] == ["stop_reason", "usage_statistics"]


def test_S03_a_stream_that_was_cut_while_its_run_goes_on_is_taken_up_without_loss_or_repetition(held: Held):
    seen = held.cut_off()
    rest: list[Any] = []
    body = {"starting_after": seen[6]["seq_id"], "include_pings": False}
    with held.http.stream("POST", f"/v1/runs/{run_of(seen)}/stream", json=body) as events:
        for message in messages_in(events.iter_lines()):
            rest.append(message)
            if len(rest) == 3:
                held.model.release()
    assert undated(rest[:3]) == undated(seen[7:])
    assert [message["seq_id"] for message in seen[:7] + rest] == list(range(1, len(WORDS) + 3))
    pieces = [message["content"] for message in seen[:7] + rest if message["message_type"] == "assistant_message"]
    assert "".join(pieces) == TEXT
    assert rest[-2]["stop_reason"] == "end_turn"


def test_the_official_client_takes_up_a_stream_by_run_and_by_otid(client: Letta):
    agent_id = new_agent(client)
    conversation = client.conversations.create(agent_id=agent_id)
    otid = str(uuid.uuid4())
    messages: Any = [{"role": "user", "content": "SAY:one two three", "otid": otid}]
    with client.conversations.messages.create(
        conversation.id, messages=messages, background=True, stream_tokens=True
    ) as events:
        told: list[Any] = [event for event in events if event.message_type != "ping"]
    words = [event.content for event in told if event.message_type == "assistant_message"]
    assert words == ["one ", "two ", "three"]
    run_id = told[0].run_id
    with client.runs.messages.stream(run_id, starting_after=told[0].seq_id) as events:
        again: list[Any] = [event for event in events if event.message_type == "assistant_message"]
    assert [event.content for event in again] == words[1:]
    with client.conversations.messages.stream(conversation.id, otid=otid, include_pings=False) as events:
        whole: list[Any] = list(events)
    assert [event.content for event in whole if event.message_type == "assistant_message"] == words
    with client.conversations.messages.stream(conversation.id, run_id=run_id, starting_after=2) as events:
        rest: list[Any] = [event for event in events if event.message_type == "assistant_message"]
    assert [event.content for event in rest] == words[2:]


def test_S01_a_stream_is_taken_up_after_the_server_was_restarted(tmp_path: Path, serve_home: Serve):
    with serve_home(tmp_path) as url, httpx2.Client(base_url=url) as http:
        agent = post(http, "/v1/agents", {"model": "scripted/demo"})
        told = frames(begin(http, agent["id"], "SAY:one two three\nTOOL:conversation_search {}"))
    with serve_home(tmp_path) as url, httpx2.Client(base_url=url) as http:
        for after in (0, 2, len(told) - 1, len(told)):
            assert undated(resume(http, run_of(told), after)) == undated(told[after:])
        answer = post(http, f"/v1/agents/{agent['id']}/messages", {"input": "SAY:on we go"})
        assert answer["messages"][0]["content"] == "on we go"


def test_S01_a_run_that_the_stop_of_a_server_cut_off_has_an_end_that_is_told_after_the_restart(
    tmp_path: Path, serve_home: Serve, openai_server: ModelServer
):
    settings = model_settings(openai_server)
    with (
        serve_home(tmp_path, settings=settings | {"shutdown_wait": 0.0}) as url,
        httpx2.Client(base_url=url) as http,
    ):
        seen = Held(http, openai_server).cut_off()
    with serve_home(tmp_path, settings=settings) as url, httpx2.Client(base_url=url, timeout=10) as http:
        rest = resume(http, run_of(seen), seen[-1]["seq_id"])
        assert [body["seq_id"] for body in seen + rest] == list(range(1, len(seen) + len(rest) + 1))
        assert [body["message_type"] for body in rest] == ["stop_reason", "usage_statistics"]
        run = http.get(f"/v1/runs/{run_of(seen)}").json()
        assert (rest[0]["stop_reason"], run["stop_reason"]) == ("cancelled", "cancelled")
        told = http.get(f"/v1/runs/{run_of(seen)}/messages").json()
        assert told[-1]["content"] == "".join(WORDS[:10])


def test_events_that_are_not_kept_any_more_are_told_to_be_gone(tmp_path: Path, serve_home: Serve):
    with serve_home(tmp_path) as url, httpx2.Client(base_url=url) as http:
        agent = post(http, "/v1/agents", {"model": "scripted/demo"})
        run_id = run_of(frames(begin(http, agent["id"], "SAY:x")))

    async def forget() -> None:
        database = await open_sqlite(tmp_path / "eunoe.db")
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        await database.write(lambda tx: run_events.forget(tx, tomorrow))
        await database.aclose()

    anyio.run(forget)
    with serve_home(tmp_path) as url, httpx2.Client(base_url=url) as http:
        gone = http.post(f"/v1/runs/{run_id}/stream", json={})
        assert (gone.status_code, gone.json()["code"]) == (410, "EXPIRED")
        assert [one["message_type"] for one in http.get(f"/v1/runs/{run_id}/messages").json()] == [
            "user_message",
            "assistant_message",
        ]


def test_streams_that_cannot_be_taken_up_are_refused_in_words(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    unknown = http.post("/v1/runs/run-123e4567-e89b-42d3-8456-426614174000/stream", json={})
    assert unknown.status_code == 404
    post(http, f"/v1/agents/{agent_id}/messages", {"input": "SAY:x"})
    run_id = client.runs.list(agent_id=agent_id).items[0].id
    unnumbered = post(http, f"/v1/runs/{run_id}/stream", {"starting_after": 1}, 400)
    assert "was not started with background=true" in unnumbered["detail"]
    assert resume(http, run_id)[0]["message_type"] == "assistant_message"
    idle = post(http, "/v1/conversations/default/stream", {"agent_id": agent_id}, 400)
    assert idle["detail"] == "No active runs found for this conversation."
    post(http, "/v1/conversations/default/stream", {"agent_id": agent_id, "otid": "nobody's"}, 404)
    other = client.conversations.create(agent_id=agent_id)
    post(http, f"/v1/conversations/{other.id}/stream", {"run_id": run_id}, 404)


def test_a_conversations_stream_is_that_of_the_run_that_goes_on(held: Held):
    seen = held.cut_off()
    body = {"agent_id": held.agent_id, "starting_after": seen[-1]["seq_id"]}
    with held.http.stream("POST", "/v1/conversations/default/stream", json=body) as events:
        lines = events.iter_lines()
        assert json.loads(next(lines)[6:])["message_type"] == "ping"
        held.model.release()
        rest = list(messages_in(lines))
    assert (rest[0]["run_id"], rest[0]["seq_id"]) == (run_of(seen), seen[-1]["seq_id"] + 1)
    assert rest[-2]["stop_reason"] == "end_turn"


def test_the_same_otid_while_its_run_goes_on_is_told_the_same_run(held: Held):
    message = {"role": "user", "content": f"SAY:{TEXT}", "otid": str(uuid.uuid4())}
    seen = held.cut_off(input=None, messages=[message])
    body = {"messages": [message], "streaming": True, "background": True, "stream_tokens": True}
    with held.http.stream("POST", f"/v1/agents/{held.agent_id}/messages", json=body) as events:
        again = messages_in(events.iter_lines())
        first = [next(again) for _ in seen]
        held.model.release()
        assert len(list(again)) == len(WORDS) - len(seen) + 2
    assert undated(first) == undated(seen)
    assert len(held.http.get(f"/v1/runs/?agent_id={held.agent_id}").json()) == 1


def test_the_same_otid_twice_is_one_run_whose_stream_is_told_again(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    message = {"role": "user", "content": "SAY:one two", "otid": "0b3d7d0e-0000-4000-8000-000000000001"}
    body = {"messages": [message], "streaming": True, "background": True, "stream_tokens": True}
    first, second = (frames(http.post(f"/v1/agents/{agent_id}/messages", json=body).text) for _ in range(2))
    assert undated(first) == undated(second)
    whole = post(http, f"/v1/agents/{agent_id}/messages", {"messages": [message]})
    assert [one["content"] for one in whole["messages"]] == ["one two"]
    assert len(client.runs.list(agent_id=agent_id).items) == 1


def test_a_cancelled_stream_ends_with_its_reason_and_keeps_what_was_said(held: Held):
    held.model.behave(hang_after=4)
    body = {"input": f"SAY:{TEXT}", "streaming": True, "stream_tokens": True}
    path = f"/v1/agents/{held.agent_id}/messages"
    with held.http.stream("POST", path, json=body) as events:
        told = messages_in(events.iter_lines())
        seen = [next(told) for _ in range(3)]
        busy = post(held.http, path, {"input": "SAY:x"}, 409)
        assert (busy["code"], busy["run_id"]) == ("CONVERSATION_BUSY", run_of(seen))
        assert f"is currently being processed (run_id={run_of(seen)})" in busy["detail"]
        assert post(held.http, f"{path}/cancel") == {run_of(seen): "cancelled"}
        rest = list(told)
    assert [message["message_type"] for message in rest] == ["stop_reason", "usage_statistics"]
    assert rest[0]["stop_reason"] == "cancelled"
    stored = held.http.get(f"{path}?limit=1").json()[0]
    assert (stored["id"], stored["content"]) == (seen[0]["id"], "".join(WORDS[:3]))
    assert held.http.get(f"/v1/runs/{run_of(seen)}").json()["status"] == "cancelled"


def test_conversations_of_an_agent_run_beside_each_other_and_each_is_cancelled_by_itself(held: Held):
    seen = held.cut_off()
    other = post(held.http, f"/v1/conversations/?agent_id={held.agent_id}")["id"]
    beside = frames(held.http.post(f"/v1/conversations/{other}/messages", json={"input": "SAY:beside"}).text)
    assert beside[0]["content"] == "beside"
    nothing = held.http.post(f"/v1/conversations/{other}/cancel")
    assert nothing.status_code == 409
    assert f"No active runs to cancel for agent {held.agent_id} in conversation {other}" in nothing.json()["detail"]
    outcome = post(held.http, f"/v1/conversations/default/cancel?agent_id={held.agent_id}")
    assert outcome == {run_of(seen): "cancelled"}


def test_an_async_run_is_answered_at_once_and_asked_for_until_it_is_over(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    run = client.agents.messages.create_async(agent_id, messages=[{"role": "user", "content": EDIT}])
    assert (run.agent_id, run.background) == (agent_id, True)
    told = resume(http, run.id)
    assert [body["message_type"] for body in told] == [
        "tool_call_message",
        "tool_return_message",
        "assistant_message",
        "stop_reason",
        "usage_statistics",
    ]
    over = client.runs.retrieve(run.id)
    assert (over.status, over.stop_reason) == ("completed", "end_turn")
    assert [one.id for one in client.runs.list(agent_id=agent_id, background=True)] == [run.id]
    refused = post(http, f"/v1/agents/{agent_id}/messages/async", {"input": "x", "callback_url": "http://x/"}, 422)
    assert refused["detail"].startswith("callback_url: ")


def test_a_run_that_is_over_may_be_deleted_and_its_messages_stay(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    run_id = run_of(frames(begin(http, agent_id, "SAY:x")))
    assert http.delete(f"/v1/runs/{run_id}").json()["id"] == run_id
    assert http.get(f"/v1/runs/{run_id}").status_code == 404
    assert client.agents.messages.list(agent_id, limit=1).items[0].message_type == "assistant_message"


def test_a_run_that_waits_for_an_answer_is_not_deleted(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client, gated=True)
    asked = say(client, agent_id, EDIT)[-1]
    refused = http.delete(f"/v1/runs/{asked.run_id}")
    assert (refused.status_code, refused.json()["pending_request_id"]) == (409, asked.id)
    client.agents.messages.create(agent_id, messages=decide((asked.tool_call.tool_call_id, True)))
    assert human(client, agent_id) == "Likes tea."


def test_a_run_that_goes_on_is_not_deleted(held: Held):
    run_id = run_of(held.cut_off())
    refused = held.http.delete(f"/v1/runs/{run_id}")
    assert refused.status_code == 409
    assert "Cancel it, then delete it" in refused.json()["detail"]
    assert held.http.get(f"/v1/runs/{run_id}").json()["status"] == "running"


def test_a_stream_is_taken_up_as_it_was_asked_for(client: Letta, http: httpx2.Client):
    agent_id = new_agent(client)
    wanted = {"include_return_message_types": ["assistant_message"], "stream_tokens": False}
    told = frames(begin(http, agent_id, f"{EDIT}\nTHEN:\nSAY:one two", **wanted))
    assert [(body["message_type"], body["seq_id"]) for body in told] == [
        ("assistant_message", 1),
        ("stop_reason", 2),
        ("usage_statistics", 3),
    ]
    assert undated(resume(http, run_of(told))) == undated(told)


def test_runs_are_found_by_what_they_are(client: Letta, http: httpx2.Client):
    first, second = new_agent(client), new_agent(client, gated=True)
    begin(http, first, "SAY:x")
    post(http, f"/v1/agents/{second}/messages", {"input": "SAY:x"})
    post(http, f"/v1/agents/{second}/messages", {"input": EDIT})
    done, asked = (run.id for run in client.runs.list(agent_id=second, order="asc"))
    assert [run.id for run in client.runs.list(agent_id=second, ascending=True)] == [done, asked]
    assert [run.id for run in client.runs.list(agent_id=second, stop_reason="requires_approval")] == [asked]
    both = list(client.runs.list(agent_ids=[first, second]))
    assert [run.agent_id for run in both] == [second, second, first]
    assert [run.agent_id for run in client.runs.list(agent_ids=[first, second], background=True)] == [first]
    assert list(client.runs.list(agent_id=first, active=True)) == []
