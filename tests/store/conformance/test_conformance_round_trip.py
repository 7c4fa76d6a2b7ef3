"""Every field of every stored type comes back as it was given.

Each example sets every field to something that is not its default, and the test says so: a field that is added to a
type without a column fails here.
"""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs
from store_examples import LATER, NOW, Store, a_conversation, an_agent, stored_conversation

from eunoe.state.agents import Agent
from eunoe.state.blocks import Block
from eunoe.state.conversations import Compiled, Conversation, PromptFacts
from eunoe.state.errors import InvalidInput, StoreError
from eunoe.state.messages import (
    ApprovalPart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from eunoe.state.rules import ApprovalRule, ChildArgs, ChildRule, ConditionalRule, MaxCountRule
from eunoe.state.tools import Tool
from eunoe.store import agents, blocks, conversations, full_text, messages, tools
from eunoe.store.cipher import Cipher
from eunoe.store.rows import micros, moment

LONGEST_OFFSET = timedelta(hours=23, minutes=59)

JSON: dict[str, Any] = {"nested": {"list": [1, 2.5, None, True, "ü\u2028\U0001f600"]}}


def assert_nothing_is_default(thing: msgspec.Struct, *but: str) -> None:
    for field in structs.fields(thing):
        if field.name not in but and not field.required:
            assert getattr(thing, field.name) != field.default, field.name
            assert getattr(thing, field.name) not in ({}, ()), field.name


def test_agent(store: Store) -> None:
    agent = Agent(
        id="agent-1",
        name="Ada 'quoted' \"twice\"",
        created_at=NOW,
        updated_at=LATER,
        system="You are Ada.\n{CORE_MEMORY}",
        model="scripted/demo",
        agent_type="memgpt_v2_agent",
        embedding="openai/e",
        context_window=32_000,
        context_window_pinned=True,
        model_settings=JSON,
        compaction_settings=JSON,
        response_format=JSON,
        description="d",
        metadata=JSON,
        tool_rules=(
            ApprovalRule(tool_name="a"),
            ChildRule(tool_name="b", children=("c",), child_arg_nodes=(ChildArgs(name="c", args=JSON),)),
            ConditionalRule(tool_name="d", child_output_mapping={"1": "c"}, default_child="c"),
            MaxCountRule(tool_name="e", max_count_limit=3, prompt_template="p"),
        ),
        tags=("b", "a", "b"),
        timezone="Europe/Paris",
        message_buffer_autoclear=True,
        enable_sleeptime=False,
        hidden=True,
        max_files_open=3,
        per_file_view_window_char_limit=4,
        last_stop_reason="end_turn",
        last_run_completion=LATER,
        last_run_duration_ms=2**40,
        revision=7,
        memory_refresh="append",
        extra=JSON,
    )
    assert_nothing_is_default(agent)
    store.write(agents.insert, agent)
    assert store.read(agents.get, agent.id) == agent


def test_block(store: Store) -> None:
    block = Block(
        id="block-1",
        label="human",
        value="ü\u2028\U0001f600\r\n\t ",
        created_at=NOW,
        updated_at=LATER,
        limit=5,
        description="",
        read_only=True,
        hidden=True,
        metadata=JSON,
        tags=("b", "a"),
        revision=3,
        extra=JSON,
    )
    assert_nothing_is_default(block)
    store.write(blocks.insert, block)
    assert store.read(blocks.get, block.id) == block


def test_conversation(store: Store) -> None:
    agent = an_agent()
    store.write(agents.insert, agent)
    conversation = Conversation(
        id="conv-1",
        agent_id=agent.id,
        is_default=True,
        system_message_id="message-0",
        created_at=NOW,
        updated_at=LATER,
        summary="s",
        model="scripted/other",
        model_settings={},
        compiled=Compiled(
            hash="h", system_hash="s", memory_revision="m", inputs_hash="i", facts=PromptFacts(compiled_at=NOW)
        ),
        window_from=2000,
        summary_message_id="message-1",
        next_position=5000,
        fence=3,
        lease_run_id="run-1",
        lease_owner="owner",
        lease_expires_at=LATER,
        last_message_at=NOW,
    )
    assert_nothing_is_default(conversation, "model_settings")
    store.write(conversations.insert, conversation)
    assert store.read(conversations.get, conversation.id) == conversation


def test_message(store: Store) -> None:
    conversation = store.write(stored_conversation)
    message = Message(
        id="message-1",
        agent_id=conversation.agent_id,
        conversation_id=conversation.id,
        role="assistant",
        parts=(
            TextPart(text="ü\u2028", provider=JSON),
            ImagePart(url="u", data="d", media_type="image/png", detail="low"),
            ReasoningPart(text="r", signature="s", redacted="x", provider=JSON),
            ToolCallPart(id="c", name="f", arguments='{"a":  1}', provider=JSON),
            ToolReturnPart(tool_call_id="c", name="f", content="", status="error", stdout=("o",), stderr=("e",)),
            ApprovalPart(tool_call_id="c", approve=False, reason="no"),
        ),
        created_at=NOW - timedelta(days=400),
        otid="o",
        name="n",
        sender_id="s",
        group_id="g",
        run_id="run-1",
        step_id="step-1",
        model="demo",
        needs_approval=("c",),
        meta=JSON,
    )
    assert_nothing_is_default(message, "seq", "position")
    (stored,) = store.write(messages.append, conversation.id, [message], NOW)
    assert stored == structs.replace(message, seq=1, position=1000)
    assert store.read(messages.get, message.id) == stored


def test_tool(store: Store) -> None:
    tool = Tool(
        id="tool-1",
        name="add",
        created_at=NOW,
        updated_at=LATER,
        tool_type="letta_core",
        description="d",
        source_type="python",
        source_code="def add(): ...",
        json_schema=JSON,
        args_json_schema=JSON,
        tags=("t",),
        return_char_limit=1,
        pip_requirements=({"name": "x"},),
        npm_requirements=({"name": "y"},),
        default_requires_approval=False,
        enable_parallel_execution=True,
        metadata=JSON,
    )
    assert_nothing_is_default(tool)
    store.write(tools.insert, tool)
    assert store.read(tools.get, tool.id) == tool


def test_i03_preset_messages_keep_their_order_and_times(store: Store) -> None:
    conversation = a_conversation(store.write(stored_conversation).agent_id, is_default=False)
    store.write(conversations.insert, conversation)
    preset = [
        Message(
            id=f"message-{index}",
            agent_id=conversation.agent_id,
            conversation_id=conversation.id,
            role="user",
            parts=(TextPart(text=f"preset {index}"),),
            created_at=NOW - timedelta(days=index),
        )
        for index in range(3)
    ]
    store.write(messages.append, conversation.id, preset, NOW)
    window = store.read(conversations.window, conversation)
    assert [(message.text, message.created_at) for message in window] == [
        (f"preset {index}", NOW - timedelta(days=index)) for index in range(3)
    ]
    store.write(full_text.catch_up)
    found = store.read(messages.search, conversation.agent_id, "preset 1")
    assert [message.id for message in found] == ["message-1"]


def test_a_time_without_an_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="has no offset from UTC"):
        micros(NOW.replace(tzinfo=None))


def test_a_key_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(StoreError, match="has 31 bytes; it must have 32"):
        Cipher(b"k" * 31)


@given(st.datetimes(timezones=st.timezones() | st.builds(timezone, st.timedeltas(-LONGEST_OFFSET, LONGEST_OFFSET))))
@example(datetime.max.replace(tzinfo=UTC))
@example(datetime.max.replace(tzinfo=timezone(-LONGEST_OFFSET)))
@example(datetime.min.replace(tzinfo=UTC))
@example(datetime.min.replace(tzinfo=timezone(LONGEST_OFFSET)))
@example(datetime(2000, 10, 29, 1, tzinfo=ZoneInfo("America/Atka")))
def test_a_time_is_refused_or_can_be_read_back_and_told_in_every_zone(given_time: datetime) -> None:
    try:
        stored = micros(given_time)
    except InvalidInput:
        assert given_time.year in {1, 9999}
        return
    # In UTC, because Python holds a time that a clock shows twice for unequal to all times of other zones (PEP 495).
    given_moment = given_time.astimezone(UTC)
    assert moment(stored) == given_moment
    for offset in (-LONGEST_OFFSET, LONGEST_OFFSET):
        assert moment(stored).astimezone(timezone(offset)) == given_moment
