"""A store with two agents for the state machine: what can be done to it, and what is looked at after each deed."""

import json
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import pytest
from anyio.from_thread import BlockingPortal
from crash_orders import LOOK_UP, Order, user
from dying_process import Dying
from msgspec import structs
from runtime_rig import BOUND, Told, open_home, watch
from store_ledger import Books, Edit, Ledger, Row, assert_body_paired

from eunoe.embedded import Agent, Home
from eunoe.prompt.compile import PromptInputs, compile_prompt
from eunoe.runtime.agents import reset_messages, update_agent
from eunoe.runtime.approvals import Reply
from eunoe.runtime.compaction_call import compact_conversation
from eunoe.runtime.conversations import (
    ConversationSpec,
    create_conversation,
    delete_conversation,
    fork_conversation,
)
from eunoe.runtime.handles import RunHandle
from eunoe.runtime.integrity import integrity
from eunoe.runtime.manifest import manifest
from eunoe.runtime.preview import preview
from eunoe.runtime.recompile import read_system_message
from eunoe.runtime.replay import step_request
from eunoe.runtime.runtime import utc_now
from eunoe.runtime.turn import TurnRequest
from eunoe.state.agents import AgentChanges
from eunoe.state.conversations import PromptFacts
from eunoe.state.errors import EunoeError, PendingApproval
from eunoe.state.messages import TextPart
from eunoe.state.rules import ApprovalRule
from eunoe.store import agents, blocks, conversations, isolated, run_events, tools
from eunoe.store.database import Transaction

T = TypeVar("T")

GATED: Final = "memory_replace"
"""The tool whose calls wait for a person at first."""
WINDOW: Final = 2_600
"""Tokens of a window that a few long messages fill."""


class House:
    """The store, the runtime that has it open, and the ledger that audits it."""

    def __init__(self, portal: BlockingPortal, folder: Path, dying: Dying) -> None:
        self._portal = portal
        self._folder = folder
        self._dying = dying
        self._words = 0
        self._looks = 0
        self._probed: dict[str, Row] = {}
        self._broken = False
        self._otids: dict[str, tuple[TurnRequest, str]] = {}
        self._facts: dict[str, str] = {}
        self._replayed: set[str] = set()
        self._lost: set[str] = set()
        self._opened: AbstractContextManager[Home] | None = None
        self.home = self._open()
        self.agents = [self._portal.call(self._make, name) for name in ("Ada", "Bob")]
        (team,) = [b for b in self.call(self.agents[0].state).blocks if b.label == "team"]
        self.team_id = team.id
        self.call(lambda: self.home.runtime.db.write(lambda tx: blocks.attach(tx, self.agents[1].id, team.id)))
        self.ledger = Ledger(folder / "eunoe.db")

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._portal.call(work)

    def _open(self) -> Home:
        self._opened = self._portal.wrap_async_context_manager(open_home(self._folder, EUNOE_CLIENT_TOOL_WAIT="3600"))
        return self._opened.__enter__()

    async def _make(self, name: str) -> Agent:
        memory = {"human": "Likes maps.", "persona": "Kind."} | ({"team": "Meets on Mondays."} if name == "Ada" else {})
        return await self.home.create_agent(
            model="scripted/demo",
            name=name,
            system="You are kind.",
            memory=memory,
            tool_rules=(ApprovalRule(tool_name=GATED),),
        )

    def close(self) -> None:
        """See that every conversation can still be talked to, and that the past is what it was; then close."""
        if self._broken:
            self.leave()
            return
        for agent in self.agents:
            self.patch(agent, tool_rules=())
        for key in list(self.ledger.books.conversations):
            told = self.send(key, "SAY:ok", on_pending="deny_and_continue")
            assert isinstance(told, Told)
            assert told.ended.stop_reason == "end_turn", told.ended
            assert [message.text for message in told.messages if message.role == "assistant"] == ["ok"]
        self._replayed.clear()
        self.settle()
        self.leave()
        self.ledger.close()

    def leave(self) -> None:
        """Close the store as it is."""
        assert self._opened is not None
        self._opened.__exit__(None, None, None)

    def restart(self) -> None:
        self.leave()
        self.home = self._open()
        self.agents = [Agent(self.home.runtime, agent.id) for agent in self.agents]
        self.settle()

    def word(self) -> str:
        """Return a word that was never used."""
        self._words += 1
        return f"word{self._words}"

    def conversation(self, number: int) -> str:
        known = list(self.ledger.books.conversations)
        return known[number % len(known)]

    def agent_of(self, conversation_id: str) -> str:
        return self.ledger.books.conversations[conversation_id]["agent_id"]

    # What can be done.

    def attempt(self, deed: Callable[[], Coroutine[Any, Any, T]], **settling: Any) -> T | EunoeError:
        """Do something; if it is refused, see that it left no trace."""
        before = self.ledger.version()
        try:
            done = self.call(deed)
        except EunoeError as refusal:
            if self.ledger.version() != before:
                raise AssertionError("a refusal left something behind") from refusal
            return refusal
        self.settle(**settling)
        return done

    def request(self, conversation_id: str, *says: str, otid: str | None = None, **fields: Any) -> TurnRequest:
        return TurnRequest(
            agent_id=self.agent_of(conversation_id),
            conversation_id=conversation_id,
            messages=tuple(user(text, otid) for text in says),
            **fields,
        )

    def send(self, conversation_id: str, text: str, **fields: Any) -> Told | EunoeError:
        return self.turn(self.request(conversation_id, text, **fields))

    def turn(self, request: TurnRequest, leave_after: int | None = None) -> Told | EunoeError:
        """Run a turn to its end, or cancel it after so many events; hold what was told to what is stored."""
        known = {step["id"] for step in self.ledger.books.steps}

        async def run() -> Told:
            prompt = await self._compiled(request.conversation_id or "")
            handle = await self.home.runtime.start(request)
            if leave_after is not None:
                await _cancel_after(handle, leave_after)
            told = await watch(handle)
            await self._hold(told, request, known, prompt)
            return told

        told = self.attempt(run)
        if isinstance(told, Told) and request.messages and request.messages[0].otid:
            self._otids[request.messages[0].otid] = (request, told.ended.run_id)
        return told

    def repeat(self, number: int) -> None:
        """Send a request again that was taken before."""
        known = [one for one in self._otids.values() if one[0].conversation_id in self.ledger.books.conversations]
        known = [one for one in known if any(run["id"] == one[1] for run in self.ledger.books.runs)]
        known = [one for one in known if _has_otid(self.ledger.books, one[0], one[1])]
        if not known:
            return
        request, run_id = known[number % len(known)]
        before = self.ledger.version()
        handle = self.call(lambda: self.home.runtime.start(request))
        assert handle.run_id == run_id
        assert self.call(lambda: watch(handle)).ended.run_id == run_id
        assert self.ledger.version() == before

    def race(self, conversation_id: str, text: str, label: str) -> None:
        """Send a message, and meanwhile another one and an edit by the API."""
        outcomes: list[str] = []

        async def send() -> None:
            try:
                told = await watch(await self.home.runtime.start(self.request(conversation_id, text)))
            except EunoeError as refusal:
                outcomes.append(refusal.code)
            else:
                outcomes.append(told.ended.run_id)

        async def both() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(send)
                group.start_soon(send)
                group.start_soon(self._set_value, conversation_id, label, self.word())

        self.call(both)
        self.settle()
        assert len(outcomes) == 2
        assert len(set(outcomes) - {"CONVERSATION_BUSY", "PENDING_APPROVAL"}) >= int("PENDING_APPROVAL" not in outcomes)

    def reply(self, conversation_id: str, reply: Reply, *says: str) -> Told | EunoeError:
        return self.turn(structs.replace(self.request(conversation_id, *says), reply=reply))

    def let_time_pass(self, conversation_id: str) -> None:
        """Let the question of a conversation be one whose time is over."""
        self.call(
            lambda: self.home.runtime.db.write(
                lambda tx: tx.execute(
                    "UPDATE approvals SET expires_at = 1 WHERE conversation_id = ? AND answered_at IS NULL",
                    (conversation_id,),
                )
            )
        )
        self.settle()

    def tidy(self) -> None:
        self.call(self.home.runtime.tidy)
        self.settle()

    def crash(self, order: Order, fault: str, *, reopen: bool) -> None:
        """Let another process do something and die of it; then look after what it left."""
        books = self.ledger.books
        gone: Iterable[str] = ()
        if order.do == "delete":
            gone = books.alone_in(order.conversation_id or "")
        if order.do == "reset":
            gone = [key for key, row in books.messages.items() if row["agent_id"] == order.agent_id]
            self._lose(order.agent_id)
        self._dying.send(self._folder, order.text(), EUNOE_FAULT=fault)
        if reopen:
            self.leave()
            self.home = self._open()
            self.agents = [Agent(self.home.runtime, agent.id) for agent in self.agents]
        else:
            self.call(self.home.runtime.tidy)
        self.settle(gone=gone, renewed=True)

    def compact(self, conversation_id: str) -> None:
        self.attempt(lambda: compact_conversation(self.home.runtime, self.agent_of(conversation_id), conversation_id))

    def fork(self, conversation_id: str, number: int | None) -> None:
        history = self.ledger.books.history(conversation_id)
        at = history[number % len(history)]["id"] if history and number is not None else None
        agent_id = self.agent_of(conversation_id)
        self.attempt(lambda: fork_conversation(self.home.runtime, agent_id, conversation_id, at_message_id=at))

    def begin(self, agent: Agent, isolated_labels: tuple[str, ...], says: tuple[str, ...]) -> None:
        spec = ConversationSpec(
            agent_id=agent.id, isolated_block_labels=isolated_labels, messages=tuple(map(user, says))
        )
        self.attempt(lambda: create_conversation(self.home.runtime, spec))

    def delete(self, conversation_id: str) -> None:
        gone = self.ledger.books.alone_in(conversation_id)
        self.attempt(lambda: delete_conversation(self.home.runtime, conversation_id), gone=gone)

    def reset(self, agent: Agent) -> None:
        gone = [key for key, row in self.ledger.books.messages.items() if row["agent_id"] == agent.id]
        self._lose(agent.id)
        self.attempt(lambda: reset_messages(self.home.runtime, agent.id), gone=gone, renewed=True)

    def _lose(self, agent_id: str) -> None:
        self._lost |= {step["id"] for step in self.ledger.books.steps if step["agent_id"] == agent_id}

    async def _set_value(self, conversation_id: str, label: str, value: str) -> None:
        agent_id = self.agent_of(conversation_id)
        own = self.ledger.books.own_blocks.get((conversation_id, label))

        def write(tx: Transaction) -> None:
            block = blocks.get(tx, own or "")
            changed = structs.replace(block, value=value)
            blocks.update(tx, changed, expected_revision=block.revision, actor="user", run_id=None, now=utc_now())

        try:
            if own is None:
                await Agent(self.home.runtime, agent_id).update_block(label, value=value)
            else:
                await self.home.runtime.db.write(write)
            self.ledger.acknowledge(Edit(label, None, value=value))
        except EunoeError as refusal:
            assert refusal.code == "NOT_FOUND"  # noqa: PT017 - the block may be detached; anything else is wrong

    def set_value(self, conversation_id: str, label: str) -> None:
        self.call(lambda: self._set_value(conversation_id, label, self.word()))
        self.settle()

    def toggle_team(self, agent: Agent) -> None:
        """Attach the shared block, or detach it."""

        def toggle(tx: Transaction) -> None:
            held = {block.id for block in blocks.of_agent(tx, agent.id)}
            (blocks.detach if self.team_id in held else blocks.attach)(tx, agent.id, self.team_id)

        self.attempt(lambda: self.home.runtime.db.write(toggle))

    def toggle_tool(self, agent: Agent, name: str) -> None:
        def toggle(tx: Transaction) -> None:
            held = {tool.name for tool in tools.of_agent(tx, agent.id)}
            (tools.detach if name in held else tools.attach)(tx, agent.id, tools.by_names(tx, [name])[name].id)

        self.attempt(lambda: self.home.runtime.db.write(toggle))

    def patch(self, agent: Agent, **changes: Any) -> None:
        """Change fields of an agent, and see that no other field changed (I13)."""
        before = self.call(agent.state)
        after = self.attempt(lambda: update_agent(self.home.runtime, agent.id, AgentChanges(**changes)))
        if isinstance(after, EunoeError):
            missing = {rule.tool_name for rule in changes["tool_rules"]} - {tool.name for tool in before.tools}
            assert missing, after
            return
        wanted = dict(changes)
        if "context_window_limit" in wanted:
            wanted = {"context_window": wanted.pop("context_window_limit"), "context_window_pinned": True, **wanted}
        if "model_settings" in wanted:
            wanted["model_settings"] = {**before.agent.model_settings, **wanted["model_settings"]}
        kept = {name: getattr(after.agent, name) for name in ("updated_at", "revision")}
        assert after.agent == structs.replace(before.agent, **wanted, **kept)
        assert (after.blocks, after.tools, after.conversation) == (before.blocks, before.tools, before.conversation)

    # What is looked at.

    def settle(self, *, gone: Iterable[str] = (), renewed: bool = False) -> None:
        """Audit the rows, and see that everything can be read, written to and replayed."""
        self._broken = True
        books = self.ledger.audit(gone=gone)
        version = self.ledger.version()
        self.call(lambda: self._inspect(books, renewed=renewed))
        assert self.ledger.version() == version, "reading changed the store"
        self._broken = False

    async def _inspect(self, books: Books, *, renewed: bool) -> None:
        for agent in self.agents:
            report = await integrity(self.home.runtime, agent.id)
            assert report.ok, report.violations
            if self._words % 8 == 0:
                assert (await manifest(self.home.runtime, agent.id)).agent_id == agent.id
        for key, row in books.conversations.items():
            shown = (await read_system_message(self.home.runtime, row["agent_id"], key)).text
            assert shown == await self._compiled(key)
            self._check_facts(key, row, renewed=renewed)
        for key in set(self._facts) - set(books.conversations):
            del self._facts[key]
        await self._probe(books)
        for step in books.steps:
            if step["id"] not in self._replayed and step["request"] is not None:
                self._replayed.add(step["id"])
                replayed = await step_request(self.home.runtime, step["id"])
                assert replayed.verified or step["id"] in self._lost, replayed.note
                if replayed.verified:
                    assert_body_paired(json.loads(bytes(replayed.body)))

    def _check_facts(self, key: str, row: Row, *, renewed: bool) -> None:
        """The recorded facts stay until a compaction or a reset, so that the prompt's bytes do (I5)."""
        facts = json.dumps([json.loads(row["compiled"])["facts"], row["summary_message_id"]])
        if key in self._facts and not renewed:
            same_summary = json.loads(self._facts[key])[1] == row["summary_message_id"]
            assert facts == self._facts[key] or not same_summary
        self._facts[key] = facts

    async def _compiled(self, conversation_id: str) -> str:
        """Compile a conversation's prompt from scratch."""

        def gather(tx: Transaction) -> PromptInputs:
            conversation = conversations.get(tx, conversation_id)
            state = agents.state(tx, conversation.agent_id)
            own = {block.label: block for block in isolated.of_conversation(tx, conversation_id)}
            assert conversation.compiled is not None
            return PromptInputs(
                agent_id=state.agent.id,
                conversation_label="default" if conversation.is_default else conversation.id,
                agent_type=state.agent.agent_type,
                system=state.agent.system,
                blocks=tuple(own.get(block.label, block) for block in state.blocks),
                tool_rules=state.agent.tool_rules,
                line_numbers=False,
                facts=PromptFacts(
                    compiled_at=conversation.compiled.facts.compiled_at,
                    message_count=conversation.compiled.facts.message_count,
                ),
                timezone=state.agent.timezone,
            )

        return compile_prompt(await self.home.runtime.db.read(gather)).text

    async def _probe(self, books: Books) -> None:
        """See that each conversation would take a message now, and what its model would get; nothing is stored."""
        self._looks += 1
        for key, row in books.conversations.items():
            if self._probed.get(key) == row and self._looks % 4:
                continue
            self._probed[key] = row
            asked = TurnRequest(agent_id=row["agent_id"], conversation_id=key, messages=(user("SAY:ok"),))
            waiting = books.waiting(key)
            if waiting is not None and waiting["expires_at"] != 1:
                with pytest.raises(PendingApproval) as pending:
                    await preview(self.home.runtime, asked)
                assert pending.value.details["pending_request_id"] == waiting["message_id"]
            payload = await preview(self.home.runtime, structs.replace(asked, on_pending="deny_and_continue"))
            sent = json.loads(payload.body)
            assert sent["messages"][-1] == {"role": "user", "content": "SAY:ok"}
            assert_body_paired(sent)

    async def _hold(self, told: Told, request: TurnRequest, known: set[str], prompt: str) -> None:
        """Hold what a run told to what is stored (I12), and what it asked with to the memory at its start (I5)."""
        ended = told.ended
        books = self.ledger.read()
        run = next(row for row in books.runs if row["id"] == ended.run_id)
        assert (run["stop_reason"], run["step_count"]) == (ended.stop_reason, ended.step_count)
        for message in told.messages:
            stored = books.messages[message.id]
            assert stored["role"] == message.role
            assert stored["seq"] == message.seq
        answered = {row["id"] for row in books.messages.values() if row["run_id"] == ended.run_id}
        roles = {"assistant", "tool", "summary"}
        shown = {key for key in answered if books.messages[key]["role"] in roles}
        unseen = shown - {message.id for message in told.messages}
        assert all("healed" in books.messages[key]["meta"] or _nudge(books.messages[key]) for key in unseen)
        said = {_said(row) for row in books.messages.values() if row["run_id"] == ended.run_id}
        assert {part.text for one in request.messages for part in one.parts if isinstance(part, TextPart)} <= said
        if request.background:
            stored_events = await self.home.runtime.db.read(lambda tx: run_events.of_run(tx, ended.run_id))
            assert tuple(stored_events) == told.events
        compacted = any(message.role == "summary" for message in told.messages)
        fresh = [step for step in books.steps if step["id"] not in known and step["run_id"] == ended.run_id]
        for step in fresh:
            if not compacted and step["request"] is not None:
                replayed = await step_request(self.home.runtime, step["id"])
                assert json.loads(bytes(replayed.body))["messages"][0]["content"] == prompt


def _said(row: Row) -> str:
    return "".join(part.get("text", "") for part in row["parts"] if part["type"] == "text")


def _nudge(row: Row) -> bool:
    return "nudge" in row["meta"]


def _has_otid(books: Books, request: TurnRequest, run_id: str) -> bool:
    otid = request.messages[0].otid
    return any(row["otid"] == otid and row["run_id"] == run_id for row in books.messages.values())


async def _cancel_after(handle: RunHandle, count: int) -> None:
    """Watch so many events of a run, and cancel it."""
    with anyio.fail_after(BOUND):
        seen = 0
        async for _ in handle.events():
            seen += 1
            if seen > count:
                break
    handle.cancel()


CLIENT: Final = (LOOK_UP,)
