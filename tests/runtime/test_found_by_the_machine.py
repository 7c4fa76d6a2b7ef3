"""What the state machine found, each as a short story."""

import pytest
from compaction_rig import exchange, store
from crash_orders import user
from runtime_rig import INSERT, Told, request, run_of, send, watch

from eunoe.embedded import Agent, Home
from eunoe.runtime.agents import reset_messages
from eunoe.runtime.approvals import Reply
from eunoe.runtime.compaction_call import compact_conversation
from eunoe.runtime.conversations import ConversationSpec, create_conversation, delete_conversation, fork_conversation
from eunoe.runtime.turn import TurnRequest
from eunoe.state.errors import InvalidInput
from eunoe.state.messages import ApprovalPart, Message, NewMessage, TextPart
from eunoe.state.rules import ApprovalRule
from eunoe.store import approvals, conversations

pytestmark = pytest.mark.anyio


async def _asking(home: Home) -> tuple[Agent, Told]:
    """An agent that waits for an answer about an edit of its memory."""
    agent = await home.create_agent(
        model="scripted/demo", memory={"human": "Likes maps."}, tool_rules=(ApprovalRule(tool_name="memory_insert"),)
    )
    told = await send(home, agent, f"{INSERT}\nTHEN:\nSAY:Noted.")
    assert told.ended.stop_reason == "requires_approval"
    return agent, told


async def _window(home: Home, conversation_id: str) -> tuple[Message, ...]:
    return await home.runtime.db.read(lambda tx: conversations.window(tx, conversations.get(tx, conversation_id)))


async def test_a_call_that_is_closed_in_a_fork_is_closed_by_a_message_of_the_fork(home: Home) -> None:
    agent, told = await _asking(home)
    fork = await fork_conversation(home.runtime, agent.id)
    closing = (await _window(home, fork.id))[-1]
    assert [part.status for part in closing.tool_returns] == ["error"]
    assert closing.conversation_id == fork.id
    assert (await agent.window())[-1].id == told.messages[-1].id


async def test_a_fork_below_a_summary_keeps_it_when_its_source_is_deleted(home: Home, scripted: Agent) -> None:
    answer = NewMessage(role="assistant", parts=(TextPart(text="Hello."),))
    spec = ConversationSpec(agent_id=scripted.id, messages=(user("SAY:Hello."), answer) * 8)
    source = await create_conversation(home.runtime, spec)
    await compact_conversation(home.runtime, scripted.id, source.id)
    window = await _window(home, source.id)
    assert window[0].role == "summary"
    fork = await fork_conversation(home.runtime, scripted.id, source.id, at_message_id=window[2].id)
    await delete_conversation(home.runtime, source.id)
    assert [message.id for message in await _window(home, fork.id)] == [message.id for message in window[:3]]
    told = await send(home, scripted, "SAY:on", conversation_id=fork.id)
    assert told.messages[-1].text == "on"


async def test_a_request_that_began_with_a_summary_is_told_to_be_incomplete_after_a_reset(
    home: Home, scripted: Agent
) -> None:
    await store(home, scripted, exchange(10))
    await compact_conversation(home.runtime, scripted.id)
    told = await send(home, scripted, "SAY:on")
    step_id = told.messages[-1].step_id
    assert step_id is not None
    assert (await scripted.request_of(step_id)).verified
    await reset_messages(home.runtime, scripted.id)
    replayed = await scripted.request_of(step_id)
    assert not replayed.verified
    assert replayed.note is not None
    assert "deleted" in replayed.note


@pytest.mark.parametrize("by_message", [True, False])
async def test_L11_the_same_denial_twenty_times_is_one_denial(home: Home, *, by_message: bool) -> None:
    agent, told = await _asking(home)
    asked = told.messages[-1]
    denial = ApprovalPart(tool_call_id=asked.tool_calls[0].id, approve=False, reason="No.")
    reply = Reply(all_calls=denial, request_id=asked.id) if by_message else Reply(answers=(denial,))
    request_again = TurnRequest(agent_id=agent.id, reply=reply)
    first = await watch(await home.runtime.start(request_again))
    window = await agent.window()
    for _ in range(19):
        again = await home.runtime.start(request_again)
        assert again.run_id == first.ended.run_id
        assert (await again.wait()).stop_reason == "end_turn"
    assert await agent.window() == window
    assert [message.role for message in window] == ["user", "assistant", "approval", "tool", "assistant"]


async def test_an_answer_that_comes_too_late_is_refused_and_the_next_message_works(home: Home) -> None:
    agent, told = await _asking(home)
    await home.runtime.db.write(lambda tx: tx.execute("UPDATE approvals SET expires_at = 1"))
    late = ApprovalPart(tool_call_id=told.messages[-1].tool_calls[0].id, approve=True)
    with pytest.raises(InvalidInput, match="No tool call is currently awaiting approval"):
        await home.runtime.start(TurnRequest(agent_id=agent.id, reply=Reply(answers=(late,))))
    assert (await send(home, agent, "SAY:on")).messages[-1].text == "on"
    assert (await agent.block("human")).value == "Likes maps."


async def test_an_approval_that_comes_after_the_calls_were_denied_for_a_message_is_refused(home: Home) -> None:
    agent, told = await _asking(home)
    went_on = await watch(await home.runtime.start(request(agent, "SAY:on", on_pending="deny_and_continue")))
    assert went_on.ended.stop_reason == "end_turn"
    late = ApprovalPart(tool_call_id=told.messages[-1].tool_calls[0].id, approve=True)
    with pytest.raises(InvalidInput, match="No tool call is currently awaiting approval"):
        await home.runtime.start(TurnRequest(agent_id=agent.id, reply=Reply(answers=(late,))))
    asked = await run_of(home, told)
    closed = await home.runtime.db.read(lambda tx: approvals.open_of(tx, asked.conversation_id))
    assert closed is None
