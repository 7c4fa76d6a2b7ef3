"""One turn: how it ends, what its calls come to, and that nothing is told before it is stored."""

import resource
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from chat_endpoint import MODEL, Answer, Asked, ChatEndpoint, insert
from runtime_rig import (
    BOUND,
    INSERT,
    assert_ended,
    assert_paired,
    contents,
    first_delta,
    open_home,
    send,
    steps_of,
    watch,
)
from runtime_rig import request as turn_request

from eunoe.embedded import Agent, Home, TurnFailed
from eunoe.state.blocks import BlockSpec
from eunoe.state.errors import Conflict, InvalidInput
from eunoe.state.events import MessageStored, RunEnded, RunStarted, StepEnded, TextDelta, ToolCallDelta
from eunoe.state.messages import ReasoningPart
from eunoe.state.rules import ContinueRule, TerminalRule

pytestmark = pytest.mark.anyio


async def test_plain_text_ends_the_turn(home: Home, scripted: Agent) -> None:
    told = await send(home, scripted, "THINK:Let me see.\nSAY:Hello there.")
    await assert_ended(home, told, "end_turn", step_count=1)
    assert [contents(message) for message in await scripted.window()] == [
        ("user", "THINK:Let me see.\nSAY:Hello there."),
        ("assistant", "Hello there."),
    ]
    assert "".join(event.text for event in told.events if isinstance(event, TextDelta)) == "Hello there."


async def test_what_a_caller_writes_into_a_window_stays_with_the_caller(home: Home, scripted: Agent) -> None:
    await send(home, scripted, "THINK:Let me see.\nSAY:Hello there.")
    stored = await scripted.window()
    given = await scripted.window()
    for message in given:
        message.meta["mine"] = True
        for part in message.parts:
            if isinstance(part, ReasoningPart) and part.provider is not None:
                part.provider["provider"] = "nobody"
    assert given != stored
    assert await scripted.window() == stored


async def test_a_turn_goes_on_after_calls_until_the_model_speaks(home: Home, scripted: Agent) -> None:
    told = await send(home, scripted, f"{INSERT}\nTHEN:\nSAY:Noted.")
    await assert_ended(home, told, "end_turn", step_count=2)
    assert (await scripted.block("human")).value == "Likes maps.\nLikes tea."
    assert [(step.ordinal, step.status, step.stop_reason) for step in await steps_of(home, told)] == [
        (0, "success", None),
        (1, "success", "end_turn"),
    ]


async def test_events_come_in_order_and_end_with_one_terminal_event(home: Home, scripted: Agent) -> None:
    told = await send(home, scripted, f"{INSERT}\nTHEN:\nSAY:Noted.")
    kinds = [type(event) for event in told.events if not isinstance(event, ToolCallDelta | TextDelta)]
    assert kinds == [
        RunStarted,
        MessageStored,
        MessageStored,
        StepEnded,
        MessageStored,
        StepEnded,
        RunEnded,
    ]
    deltas = [event for event in told.events if isinstance(event, ToolCallDelta | TextDelta)]
    said = [message.id for message in told.messages if message.role == "assistant"]
    assert list(dict.fromkeys(event.message_id for event in deltas)) == said


async def test_what_is_told_as_stored_is_committed_by_then(home: Home, scripted: Agent, tmp_path: Path) -> None:
    handle = await home.runtime.start(turn_request(scripted, f"{INSERT}\nTHEN:\nSAY:Noted."))
    with anyio.fail_after(BOUND), closing(sqlite3.connect(tmp_path / "eunoe.db")) as outside:

        def stored(table: str, key: str) -> bool:
            return outside.execute(f"SELECT 1 FROM {table} WHERE id = ?", (key,)).fetchone() is not None  # noqa: S608 - table names of this test

        async for event in handle.events():
            if isinstance(event, MessageStored):
                assert stored("messages", event.message.id)
            elif isinstance(event, StepEnded):
                assert stored("steps", event.step_id)
            elif isinstance(event, RunStarted):
                assert stored("runs", event.run_id)
            elif isinstance(event, RunEnded):
                found = outside.execute("SELECT status FROM runs WHERE id = ?", (event.run_id,)).fetchone()
                assert found == ("completed",)


@pytest.mark.parametrize("most", [1, 3])
async def test_L16_a_model_that_calls_tools_for_ever_is_stopped_at_max_steps(
    home: Home, agent: Agent, endpoint: ChatEndpoint, most: int
) -> None:
    endpoint.answers(*(Answer(calls=(insert(f"call_{number}", f"Line {number}."),)) for number in range(10)))
    told = await send(home, agent, "Go on.", max_steps=most)
    await assert_ended(home, told, "max_steps", step_count=most)
    assert len(endpoint.received) == most
    assert_paired(await agent.window())
    assert (await agent.block("human")).value.count("Line") == most


@pytest.mark.parametrize("most", [0, -1, 1001])
async def test_max_steps_out_of_bounds_is_refused_and_leaves_no_trace(home: Home, agent: Agent, most: int) -> None:
    with pytest.raises(InvalidInput, match="max_steps must be from 1 to 1000"):
        await home.runtime.start(turn_request(agent, "Hello.", max_steps=most))
    assert await agent.window() == ()


async def test_a_call_of_a_terminal_tool_ends_the_turn(home: Home) -> None:
    agent = await home.create_agent(
        model="scripted/demo",
        memory={"human": "Likes maps."},
        tool_rules=(TerminalRule(tool_name="memory_insert"), ContinueRule(tool_name="memory_replace")),
    )
    replace = 'TOOL:memory_replace {"label": "human", "old_string": "maps", "new_string": "charts"}'
    told = await send(home, agent, f"{replace}\nTHEN:\n{INSERT}\nTHEN:\nSAY:Never said.")
    await assert_ended(home, told, "tool_rule", step_count=2)
    assert (await agent.block("human")).value == "Likes charts.\nLikes tea."
    assert_paired(await agent.window())


@pytest.mark.parametrize(
    ("status", "reason", "kind", "code"),
    [
        (400, "llm_api_error", "llm_error", 400),
        (401, "llm_api_error", "llm_authentication", 401),
        (402, "insufficient_credits", "llm_insufficient_credits", 402),
        (403, "llm_api_error", "llm_permission_denied", 403),
        (408, "llm_api_error", "llm_timeout", 504),
        (429, "llm_api_error", "llm_rate_limit", 429),
        (500, "llm_api_error", "llm_error", 502),
        (503, "llm_api_error", "llm_overloaded", 503),
    ],
)
async def test_a_failing_endpoint_ends_the_run_with_its_kind(
    home: Home, scripted: Agent, status: int, reason: str, kind: str, code: int
) -> None:
    told = await send(home, scripted, f"ERROR:{status}")
    await assert_ended(home, told, reason, step_count=1)
    assert told.ended.error is not None
    assert (told.ended.error.type, told.ended.error.status) == (kind, code)
    assert [step.status for step in await steps_of(home, told)] == ["failed"]
    # The agent is as able as before.
    assert await scripted.ask("SAY:Still here.") == "Still here."


async def test_a_failure_after_calls_keeps_what_was_committed(home: Home, scripted: Agent) -> None:
    told = await send(home, scripted, f"{INSERT}\nTHEN:\nERROR:500")
    await assert_ended(home, told, "llm_api_error", step_count=2)
    assert (await scripted.block("human")).value == "Likes maps.\nLikes tea."
    assert_paired(await scripted.window())


async def test_a_context_overflow_told_by_the_endpoint_says_so(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    words = "This model's maximum context length is 8192 tokens."
    endpoint.answers(Answer(status=400, message=words))
    told = await send(home, agent, "Hello.")
    await assert_ended(home, told, "llm_api_error", step_count=1)
    assert told.ended.error is not None
    assert words in (told.ended.error.detail or "")


async def test_a_stream_that_is_cut_ends_the_run_as_an_error(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    endpoint.answers(Answer(text=("Half an ",), cut=True))
    told = await send(home, agent, "Hello.")
    await assert_ended(home, told, "llm_api_error", step_count=1)
    assert len(endpoint.received) == 1
    assert told.ended.error is not None
    assert "ended before the answer was complete" in (told.ended.error.detail or "")
    assert await agent.ask("Again.") == "Fine."


async def test_L21_an_empty_answer_is_not_stored_and_the_next_turn_works(home: Home, scripted: Agent) -> None:
    told = await send(home, scripted, "EMPTY:")
    await assert_ended(home, told, "invalid_llm_response", step_count=1)
    assert told.ended.error is not None
    assert told.ended.error.type == "llm_empty_response"
    assert [message.role for message in await scripted.window()] == ["user"]
    assert await scripted.ask("SAY:Now then.") == "Now then."


async def test_an_answer_that_ran_out_of_tokens_is_kept_and_told(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    endpoint.answers(Answer(text=("Once upon a",), finish="length"))
    told = await send(home, agent, "A story.")
    await assert_ended(home, told, "max_tokens_exceeded", step_count=1)
    assert contents((await agent.window())[-1]) == ("assistant", "Once upon a")


async def test_a_prompt_larger_than_the_window_makes_no_request(home: Home, endpoint: ChatEndpoint) -> None:
    blocks = (BlockSpec(label="human", value="x" * 30_000), BlockSpec(label="persona", value="y" * 5_000))
    agent = await home.create_agent(model=MODEL, memory=blocks, context_window_limit=4_000)
    told = await send(home, agent, "Hello.")
    await assert_ended(home, told, "context_window_overflow_in_system_prompt", step_count=0)
    assert endpoint.received == []
    assert told.ended.error is not None
    named = [part.split(" ")[0] for part in (told.ended.error.detail or "").split(", ")]
    assert named[:3] == ["memory_blocks", "block:human", "block:persona"]
    # What to do is in the message; once done, the agent answers.
    await agent.update_block("human", value="Short.")
    assert await agent.ask("Hello?") == "Fine."


async def test_a_turn_that_failed_raises_for_who_asks(scripted: Agent) -> None:
    with pytest.raises(TurnFailed, match="Authentication failed") as failed:
        await scripted.ask("ERROR:401")
    assert failed.value.details["stop_reason"] == "llm_api_error"


async def test_several_calls_get_their_own_results_in_order(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    search = Asked("call_search", "conversation_search", '{"query": "zebra"}')
    endpoint.answers(Answer(calls=(insert("call_a", "A."), search, insert("call_b", "B.", "persona"))))
    told = await send(home, agent, "Find the zebra.")
    assert [(part.tool_call_id, part.name, part.status) for part in told.returns] == [
        ("call_a", "memory_insert", "success"),
        ("call_search", "conversation_search", "success"),
        ("call_b", "memory_insert", "success"),
    ]
    assert "A." in told.returns[0].content
    assert "zebra" in told.returns[1].content
    assert "B." in told.returns[2].content
    sent = endpoint.requests()[1]["messages"]
    assert [message.get("tool_call_id") for message in sent[-3:]] == ["call_a", "call_search", "call_b"]
    assert [message["content"] for message in sent[-3:]] == [part.content for part in told.returns]


async def test_parallel_edits_of_one_block_in_one_step_are_both_kept(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    endpoint.answers(Answer(calls=tuple(insert(f"call_{number}", f"Line {number}.") for number in range(5))))
    await send(home, agent, "Five lines.")
    assert (await agent.block("human")).value.split("\n") == [
        "Likes maps.",
        *(f"Line {number}." for number in range(5)),
    ]
    assert (await agent.block("human")).revision == 6


async def test_an_edit_that_fails_leaves_the_others_of_its_step(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    await agent.update_block("persona", read_only=True)
    missing = Asked("call_b", "memory_replace", '{"label": "human", "old_string": "cars", "new_string": "bikes"}')
    endpoint.answers(Answer(calls=(insert("call_a", "A."), missing, insert("call_c", "C.", "persona"))))
    told = await send(home, agent, "Edit.")
    assert [part.status for part in told.returns] == ["success", "error", "error"]
    assert "read-only" in told.returns[2].content
    assert (await agent.block("human")).value == "Likes maps.\nA."
    assert (await agent.block("persona")).value == "Kind."


@pytest.mark.parametrize("ids", [("call_1", "call_1"), ("", ""), ("call_old", "call_old")])
async def test_call_ids_that_are_empty_or_repeated_are_made_unique(
    home: Home, agent: Agent, endpoint: ChatEndpoint, ids: tuple[str, str]
) -> None:
    endpoint.answers(Answer(calls=(insert("call_old", "Old."),)))
    await send(home, agent, "First.")
    endpoint.answers(Answer(calls=(insert(ids[0], "A."), insert(ids[1], "B.", "persona"))))
    told = await send(home, agent, "Second.")
    window = await agent.window()
    assert_paired(window)
    called = [call.id for message in window for call in message.tool_calls]
    assert len(called) == 3
    assert len(set(called)) == 3
    assert all(called)
    assert [part.tool_call_id for part in told.returns] == called[1:]
    assert ["A." in told.returns[0].content, "B." in told.returns[1].content] == [True, True]


@pytest.mark.parametrize("arguments", ["{not json", "[1, 2]", '"text"', '{"label": "human"'])
async def test_arguments_that_are_no_json_object_are_told_to_the_model(
    home: Home, agent: Agent, endpoint: ChatEndpoint, arguments: str
) -> None:
    calls = (Asked("call_a", "memory_insert", arguments), Asked("call_b", "conversation_search", arguments))
    endpoint.answers(Answer(calls=calls))
    told = await send(home, agent, "Edit.")
    await assert_ended(home, told, "end_turn", step_count=2)
    assert [part.status for part in told.returns] == ["error", "error"]
    assert "are not a JSON object" in told.returns[0].content
    assert (await agent.block("human")).revision == 1


async def test_a_tool_that_is_not_the_agents_is_an_error_that_names_those_that_are(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    endpoint.answers(Answer(calls=(Asked("call_a", "rm_rf"), Asked("call_b", "send_message", '{"message": "Hi"}'))))
    told = await send(home, agent, "Do it.")
    assert [(part.status, part.name) for part in told.returns] == [("error", "rm_rf"), ("error", "send_message")]
    assert told.returns[0].content == (
        "There is no tool 'rm_rf'. Available tools: conversation_search, memory_insert, memory_replace."
    )


async def test_arguments_without_bottom_are_an_error_that_the_model_reads(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    endpoint.answers(Answer(calls=(Asked("call_a", "memory_insert", '{"label":' * 100_000),)), Answer(text=("Sorry.",)))
    told = await send(home, agent, "Do it.")
    assert [(part.status, part.content) for part in told.returns] == [
        (
            "error",
            "The arguments of memory_insert are not a JSON object (nested too deeply). Call it again with valid JSON.",
        )
    ]
    assert told.ended.stop_reason == "end_turn"


async def test_a_disk_that_fills_in_the_middle_of_a_turn_is_named_as_its_end(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("Wait. ", "x" * 100_000), hold=hold))
    handle = await home.runtime.start(turn_request(agent, "Talk."))
    await first_delta(handle)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(file.stat().st_size for file in home.runtime.settings.home.iterdir() if file.is_file())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        hold.set()
        told = await watch(handle)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert told.ended.error is not None
    assert (told.ended.error.status, told.ended.error.type) == (503, "internal_error")
    assert "Nothing of this change was stored" in told.ended.error.message
    assert (await send(home, agent, "SAY:Hello.")).ended.stop_reason == "end_turn"


async def test_a_store_that_takes_no_write_at_its_opening_says_so_by_one_error(tmp_path: Path) -> None:
    async with open_home(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "eunoe.db")) as store:
        store.execute("CREATE TRIGGER full BEFORE INSERT ON tools BEGIN SELECT RAISE(ABORT, 'no more'); END")
        store.execute("DELETE FROM tools")
        store.commit()
    with pytest.raises(Conflict, match="no more"):
        async with open_home(tmp_path):
            pytest.fail("the store was opened")


async def test_a_tools_edit_is_made_on_what_an_api_edit_left_meanwhile(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    hold = threading.Event()
    replace = Asked("call_b", "memory_replace", '{"label": "persona", "old_string": "Kind.", "new_string": "Stern."}')
    endpoint.answers(Answer(text=("Wait. ",), calls=(insert("call_a", "By tool."), replace), hold=hold))
    handle = await home.runtime.start(turn_request(agent, "Edit."))
    await first_delta(handle)
    await agent.update_block("human", value="By hand.")
    await agent.update_block("persona", value="Gone.")
    hold.set()
    told = await watch(handle)
    assert (await agent.block("human")).value == "By hand.\nBy tool."
    # An edit that no longer fits is an error for the model; it never undoes what the person wrote.
    assert [part.status for part in told.returns] == ["success", "error"]
    assert (await agent.block("persona")).value == "Gone."


async def test_usage_adds_up_over_the_steps(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    endpoint.answers(Answer(calls=(insert("call_a", "A."),)))
    told = await send(home, agent, "Edit.")
    assert (told.ended.usage.prompt_tokens, told.ended.usage.completion_tokens) == (200, 20)
    assert told.ended.context_tokens == 110


@pytest.mark.slow
async def test_an_endpoint_that_cannot_be_reached_is_named_with_the_variable_that_sets_it(tmp_path: Path) -> None:
    async with open_home(tmp_path / "store", {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}) as home:
        agent = await home.create_agent(model=MODEL)
        told = await send(home, agent, "Hello.")
        await assert_ended(home, told, "llm_api_error", step_count=1)
        assert told.ended.error is not None
        assert told.ended.error.status == 502
        assert "http://127.0.0.1:9/v1/chat/completions" in (told.ended.error.detail or "")
        assert "OPENAI_BASE_URL" in (told.ended.error.detail or "")


async def test_an_answer_that_is_none_ends_the_run_as_an_invalid_response(
    home: Home, agent: Agent, endpoint: ChatEndpoint
) -> None:
    endpoint.answers(Answer(raw=b"data: <html>Sign in</html>\n\n"))
    told = await send(home, agent, "Hello.")
    await assert_ended(home, told, "invalid_llm_response", step_count=1)
    assert told.ended.error is not None
    assert "not an answer" in (told.ended.error.detail or "")
    assert await agent.ask("Hello?") == "Fine."
