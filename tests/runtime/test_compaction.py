"""Compaction in a real store, with a model endpoint: what goes out of view, what stays, and what stands in for it."""

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_endpoint import MODEL, Answer, ChatEndpoint
from compaction_rig import (
    asks,
    compact_in_run,
    exchange,
    history_of,
    occasion_of,
    returns,
    said,
    store,
)
from msgspec import structs
from runtime_rig import BOUND, assert_paired, open_home, request, send, watch

from eunoe.embedded import Agent, Home
from eunoe.runtime.approvals import Reply
from eunoe.runtime.compact import choose_cut, compact, is_due, summary_job
from eunoe.runtime.compaction_call import CompactionOutcome, compact_conversation
from eunoe.runtime.compaction_settings import DEFAULT_PROMPTS
from eunoe.runtime.payload_view import fitted
from eunoe.runtime.runtime import utc_now
from eunoe.runtime.summaries import MOST_CALLS, summarise
from eunoe.runtime.turn import TurnRequest
from eunoe.state.errors import ConversationBusy, InvalidInput, LeaseLost
from eunoe.state.messages import ApprovalPart
from eunoe.state.rules import ApprovalRule
from eunoe.store import agents, conversations
from model_servers.control import ModelServer, event

pytestmark = pytest.mark.anyio

ALL = {"mode": "all"}
NOTES = "They counted maps."


def _told(body: dict[str, Any]) -> str:
    return "\n".join(str(one["content"]) for one in body["messages"])


def _kinds(outcome: CompactionOutcome) -> list[str]:
    return [note.kind for note in outcome.notes]


async def test_the_summary_stands_first_and_history_stays(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    history = await store(home, agent, exchange(5))
    endpoint.answers(Answer(text=(NOTES,)))
    outcome = await compact_conversation(home.runtime, agent.id)
    window = await agent.window()
    assert window[0].role == "summary"
    assert NOTES in window[0].text
    assert [one.id for one in window[1:]] == [one.id for one in history[3:]]
    assert [one.id for one in await history_of(home, agent)] == [one.id for one in history]
    assert (outcome.summary, outcome.num_messages_before, outcome.num_messages_after) == (NOTES, 11, 9)
    assert window[0].meta["compaction_stats"] == structs.asdict(outcome.stats)
    assert window[0].meta["fallback"] is None
    asked = endpoint.requests()[0]
    assert asked["messages"][0]["content"] == DEFAULT_PROMPTS["sliding_window"]
    assert "question 0" in _told(asked)
    assert "question 2" not in _told(asked)


async def test_an_earlier_summary_is_part_of_the_next(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    await store(home, agent, exchange(3))
    endpoint.answers(Answer(text=("First notes.",)), Answer(text=("Second notes.",)))
    await compact_conversation(home.runtime, agent.id, settings_override=ALL)
    await store(home, agent, exchange(2))
    await compact_conversation(home.runtime, agent.id, settings_override=ALL)
    assert "First notes." in _told(endpoint.requests()[1])
    (summary,) = await agent.window()
    assert summary.text.startswith("Note: 10 earlier messages")
    assert "Second notes." in summary.text
    assert "First notes." not in summary.text


async def test_nothing_to_compact_is_refused(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    with pytest.raises(InvalidInput, match="no messages"):
        await compact_conversation(home.runtime, agent.id)
    await store(home, agent, exchange(2))
    await compact_conversation(home.runtime, agent.id, settings_override=ALL)
    with pytest.raises(InvalidInput, match="no messages"):
        await compact_conversation(home.runtime, agent.id, settings_override=ALL)
    assert len(endpoint.received) == 1


async def test_a_running_conversation_is_not_compacted_by_call(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await store(home, agent, exchange(2))
    hold = threading.Event()
    endpoint.answers(Answer(text=("One moment.",), hold=hold))
    handle = await home.runtime.start(request(agent, "hello"))
    with pytest.raises(ConversationBusy) as busy:
        await compact_conversation(home.runtime, agent.id)
    hold.set()
    told = await watch(handle)
    assert busy.value.details["run_id"] == told.ended.run_id


async def test_k01_the_summariser_uses_its_own_window(home: Home, endpoint: ChatEndpoint) -> None:
    agent = await home.create_agent(
        model=MODEL, context_window_limit=58_550, compaction_settings={"model": "openai/gpt-4o", "mode": "all"}
    )
    await store(home, agent, exchange(39, size=4_000))
    endpoint.answers(Answer(text=(NOTES,)))
    outcome = await compact_conversation(home.runtime, agent.id)
    (asked,) = endpoint.requests()
    assert asked["model"] == "gpt-4o"
    assert "question 0 " in _told(asked)
    assert "answer 38 " in _told(asked)
    assert outcome.stats.context_window == 58_550
    assert outcome.stats.context_tokens_before > 78_000 > 10_000 > outcome.stats.context_tokens_after
    assert _kinds(outcome) == []


async def test_k02_an_empty_summary_leaves_history_and_says_what_stands_in(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    history = await store(home, agent, exchange(4, size=900))
    endpoint.answers(*(Answer(text=text) for text in ((), ("",), (" \n\t",), (), (), ())))
    outcome = await compact_conversation(home.runtime, agent.id, settings_override=ALL)
    assert await history_of(home, agent) == list(history)
    (summary,) = await agent.window()
    assert _kinds(outcome) == ["empty_summary", "mechanical"]
    assert [note["kind"] for note in summary.meta["fallback"]] == ["empty_summary", "mechanical"]
    assert "no model could summarise" in summary.text
    assert "question 0" in summary.text
    assert "answer 3" in summary.text
    bodies = endpoint.received
    assert len(set(bodies)) == len(bodies) <= MOST_CALLS


async def test_k02_a_summary_of_reasoning_alone_is_none(openai_server: ModelServer, tmp_path: Path) -> None:
    openai_server.models.append({"id": "gpt-test"})
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}, "finish_reason": "stop"}]}
    async with open_home(tmp_path, {"OPENAI_BASE_URL": openai_server.base_url}) as home:
        agent = await home.create_agent(model=MODEL)
        await store(home, agent, exchange(2))
        openai_server.behave(raw=event(thought) + event("[DONE]"), times=MOST_CALLS)
        outcome = await compact_conversation(home.runtime, agent.id, settings_override=ALL)
        assert _kinds(outcome) == ["empty_summary", "mechanical"]


async def test_a_failing_summariser_is_followed_by_the_agents_own_model(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await store(home, agent, exchange(2))
    endpoint.answers(Answer(status=401, message="no such key"), Answer(text=(NOTES,)))
    outcome = await compact_conversation(home.runtime, agent.id, settings_override={"model": "openai/gpt-4o", **ALL})
    assert [body["model"] for body in endpoint.requests()] == ["gpt-4o", "gpt-test"]
    assert outcome.summary == NOTES
    assert _kinds(outcome) == ["model_failed"]
    assert "no such key" in outcome.notes[0].detail


async def test_a_summariser_that_no_longer_resolves_is_told_of(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await store(home, agent, exchange(2))
    endpoint.answers(Answer(text=(NOTES,)))
    done = await compact_in_run(home, agent, model="gone/model", mode="all")
    assert done is not None
    assert (done.text, [note.kind for note in done.notes]) == (NOTES, ["model_unresolved"])
    assert "gone" in done.summary.meta["fallback"][0]["detail"]


async def test_k04_the_providers_count_makes_compaction_due_at_once(openai_server: ModelServer, tmp_path: Path) -> None:
    usage = {"prompt_tokens": 61_000, "completion_tokens": 10}
    answer = {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}], "usage": usage}
    openai_server.models.append({"id": "gpt-test"})
    openai_server.behave(raw=event(answer) + event("[DONE]"))
    environment = {"OPENAI_BASE_URL": openai_server.base_url}
    async with open_home(tmp_path, environment) as home:
        agent = await home.create_agent(model=MODEL, context_window_limit=58_550)
        await agent.ask("SAY:hello")
    async with open_home(tmp_path, environment) as home:
        agent = await home.agent(agent.id)
        occasion = await occasion_of(home, agent)
        assert occasion.context_tokens == 61_010
        assert is_due(fitted(occasion.request), occasion.context_tokens)
        assert not is_due(fitted(occasion.request), None)
        outcome = await compact_conversation(home.runtime, agent.id, settings_override=ALL)
        assert outcome.stats.context_tokens_before == 61_010
        after = await occasion_of(home, agent)
        assert after.context_tokens is None
        assert not is_due(fitted(after.request), after.context_tokens)


async def test_k07_an_approval_that_waits_survives_and_its_answer_is_accepted(home: Home) -> None:
    agent = await home.create_agent(
        model="scripted/demo", memory={"human": "Likes maps."}, tool_rules=(ApprovalRule(tool_name="memory_insert"),)
    )
    await store(home, agent, exchange(4))
    asked = await send(
        home, agent, 'TOOL:memory_insert {"label": "human", "new_string": "Likes tea."}\nTHEN:\nSAY:Noted.'
    )
    assert asked.ended.stop_reason == "requires_approval"
    await compact_conversation(home.runtime, agent.id, settings_override=ALL)
    window = await agent.window()
    assert [one.role for one in window] == ["summary", "assistant"]
    assert window[1].needs_approval == (window[1].tool_calls[0].id,)
    reply = Reply(all_calls=ApprovalPart(tool_call_id="", approve=True))
    told = await watch(await home.runtime.start(TurnRequest(agent_id=agent.id, reply=reply)))
    assert told.ended.stop_reason == "end_turn"
    assert (await agent.block("human")).value == "Likes maps.\nLikes tea."
    assert_paired([one for one in await agent.window() if one.role != "approval"])


async def test_k09_a_message_that_comes_meanwhile_stays_in_view(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    history = await store(home, agent, exchange(3))
    hold = threading.Event()
    endpoint.answers(Answer(text=(NOTES,), hold=hold), Answer(text=("At noon.",)))
    outcomes: list[CompactionOutcome] = []

    async def compact_it() -> None:
        outcomes.append(await compact_conversation(home.runtime, agent.id, settings_override=ALL))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(compact_it)
            await anyio.to_thread.run_sync(endpoint.asked.wait, BOUND)
            assert (await send(home, agent, "When?")).ended.stop_reason == "end_turn"
            hold.set()
    assert outcomes[0].summary == NOTES
    assert [(one.role, one.text) for one in (await agent.window())[1:]] == [
        ("user", "When?"),
        ("assistant", "At noon."),
    ]
    assert [one.id for one in await history_of(home, agent)][: len(history)] == [one.id for one in history]


async def test_a_window_that_was_reset_meanwhile_gets_no_summary(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await store(home, agent, exchange(3))
    hold = threading.Event()
    endpoint.answers(Answer(text=(NOTES,), hold=hold))

    async def compact_it() -> None:
        with pytest.raises(InvalidInput, match="no messages"):
            await compact_conversation(home.runtime, agent.id, settings_override=ALL)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(compact_it)
            await anyio.to_thread.run_sync(endpoint.asked.wait, BOUND)
            await home.runtime.db.write(lambda tx: _empty(tx, agent))
            hold.set()
    assert await agent.window() == ()


def _empty(tx: Any, agent: Agent) -> None:
    conversation = conversations.default(tx, agent.id)
    conversations.update(tx, structs.replace(conversation, window_from=conversation.next_position), now=utc_now())


async def test_k10_a_compaction_comes_back_after_a_restart_as_what_it_is(
    tmp_path: Path, endpoint: ChatEndpoint
) -> None:
    async with open_home(tmp_path, endpoint.environment) as home:
        agent = await home.create_agent(model=MODEL)
        await store(home, agent, exchange(3))
        endpoint.answers(Answer(text=(NOTES,)))
        await compact_conversation(home.runtime, agent.id, settings_override=ALL)
        before = await agent.window()
    async with open_home(tmp_path, endpoint.environment) as home:
        agent = await home.agent(agent.id)
        assert await agent.window() == before
        assert before[0].role == "summary"
        assert before[0].meta["compaction_stats"]["trigger"] == "manual"
        assert (await send(home, agent, "Go on.")).ended.stop_reason == "end_turn"
        sent = endpoint.requests()[-1]["messages"]
        assert [one["role"] for one in sent] == ["system", "user", "user"]
        assert NOTES in sent[1]["content"]
        assert "question 0" not in json.dumps(sent)


async def test_k11_a_context_above_the_window_is_compacted_by_chunks(home: Home, endpoint: ChatEndpoint) -> None:
    agent = await home.create_agent(model=MODEL, context_window_limit=8_192)
    history = await store(home, agent, exchange(16, size=2_000))
    endpoint.answers(*(Answer(text=(f"Notes {i}.",)) for i in range(MOST_CALLS)))
    outcome = await compact_conversation(home.runtime, agent.id, settings_override=ALL)
    bodies = endpoint.received
    assert outcome.stats.context_tokens_before > 2 * 8_192
    assert 2 < len(bodies) <= MOST_CALLS
    assert all(len(body) // 4 < 8_192 for body in bodies)
    assert all(f"answer {i} " in _told_by_any(endpoint) for i in range(16))
    assert "Notes 0." in _told(endpoint.requests()[-1])
    assert outcome.summary == f"Notes {len(bodies) - 1}."
    assert outcome.stats.context_tokens_after < 8_192
    assert await history_of(home, agent) == list(history)


def _told_by_any(endpoint: ChatEndpoint) -> str:
    return "\n".join(map(_told, endpoint.requests()))


async def test_k11_an_overflow_of_the_summariser_leads_to_smaller_slices(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await store(home, agent, exchange(4, size=900))
    overflow = Answer(status=400, message="This model's maximum context length is 2048 tokens.")
    endpoint.answers(overflow, Answer(text=("Part one.",)), Answer(text=("Part two.",)), Answer(text=("Whole.",)))
    outcome = await compact_conversation(home.runtime, agent.id, settings_override=ALL)
    bodies = endpoint.requests()
    assert outcome.summary == "Whole."
    assert len(bodies) == 4
    assert max(len(_told(body)) for body in bodies[1:]) < len(_told(bodies[0]))
    assert "Part one." in _told(bodies[3])
    assert "Part two." in _told(bodies[3])


async def test_c06_memory_reads_the_same_before_and_after(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    await agent.update_block("human", value="Rule: always answer in rhymes. <b>& so on</b>")
    await store(home, agent, exchange(4))
    before = await agent.prompt()
    endpoint.answers(Answer(text=(NOTES,)))
    done = await compact_in_run(home, agent, mode="all")
    assert done is not None
    after = await agent.prompt()
    assert done.system == after
    assert "Rule: always answer in rhymes." in before
    assert _section(after, "memory_blocks") == _section(before, "memory_blocks")
    assert "8 previous messages" in _section(after, "memory_metadata")
    assert "0 previous messages" in _section(before, "memory_metadata")


def _section(text: str, name: str) -> str:
    return text[text.index(f"<{name}>") : text.index(f"</{name}>")]


async def test_a_run_that_lost_its_lease_stores_nothing(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    history = await store(home, agent, exchange(3))
    endpoint.answers(Answer(text=(NOTES,)))
    occasion = await occasion_of(home, agent, fence=7, mode="all")
    with pytest.raises(LeaseLost):
        await compact(home.runtime.db, home.runtime.models, occasion, utc_now)
    assert await agent.window() == history
    assert len(endpoint.received) == 1


async def test_the_request_in_hand_is_kept_word_for_word(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    await store(home, agent, [*exchange(3), said("user", "Count <the> maps!"), asks("a"), returns("a")])
    endpoint.answers(Answer(text=(NOTES,)))
    done = await compact_in_run(home, agent, mode="all")
    assert done is not None
    assert [one.role for one in done.window] == ["summary"]
    assert done.window[0].text.endswith("Count <the> maps!")


async def test_a_run_does_not_compact_for_next_to_nothing(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    await store(home, agent, exchange(1))
    assert await compact_in_run(home, agent, trigger="post_step_context_check", mode="all") is None
    assert endpoint.received == []


async def test_a_mode_of_its_own_asks_with_the_prefix_that_the_provider_has_cached(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await send(home, agent, "First.")
    await send(home, agent, "Second.")
    endpoint.answers(Answer(text=(NOTES,)))
    outcome = await compact_conversation(home.runtime, agent.id, settings_override={"mode": "self_compact_all"})
    last, own = endpoint.requests()[-2:]
    assert own["messages"][: len(last["messages"])] == last["messages"]
    assert own["messages"][-1] == {"role": "user", "content": DEFAULT_PROMPTS["self_compact_all"]}
    assert own["tools"] == last["tools"]
    assert outcome.summary == NOTES


async def test_a_long_summary_is_clipped_and_said_to_be(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    await store(home, agent, exchange(3))
    endpoint.answers(Answer(text=("abc" * 100,)))
    outcome = await compact_conversation(home.runtime, agent.id, settings_override={**ALL, "clip_chars": 30})
    assert outcome.summary.startswith("abc" * 10 + "\n[")
    assert _kinds(outcome) == ["clipped"]


async def test_the_tail_that_stays_fits_the_share_that_is_to_be_free(home: Home, endpoint: ChatEndpoint) -> None:
    agent = await home.create_agent(model=MODEL, context_window_limit=20_000)
    await store(home, agent, exchange(20, size=2_000))
    done = await compact_in_run(home, agent, trigger="post_step_context_check")
    assert done is not None
    assert done.stats.context_tokens_before > 20_000
    assert done.stats.context_tokens_after <= 0.7 * 20_000
    assert len(done.window) > 10
    assert len(endpoint.received) == 1
    state = await home.runtime.db.read(lambda tx: agents.state(tx, agent.id))
    assert state.conversation == done.conversation
    assert await agent.window() == done.window


async def test_what_the_provider_counts_beyond_the_estimate_takes_more_out_of_view(home: Home) -> None:
    agent = await home.create_agent(model=MODEL, context_window_limit=40_000)
    await store(home, agent, exchange(20, size=2_000))
    occasion = await occasion_of(home, agent, trigger="post_step_context_check")
    estimated, counted = choose_cut(occasion), choose_cut(structs.replace(occasion, context_tokens=70_000))
    assert estimated is not None
    assert counted is not None
    assert len(counted.evicted) > len(estimated.evicted) + 5


async def test_a_summariser_that_hangs_is_given_up(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    history = await store(home, agent, exchange(3))
    hold = threading.Event()
    endpoint.answers(Answer(text=("Half of",), hold=hold))
    occasion = await occasion_of(home, agent, mode="all")
    cut = choose_cut(occasion)
    assert cut is not None
    job = summary_job(home.runtime.models, occasion, cut)
    summary = await summarise(home.runtime.models, job, seconds=0.3)
    hold.set()
    assert [note.kind for note in summary.notes] == ["timed_out", "mechanical"]
    assert job.messages == history
    assert "question 0" in summary.text


async def test_a_compaction_that_is_cancelled_changes_nothing(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    history = await store(home, agent, exchange(3))
    hold = threading.Event()
    endpoint.answers(Answer(text=("Half of",), hold=hold))
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(compact_conversation, home.runtime, agent.id)
            await anyio.to_thread.run_sync(endpoint.asked.wait, BOUND)
            group.cancel_scope.cancel()
    hold.set()
    assert await agent.window() == history


async def test_settings_of_the_summariser_that_are_not_valid_do_not_stop_a_run(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await store(home, agent, exchange(3))
    done = await compact_in_run(home, agent, mode="all", model_settings={"temperature": "warm"})
    assert done is not None
    assert [note.kind for note in done.notes] == ["model_failed", "mechanical"]
    assert "temperature" in done.notes[0].detail
    assert endpoint.received == []


async def test_an_acknowledgement_stands_between_instruction_and_transcript(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await store(home, agent, exchange(3))
    done = await compact_in_run(home, agent, mode="all", prompt="Sum up.", prompt_acknowledgement=True)
    assert done is not None
    told = endpoint.requests()[0]["messages"]
    assert [one["role"] for one in told] == ["system", "user", "assistant", "user"]
    assert [told[0]["content"], told[1]["content"]] == ["Sum up.", "Sum up."]
    assert told[3]["content"].startswith("<transcript>")
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (100, 10)


async def test_a_count_from_before_a_compaction_is_no_anchor_after_it(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    for text in ("First.", "Second.", "Third."):
        await send(home, agent, text)
    assert (await occasion_of(home, agent)).context_tokens == 110
    endpoint.answers(Answer(text=(NOTES,)))
    await compact_conversation(home.runtime, agent.id)
    assert (await agent.window())[-1].step_id is not None
    assert (await occasion_of(home, agent)).context_tokens is None


async def test_an_agent_that_cannot_summarise_its_own_view_is_given_a_transcript(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await store(home, agent, exchange(3))
    endpoint.answers(Answer(text=()), Answer(text=(NOTES,)))
    outcome = await compact_conversation(home.runtime, agent.id, settings_override={"mode": "self_compact_all"})
    own, transcript = endpoint.requests()
    assert own["messages"][-1]["content"] == DEFAULT_PROMPTS["self_compact_all"]
    assert transcript["messages"][0]["content"] == DEFAULT_PROMPTS["all"]
    assert (outcome.summary, _kinds(outcome)) == (NOTES, ["empty_summary"])
