"""Creating, changing, resetting and deleting agents: defaults, checks, and nothing half done (I13, I14)."""

import logging
import re
import threading
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from chat_endpoint import MODEL, Answer, ChatEndpoint
from msgspec import UNSET, structs
from runtime_rig import BOUND, contents, first_delta, open_home, request, rows, send

from eunoe.embedded import Agent, Home
from eunoe.runtime.agents import attach_tool, detach_tool, reset_messages
from eunoe.runtime.conversations import ConversationSpec, create_conversation
from eunoe.runtime.recompile import recompile
from eunoe.runtime.runtime import utc_now
from eunoe.state.agents import DEFAULT_AGENT_TYPE, AgentChanges, AgentType
from eunoe.state.blocks import DEFAULT_DESCRIPTIONS, BlockSpec
from eunoe.state.errors import BlockLimitExceeded, ConversationBusy, EunoeError, InvalidInput, LabelTaken, NotFound
from eunoe.state.identities import Identity
from eunoe.state.ids import named_id, new_id
from eunoe.state.messages import NewMessage, TextPart
from eunoe.state.rules import ApprovalRule, ContinueRule, MaxCountRule, TerminalRule
from eunoe.state.tools import Tool
from eunoe.store import blocks, identities, messages, secrets, tools
from eunoe.store.messages import MessageQuery

pytestmark = pytest.mark.anyio

_TYPES: Final[dict[AgentType, tuple[tuple[str, ...], bool, bool]]] = {
    "letta_v1_agent": (("conversation_search", "memory_insert", "memory_replace"), False, True),
    "memgpt_v2_agent": (("send_message", "conversation_search", "memory_insert", "memory_replace"), True, True),
    "memgpt_agent": (
        (
            "send_message",
            "conversation_search",
            "core_memory_append",
            "core_memory_replace",
            "memory",
            "memory_apply_patch",
        ),
        True,
        True,
    ),
    "sleeptime_agent": (("memory_replace", "memory_insert", "memory_rethink", "memory_finish_edits"), True, True),
    "react_agent": ((), False, False),
    "workflow_agent": ((), False, False),
}
"""By type: the tools, whether they bring rules, and whether memory is shown."""


def _tool(name: str, **fields: Any) -> Tool:
    now = utc_now()
    return Tool(id=new_id("tool"), name=name, created_at=now, updated_at=now, json_schema={"name": name}, **fields)


async def _store_tool(home: Home, name: str, **fields: Any) -> Tool:
    tool = _tool(name, **fields)
    await home.runtime.db.write(lambda tx: tools.insert(tx, tool))
    return tool


async def _store_identity(home: Home, key: str) -> Identity:
    now = utc_now()
    identity = Identity(
        id=new_id("identity"), identifier_key=key, name=key, identity_type="user", created_at=now, updated_at=now
    )
    await home.runtime.db.write(lambda tx: identities.insert(tx, identity))
    return identity


@pytest.mark.parametrize("agent_type", list(_TYPES))
async def test_each_type_has_its_defaults(tmp_path: Path, agent_type: AgentType) -> None:
    names, ruled, shown = _TYPES[agent_type]
    async with open_home(tmp_path) as home:
        agent = await home.create_agent(model="scripted/demo", agent_type=agent_type, memory={"human": "Likes maps."})
        state = await agent.state()
        assert tuple(tool.name for tool in state.tools) == names
        assert bool(state.agent.tool_rules) is ruled
        assert {rule.tool_name for rule in state.agent.tool_rules} == (set(names) if ruled else set())
        assert ("<memory_blocks>" in await agent.prompt()) is shown
        assert state.agent.system.strip()
        assert (await agent.verify()).ok


async def test_what_is_not_named_gets_a_default_that_is_stored(home: Home) -> None:
    agent = await home.create_agent(model="scripted/demo", memory={"human": "", "persona": "", "plans": ""})
    state = await agent.state()
    assert state.agent.agent_type == DEFAULT_AGENT_TYPE
    assert state.agent.name == f"agent-{agent.id[-8:]}"
    assert (state.agent.timezone, state.agent.tags, state.agent.hidden) == ("UTC", (), False)
    assert (state.agent.context_window, state.agent.context_window_pinned) == (128_000, False)
    descriptions = {block.label: block.description for block in state.blocks}
    assert descriptions == {**DEFAULT_DESCRIPTIONS, "plans": None}
    assert state.conversation.is_default
    assert state.conversation.compiled is not None


async def test_rules_of_the_creator_win_over_those_that_tools_bring(home: Home) -> None:
    careful = await _store_tool(home, "careful", default_requires_approval=True)
    agent = await home.create_agent(
        model="scripted/demo",
        agent_type="memgpt_v2_agent",
        tools=("careful",),
        tool_rules=(ContinueRule(tool_name="send_message"),),
    )
    state = await agent.state()
    assert state.tools[0].id == careful.id
    assert [rule for rule in state.agent.tool_rules if rule.tool_name == "send_message"] == [
        ContinueRule(tool_name="send_message")
    ]
    assert ApprovalRule(tool_name="careful") in state.agent.tool_rules
    assert TerminalRule(tool_name="send_message") not in state.agent.tool_rules


async def test_initial_messages_are_the_window_in_their_order(home: Home, endpoint: ChatEndpoint) -> None:
    agent = await home.create_agent(
        model=MODEL,
        initial_messages=(
            NewMessage(role="user", parts=(TextPart(text="Earlier."),)),
            NewMessage(role="assistant", parts=(TextPart(text="Indeed."),)),
        ),
    )
    assert [contents(message) for message in await agent.window()] == [("user", "Earlier."), ("assistant", "Indeed.")]
    await agent.ask("Now.")
    assert [message["content"] for message in endpoint.requests()[0]["messages"][1:]] == ["Earlier.", "Indeed.", "Now."]


_REFUSED: Final[dict[str, tuple[dict[str, Any], type[EunoeError]]]] = {
    "blank name": ({"name": "  "}, InvalidInput),
    "name of two lines": ({"name": "a\nb"}, InvalidInput),
    "name too long": ({"name": "a" * 256}, InvalidInput),
    "name with a control character": ({"name": "a\x00b"}, InvalidInput),
    "system too long": ({"system": "a" * 1_000_001}, InvalidInput),
    "unknown time zone": ({"timezone": "Europe/Atlantis"}, InvalidInput),
    "time zone that is a path": ({"timezone": "../../etc/passwd"}, InvalidInput),
    "window of nothing": ({"context_window_limit": 0}, InvalidInput),
    "window too large": ({"context_window_limit": 100_000_001}, InvalidInput),
    "handle without provider": ({"model": "demo"}, InvalidInput),
    "provider that is not configured": ({"model": "groq/llama"}, NotFound),
    "model that the endpoint lacks": ({"model": "openai/gpt-other"}, NotFound),
    "unknown tool": ({"tools": ("no_such_tool",)}, InvalidInput),
    "unknown tool id": ({"tool_ids": (new_id("tool"),)}, NotFound),
    "unknown block": ({"block_ids": (new_id("block"),)}, NotFound),
    "unknown identity": ({"identity_ids": (new_id("identity"),)}, NotFound),
    "two blocks of one label": (
        {"memory": (BlockSpec(label="human", value="a"), BlockSpec(label="human", value="b"))},
        LabelTaken,
    ),
    "value over its limit": (
        {"memory": (BlockSpec(label="human", value="a"), BlockSpec(label="plans", value="a" * 11, limit=10))},
        BlockLimitExceeded,
    ),
    "blank label": ({"memory": {"human": "a", " ": "b"}}, InvalidInput),
    "control character in a value": ({"memory": {"human": "a", "plans": "b\x00"}}, InvalidInput),
}


@pytest.mark.parametrize("name", list(_REFUSED))
async def test_a_creation_that_is_refused_leaves_nothing_behind(home: Home, tmp_path: Path, name: str) -> None:
    fields, kind = _REFUSED[name]
    before = rows(tmp_path)
    given: dict[str, Any] = {"model": MODEL, "memory": {"human": "Likes maps."}, "secrets": {"KEY": "value"}}
    with pytest.raises(kind) as refused:
        await home.create_agent(**(given | fields))
    assert type(refused.value) is kind
    assert rows(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"name": ""}, InvalidInput),
        ({"timezone": "Nowhere"}, InvalidInput),
        ({"context_window_limit": -1}, InvalidInput),
        ({"model": "demo"}, InvalidInput),
        ({"model": "openai/gpt-other"}, NotFound),
        ({"tool_ids": (new_id("tool"),)}, NotFound),
        ({"block_ids": (new_id("block"),)}, NotFound),
        ({"identity_ids": (new_id("identity"),)}, NotFound),
    ],
)
async def test_an_update_that_is_refused_changes_nothing(
    agent: Agent, tmp_path: Path, changes: dict[str, Any], kind: type[EunoeError]
) -> None:
    before = rows(tmp_path)
    with pytest.raises(kind):
        await agent.update(**({"description": "Changed.", "secrets": {"A": "b"}} | changes))
    assert rows(tmp_path) == before


async def test_an_update_changes_the_named_fields_only(agent: Agent) -> None:
    before = (await agent.state()).agent
    values: dict[str, Any] = {
        "name": "Grace",
        "description": "An agent.",
        "metadata": {"a": 1},
        "tags": ("x", "y"),
        "timezone": "Europe/Rome",
        "message_buffer_autoclear": True,
        "hidden": True,
        "response_format": {"type": "text"},
        "tool_rules": (MaxCountRule(tool_name="memory_insert", max_count_limit=2),),
    }
    for name, value in values.items():
        after = (await agent.update(**{name: value})).agent
        same = structs.replace(
            after, updated_at=before.updated_at, revision=before.revision, **{name: getattr(before, name)}
        )
        assert same == before, name
        assert getattr(after, name) == value
        assert after.revision == before.revision + 1
        before = after
    assert set(structs.asdict(AgentChanges()).values()) == {UNSET}


async def test_an_update_to_what_is_already_there_is_no_change(home: Home, agent: Agent, tmp_path: Path) -> None:
    state = await agent.state()
    before = rows(tmp_path)
    await agent.update(
        name=state.agent.name,
        system=state.agent.system,
        tags=state.agent.tags,
        block_ids=tuple(block.id for block in state.blocks),
        tool_ids=tuple(tool.id for tool in state.tools),
    )
    assert rows(tmp_path) == before
    assert await home.agent(agent.id)


async def test_P03_a_window_that_the_user_set_is_kept_when_the_model_changes(home: Home) -> None:
    pinned = await home.create_agent(model=MODEL, context_window_limit=20_000)
    assert (await pinned.update(model="scripted/demo")).agent.context_window == 20_000
    free = await home.create_agent(model=MODEL)
    await free.update(context_window_limit=30_000)
    changed = (await free.update(model="scripted/demo")).agent
    assert (changed.context_window, changed.context_window_pinned) == (30_000, True)
    assert (await free.update(model_settings={"temperature": 0.2})).agent.context_window == 30_000


async def test_P04_a_window_smaller_than_the_models_is_stored(home: Home) -> None:
    agent = await home.create_agent(model=MODEL, context_window_limit=100_000)
    assert (await agent.state()).agent.context_window == 100_000


async def test_settings_merge_by_key_and_start_anew_for_another_kind_of_provider(home: Home) -> None:
    agent = await home.create_agent(
        model=MODEL, model_settings={"provider_type": "openai", "temperature": 0.5, "max_output_tokens": 100}
    )
    merged = (await agent.update(model_settings={"temperature": 0.7})).agent.model_settings
    assert merged == {"provider_type": "openai", "temperature": 0.7, "max_output_tokens": 100}
    same = (await agent.update(model=MODEL)).agent.model_settings
    assert same == merged
    assert (await agent.update(model="scripted/demo")).agent.model_settings == {}
    kept = await agent.update(compaction_settings={"mode": "all"})
    assert kept.agent.compaction_settings == {"mode": "all"}


async def test_lists_replace(home: Home, agent: Agent) -> None:
    one, two = await _store_identity(home, "one"), await _store_identity(home, "two")
    replace = named_id("tool", "memory_replace")
    human = await agent.block("human")
    await agent.update(identity_ids=(two.id, one.id), tags=("a", "b"), secrets={"A": "1", "B": "2"})
    state = await agent.update(
        block_ids=(human.id,), tool_ids=(replace,), identity_ids=(one.id,), tags=("b",), secrets={"B": "3"}
    )
    assert [block.label for block in state.blocks] == ["human"]
    assert [tool.id for tool in state.tools] == [replace]
    assert [identity.identifier_key for identity in state.identities] == ["one"]
    assert state.agent.tags == ("b",)
    assert [secret.key for secret in state.secrets] == ["B"]


async def test_blocks_can_be_exchanged_for_others_of_the_same_labels_at_once(home: Home, agent: Agent) -> None:
    other = await home.create_agent(model="scripted/demo", memory={"human": "Someone else.", "persona": "Wry."})
    wanted = tuple(block.id for block in (await other.state()).blocks)
    assert [block.value for block in (await agent.update(block_ids=wanted)).blocks] == ["Someone else.", "Wry."]


async def test_a_tool_that_needs_approval_brings_its_rule_and_takes_it_away(home: Home, agent: Agent) -> None:
    careful = await _store_tool(home, "careful", default_requires_approval=True)
    now = utc_now()
    await agent.update(tool_rules=(TerminalRule(tool_name="memory_insert"),))
    for _ in range(2):
        await home.runtime.db.write(lambda tx: attach_tool(tx, agent.id, careful.id, now=now))
    assert (await agent.state()).agent.tool_rules == (
        TerminalRule(tool_name="memory_insert"),
        ApprovalRule(tool_name="careful"),
    )
    await home.runtime.db.write(lambda tx: detach_tool(tx, agent.id, careful.id, now=now))
    assert (await agent.state()).agent.tool_rules == (TerminalRule(tool_name="memory_insert"),)
    assert "careful" not in [tool.name for tool in (await agent.state()).tools]


async def test_B06_deleting_an_agent_keeps_its_blocks_for_those_that_share_them(
    home: Home, agent: Agent, tmp_path: Path
) -> None:
    state = await agent.state()
    human, persona = state.blocks
    other = await home.create_agent(model="scripted/demo", block_ids=(human.id,))
    await agent.ask("Hi.")
    await agent.update(secrets={"KEY": "value"})
    await agent.delete()
    with pytest.raises(NotFound):
        await agent.state()
    assert (await other.block("human")).value == "Likes maps."
    assert await home.runtime.db.read(lambda tx: blocks.get(tx, persona.id)) == persona
    left = rows(tmp_path)
    own = {"messages", "conversation_messages", "runs", "steps", "secrets", "agents_tools", "agents_blocks"}
    assert {name for name in own if any(agent.id in map(str, row) for row in left[name])} == set()
    assert await other.ask("SAY:Hello.") == "Hello."


async def test_deleting_an_agent_ends_its_run_first(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    hold = threading.Event()
    endpoint.answers(Answer(text=("Once ",), hold=hold))
    handle = await home.runtime.start(request(agent, "A story."))
    await first_delta(handle)
    with anyio.fail_after(BOUND):
        await agent.delete()
        ended = await handle.wait()
    hold.set()
    assert ended.stop_reason == "cancelled"
    assert await home.agents() == []


async def test_a_reset_deletes_messages_and_keeps_the_rest(home: Home, agent: Agent, endpoint: ChatEndpoint) -> None:
    await agent.update_block("human", value="Likes tea.")
    await agent.ask("Remember this.")
    before = await agent.state()
    await recompile(home.runtime, agent.id)
    state = await reset_messages(home.runtime, agent.id)
    assert await agent.window() == ()
    assert state.blocks == before.blocks
    assert state.conversation.id == before.conversation.id
    assert state.conversation.system_message_id == before.conversation.system_message_id
    assert (await agent.verify()).ok
    await agent.ask("Afresh.")
    sent = endpoint.requests()[-1]["messages"]
    assert [message["role"] for message in sent] == ["system", "user"]
    assert "Likes tea." in sent[0]["content"]


@pytest.mark.parametrize("beside", [False, True])
async def test_a_reset_is_refused_while_a_run_goes_on_in_any_conversation(
    home: Home, agent: Agent, endpoint: ChatEndpoint, beside: bool
) -> None:
    other = await create_conversation(home.runtime, ConversationSpec(agent_id=agent.id))
    conversation_id = other.id if beside else None
    hold = threading.Event()
    endpoint.answers(Answer(text=("Once ",), hold=hold))
    handle = await home.runtime.start(request(agent, "A story.", conversation_id=conversation_id))
    await first_delta(handle)
    with pytest.raises(ConversationBusy) as busy:
        await reset_messages(home.runtime, agent.id)
    assert busy.value.details["run_id"] == handle.run_id
    hold.set()
    with anyio.fail_after(BOUND):
        await handle.wait()
    said = await home.runtime.db.read(lambda tx: messages.page(tx, MessageQuery(agent_id=agent.id, order="asc")))
    assert [message.role for message in said] == ["user", "assistant"]


async def test_an_agent_that_forgets_after_each_turn_sees_only_its_last_message(
    home: Home, endpoint: ChatEndpoint
) -> None:
    agent = await home.create_agent(model=MODEL, memory={"human": "Likes maps."}, message_buffer_autoclear=True)
    await agent.ask("First.")
    await agent.ask("Second.")
    assert [message["content"] for message in endpoint.requests()[1]["messages"][1:]] == ["Second."]


_VALUE: Final = "s3cr3t-Value-0123456789"


async def test_a_secret_is_nowhere_to_be_read_but_where_it_is_asked_for(
    tmp_path: Path, endpoint: ChatEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    folder = tmp_path / "store"
    async with open_home(folder, {**endpoint.environment, "OPENAI_API_KEY": _VALUE}) as home:
        agent = await home.create_agent(model=MODEL, memory={"human": "Likes maps."}, secrets={"TOKEN": _VALUE})
        await send(home, agent, "Hi.")
        state = await agent.update(secrets={"TOKEN": _VALUE, "OTHER": _VALUE})
        assert [secret.key for secret in state.secrets] == ["OTHER", "TOKEN"]
        told = [
            repr(state),
            repr(await agent.manifest()),
            repr(await agent.verify()),
            await agent.prompt(),
            repr(home.runtime.settings),
            repr(home.runtime.models),
            repr(vars(home.runtime.models)),
            *map(repr, await agent.window()),
            *(body.decode() for body in endpoint.received),
            caplog.text,
        ]
        assert [text for text in told if _VALUE in text] == []
        revealed = await home.runtime.db.read(lambda tx: secrets.reveal(tx, agent.id, home.runtime.cipher))
        assert revealed == {"OTHER": _VALUE, "TOKEN": _VALUE}
        _assert_not_in_files(folder)
    _assert_not_in_files(folder)


def _assert_not_in_files(folder: Path) -> None:
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "eunoe.db" for path in found)
    assert [path.name for path in found if re.search(_VALUE.encode(), path.read_bytes())] == []


async def test_a_secret_set_again_is_sealed_anew(home: Home, agent: Agent, tmp_path: Path) -> None:
    await agent.update(secrets={"TOKEN": _VALUE})
    first = rows(tmp_path)["secrets"]
    await agent.update(secrets={"TOKEN": _VALUE})
    second = rows(tmp_path)["secrets"]
    assert first[0][0] == second[0][0]
    assert first[0][4] != second[0][4]
    assert await home.runtime.db.read(lambda tx: secrets.reveal(tx, agent.id, home.runtime.cipher)) == {"TOKEN": _VALUE}
