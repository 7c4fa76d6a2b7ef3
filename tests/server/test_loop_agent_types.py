"""The kinds of agent of the wire that differ in tools, rules and prompt, each through a turn by the official client."""

from typing import Any

import pytest
from letta_client import Letta
from loop_rig import new_agent, say

pytestmark = pytest.mark.slow

SPEAK = 'TOOL:send_message {"message":"Hello there."}\nTHEN:\nSAY:too far'


def shown(messages: Any) -> list[tuple[str, Any]]:
    return [(str(message.message_type), getattr(message, "content", None)) for message in messages]


@pytest.mark.parametrize("agent_type", ["memgpt_agent", "memgpt_v2_agent"])
def test_an_agent_that_speaks_by_its_tool_ends_its_turn_with_what_it_said(client: Letta, agent_type: str) -> None:
    agent_id = new_agent(client, agent_type=agent_type)
    answer = client.agents.messages.create(agent_id, input=SPEAK)
    assert (answer.stop_reason.stop_reason, answer.usage.step_count) == ("tool_rule", 1)
    assert ("assistant_message", "Hello there.") in shown(answer.messages)
    listed = shown(client.agents.messages.list(agent_id, order="asc"))
    assert listed[:3] == [listed[0], ("user_message", SPEAK), ("assistant_message", "Hello there.")]
    assert say(client, agent_id, SPEAK)[0].content == "Hello there."


@pytest.mark.parametrize("agent_type", ["memgpt_agent", "memgpt_v2_agent"])
def test_an_agent_that_speaks_by_its_tool_goes_on_after_an_edit_of_its_memory(client: Letta, agent_type: str) -> None:
    agent_id = new_agent(client, agent_type=agent_type, tools=["memory_insert"])
    edit = 'TOOL:memory_insert {"label":"human","new_string":"Likes tea."}'
    answer = client.agents.messages.create(agent_id, input=f"{edit}\nTHEN:\n{SPEAK}")
    assert (answer.stop_reason.stop_reason, answer.usage.step_count) == ("tool_rule", 2)
    assert client.agents.blocks.retrieve("human", agent_id=agent_id).value == "Likes maps.\nLikes tea."


def test_an_agent_that_tends_memory_ends_its_turn_when_it_says_that_it_is_done(client: Letta) -> None:
    agent_id = new_agent(client, agent_type="sleeptime_agent")
    edit = 'TOOL:memory_rethink {"label":"human","new_memory":"Likes tea."}'
    answer = client.agents.messages.create(
        agent_id, input=f"{edit}\nTHEN:\nTOOL:memory_finish_edits {{}}\nTHEN:\nSAY:x"
    )
    assert (answer.stop_reason.stop_reason, answer.usage.step_count) == ("tool_rule", 2)
    assert client.agents.blocks.retrieve("human", agent_id=agent_id).value == "Likes tea."


@pytest.mark.parametrize("agent_type", ["react_agent", "workflow_agent", "letta_v1_agent"])
def test_an_agent_that_speaks_by_text_ends_its_turn_by_it(client: Letta, agent_type: str) -> None:
    agent_id = new_agent(client, agent_type=agent_type, tools=["conversation_search"])
    look = 'TOOL:conversation_search {"query":"tea"}'
    answer = client.agents.messages.create(agent_id, input=f"{look}\nTHEN:\nSAY:Found.")
    assert (answer.stop_reason.stop_reason, answer.usage.step_count) == ("end_turn", 2)
    assert shown(answer.messages)[-1] == ("assistant_message", "Found.")
