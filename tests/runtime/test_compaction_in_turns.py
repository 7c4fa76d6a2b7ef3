"""Compaction as a turn does it by itself: before a request that is too large, and after one that was."""

import json
from pathlib import Path

import pytest
from chat_endpoint import MODEL, Answer, Asked, ChatEndpoint
from compaction_rig import asks, exchange, history_of, returns, said, store
from runtime_rig import assert_paired, open_home, send, steps_of

from eunoe.embedded import Home
from eunoe.prompt.skills import Skill
from model_servers.control import ModelServer, event

pytestmark = pytest.mark.anyio

OVERFLOW = Answer(status=400, message="This model's maximum context length is 2048 tokens.")
INSERT = Asked("c1", "memory_insert", '{"label": "human", "new_string": "Likes tea."}')


async def test_a_window_that_is_too_full_is_compacted_before_the_model_is_asked(
    home: Home, endpoint: ChatEndpoint
) -> None:
    agent = await home.create_agent(model=MODEL, context_window_limit=20_000)
    history = await store(home, agent, exchange(20, size=2_000))
    endpoint.answers(Answer(text=("They counted maps.",)), Answer(text=("Gladly.",)))
    told = await send(home, agent, "Go on.")
    assert (told.ended.stop_reason, told.ended.step_count) == ("end_turn", 1)
    assert [one.role for one in told.messages] == ["summary", "assistant"]
    asked = endpoint.requests()[1]["messages"]
    assert "They counted maps." in asked[1]["content"]
    assert asked[-1]["content"] == "Go on."
    assert len(endpoint.received[1]) // 4 < 20_000
    assert told.messages[0].meta["compaction_stats"]["trigger"] == "post_step_context_check"
    assert told.ended.usage.prompt_tokens == 200
    assert (await history_of(home, agent))[: len(history)] == list(history)
    assert [(await agent.request_of(step.id)).verified for step in await steps_of(home, told)] == [True]


async def test_a_request_that_the_provider_finds_too_long_is_made_shorter_and_sent_again(
    home: Home, endpoint: ChatEndpoint
) -> None:
    agent = await home.create_agent(model=MODEL, memory={"human": "Likes maps."})
    await store(home, agent, exchange(10, size=400))
    endpoint.answers(
        OVERFLOW,
        Answer(text=("They counted maps.",)),
        Answer(calls=(INSERT,)),
        OVERFLOW,
        Answer(text=("Notes again.",)),
    )
    told = await send(home, agent, "Remember tea.")
    assert (told.ended.stop_reason, told.ended.step_count) == ("end_turn", 2)
    assert [one.role for one in told.messages] == ["summary", "assistant", "tool", "summary", "assistant"]
    window = await agent.window()
    assert_paired(window)
    assert "Notes again." in window[0].text
    assert (await agent.block("human")).value == "Likes maps.\nLikes tea."
    assert "Likes tea." in endpoint.requests()[-1]["messages"][0]["content"]
    assert [(await agent.request_of(step.id)).verified for step in await steps_of(home, told)] == [True, True]


async def test_a_request_after_a_compaction_still_names_the_skills_of_its_caller(
    home: Home, endpoint: ChatEndpoint
) -> None:
    agent = await home.create_agent(model=MODEL, context_window_limit=20_000)
    await store(home, agent, exchange(20, size=2_000))
    endpoint.answers(Answer(text=("They counted maps.",)), Answer(text=("Gladly.",)))
    skill = Skill(name="brewing", description="How tea is brewed.", location="/skills/brewing")
    told = await send(home, agent, "Go on.", client_skills=(skill,))
    assert [one.role for one in told.messages] == ["summary", "assistant"]
    assert "How tea is brewed." in endpoint.requests()[-1]["messages"][0]["content"]
    assert "How tea is brewed." not in await agent.prompt()
    assert [(await agent.request_of(step.id)).verified for step in await steps_of(home, told)] == [True]


async def test_k04_the_first_turn_after_the_provider_counted_too_much_is_compacted(
    openai_server: ModelServer, tmp_path: Path
) -> None:
    def answer(text: str, tokens: int) -> str:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": tokens, "completion_tokens": 10}
        return event({"choices": [choice], "usage": usage}) + event("[DONE]")

    openai_server.models.append({"id": "gpt-test"})
    async with open_home(tmp_path, {"OPENAI_BASE_URL": openai_server.base_url}) as home:
        agent = await home.create_agent(model=MODEL, context_window_limit=58_550)
        await store(home, agent, exchange(10, size=2_000))
        for text, tokens in (("First.", 61_000), ("Notes.", 900), ("Second.", 20_000), ("Third.", 21_000)):
            openai_server.behave(raw=answer(text, tokens))
        told = [await send(home, agent, text) for text in ("one", "two", "three")]
    roles = [[one.role for one in turn.messages] for turn in told]
    assert roles == [["assistant"], ["summary", "assistant"], ["assistant"]]
    assert told[1].messages[0].meta["compaction_stats"]["context_tokens_before"] > 61_000


async def test_an_overflow_that_no_compaction_cures_ends_the_run(home: Home, endpoint: ChatEndpoint) -> None:
    agent = await home.create_agent(model=MODEL)
    endpoint.answers(OVERFLOW, OVERFLOW)
    told = await send(home, agent, "Hello?")
    assert told.ended.error is not None
    assert "maximum context length" in (told.ended.error.detail or "")
    assert [one.text for one in await agent.window()] == ["Hello?"]
    assert len(endpoint.received) == 1


async def test_k05_a_return_that_is_too_long_is_sent_in_part_and_read_on_by_the_model(
    home: Home, endpoint: ChatEndpoint
) -> None:
    agent = await home.create_agent(model=MODEL, context_window_limit=20_000)
    whole = "".join(f"row {i}\n" for i in range(40_000))
    history = [said("user", "look"), asks("c1"), returns("c1", content=whole), said("assistant", "done")]
    stored = await store(home, agent, history)
    arguments = json.dumps({"message_id": stored[2].id, "offset": 100_000})
    endpoint.answers(Answer(calls=(Asked("c2", "conversation_search", arguments),)), Answer(text=("Seen.",)))
    told = await send(home, agent, "Read on.")
    assert told.ended.stop_reason == "end_turn"
    assert whole[100_000:104_000] in told.returns[0].content
    assert all(len(body) // 4 < 20_000 for body in endpoint.received)
    assert (await agent.window())[2].tool_returns[0].content == whole
    assert [(await agent.request_of(step.id)).verified for step in await steps_of(home, told)] == [True, True]
