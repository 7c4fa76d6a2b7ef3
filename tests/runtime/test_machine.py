"""Whatever is done to a conversation in whatever order: it is never broken (I1 to I8, I11 to I13).

Hypothesis interleaves messages, calls of all kinds, approvals, client tools, cancellations, processes that die,
restarts, compactions, edits, forks and changes; ``store_ledger`` and ``machine_house`` look at everything after each
step.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import msgspec
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from crash_orders import Order
from dying_process import Dying, dying_process
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from machine_house import CLIENT, GATED, WINDOW, House
from store_ledger import OF_THE_CLIENT

from eunoe.runtime.approvals import Reply
from eunoe.state.approvals import Answer
from eunoe.state.errors import EunoeError
from eunoe.state.messages import ApprovalPart, ToolReturnPart
from eunoe.state.rules import ApprovalRule, MaxCountRule, RequiredBeforeExitRule, TerminalRule

pytestmark = [pytest.mark.slow, pytest.mark.timeout(6_000 if os.environ.get("EUNOE_SOAK") else 900)]

_SOAK: Final = bool(os.environ.get("EUNOE_SOAK"))

EXAMPLES: Final = 2_500 if _SOAK else 34
LEAST_STEPS: Final = 2_000
"""Steps that a run must have taken; an example has at most eighty, and often fewer."""

LABELS: Final = ("human", "persona", "team")
FILL: Final = "and so on " * 60

_call = st.sampled_from(("insert", "insert", "replace", "replace_missing", "search", "unknown", "garbled", "client"))
_section = st.one_of(
    st.just(("say",)),
    st.lists(_call, min_size=1, max_size=3).map(tuple),
    st.lists(_call, min_size=1, max_size=3).map(tuple),
    st.just(("long",)),
    st.sampled_from((("error",), ("empty",))),
)
_script = st.lists(_section, min_size=1, max_size=3)
_number = st.integers(0, 7)
_label = st.sampled_from(LABELS)
_fault = st.one_of(
    st.integers(1, 8).map(lambda n: f"commit:{n}"),
    st.integers(1, 6).map(lambda n: f"before_commit:{n}"),
    st.integers(1, 60).map(lambda n: f"write:{n}"),
)


def _when(possible: Callable[[Any], object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a rule do nothing, and count for nothing, where it cannot be.

    Not a precondition: what is there depends on when a real process died, and what is drawn must not.
    """

    def guard(method: Callable[..., None]) -> Callable[..., None]:
        @wraps(method)
        def guarded(machine: Any, *args: Any, **drawn: Any) -> None:
            if possible(machine):
                method(machine, *args, **drawn)
            else:
                Conversations.steps -= 1

        return guarded

    return guard


class Conversations(RuleBasedStateMachine):
    """Two agents that share a block, and their conversations."""

    portal: BlockingPortal
    dying: Dying
    scratch: Path
    steps: int = 0

    def __init__(self) -> None:
        super().__init__()
        Conversations.steps -= 1  # an example begins with a look at it
        self.folder = Path(mkdtemp(dir=self.scratch))
        self.house = House(self.portal, self.folder / "store", self.dying)
        self.last: tuple[str, Reply] | None = None

    def teardown(self) -> None:
        try:
            self.house.close()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    @invariant()
    def count(self) -> None:
        Conversations.steps += 1

    def script(self, sections: list[tuple[str, ...]]) -> str:
        """Write what the model is to do, with words that were never used."""
        written = ["\n".join(self.line(one) for one in section) for section in sections]
        return "\nTHEN:\n".join(written)

    def line(self, kind: str) -> str:
        house = self.house
        label = LABELS[house._words % len(LABELS)]
        match kind:
            case "say":
                return f"SAY:{house.word()}"
            case "long":
                return f"SAY:{house.word()} {FILL}"
            case "error":
                return "ERROR:400"
            case "empty":
                return "EMPTY:"
            case "unknown":
                return "TOOL:no_such_tool {}"
            case "garbled":
                return 'TOOL:memory_insert {"label": "human", '
            case "search":
                return 'TOOL:conversation_search {"query": "word"}'
            case "client":
                return "TOOL:look_up {}"
            case "insert":
                return _tool("memory_insert", label=label, new_string=house.word())
            case _:
                blocks = {b["label"]: b["value"] for b in house.ledger.books.blocks.values()}
                old = (blocks[label].split() or ["missing"])[-1] if kind == "replace" else "missing"
                return _tool(GATED, label=label, old_string=old, new_string=house.word())

    @rule(
        number=_number,
        scripts=st.lists(_script, min_size=1, max_size=3),
        client=st.booleans(),
        go_on=st.booleans(),
        background=st.booleans(),
    )
    def send(
        self, number: int, scripts: list[list[tuple[str, ...]]], *, client: bool, go_on: bool, background: bool
    ) -> None:
        for sections in scripts:
            self.house.send(
                self.house.conversation(number),
                self.script(sections),
                otid=self.house.word(),
                client_tools=CLIENT if client else (),
                on_pending="deny_and_continue" if go_on else "reject",
                background=background,
                max_steps=5,
            )

    @rule(number=_number, label=_label)
    def ask_for_approval(self, number: int, label: str) -> None:
        house = self.house
        old = next((b["value"].split() for b in house.ledger.books.blocks.values() if b["label"] == label), [])
        calls = [
            _tool(GATED, label=label, old_string=old[-1] if old else "x", new_string=house.word()),
            _tool("memory_insert", label=label, new_string=house.word()),
            _tool(GATED, label=label, old_string="missing", new_string=house.word()),
        ]
        house.send(house.conversation(number), "\n".join(calls[: 1 + number % 3]) + "\nTHEN:\nSAY:done")

    @rule(number=_number, which=st.sampled_from(("hello", "client")))
    def ask_client(self, number: int, which: str) -> None:
        text = "TOOL:look_up {}\nTOOL:look_up {}\nTHEN:\nSAY:found" if which == "client" else "SAY:hello"
        self.house.send(self.house.conversation(number), text, client_tools=CLIENT)

    @rule(number=_number)
    def repeat(self, number: int) -> None:
        self.house.repeat(number)

    @rule(number=_number, sections=_script, count=st.integers(0, 12), background=st.booleans())
    def cancel(self, number: int, sections: list[tuple[str, ...]], count: int, *, background: bool) -> None:
        request = self.house.request(self.house.conversation(number), self.script(sections), background=background)
        self.house.turn(request, leave_after=count)

    @rule(number=_number, sections=_script, label=_label)
    def race(self, number: int, sections: list[tuple[str, ...]], label: str) -> None:
        self.house.race(self.house.conversation(number), self.script(sections), label)

    def waiting(self) -> list[tuple[str, dict[str, Any]]]:
        books = self.house.ledger.books
        return [(key, found) for key in books.conversations if (found := books.waiting(key)) is not None]

    @rule(
        number=_number,
        decisions=st.lists(st.sampled_from(("yes", "no", "returned", "failed")), min_size=3, max_size=3),
        flaw=st.sampled_from((None, None, None, None, "partial", "wrong", "twice")),
        says=st.sampled_from(((), (), ("SAY:and on",))),
        leave_after=st.sampled_from((None, None, 0, 1, 3)),
    )
    @_when(lambda self: self.waiting())
    def answer(
        self, number: int, decisions: list[str], flaw: str | None, says: tuple[str, ...], leave_after: int | None
    ) -> None:
        key, found = self.waiting()[number % len(self.waiting())]
        calls = msgspec.json.decode(found["calls"])
        answers = [_answer(call, decisions[index % 3]) for index, call in enumerate(calls)]
        if flaw == "partial":
            answers.pop()
        if flaw == "wrong":
            answers[0] = ApprovalPart(tool_call_id="call_of_nobody", approve=True)
        if flaw == "twice":
            answers.append(answers[0])
        reply = Reply(answers=tuple(reversed(answers)))
        request = msgspec.structs.replace(self.house.request(key, *says), reply=reply)
        outcome = self.house.turn(request, leave_after)
        assert isinstance(outcome, EunoeError) == (flaw is not None or found["expires_at"] == 1)
        if flaw is None:
            self.last = (key, reply)

    @rule(number=_number, approve=st.booleans(), by_message=st.booleans())
    @_when(lambda self: self.waiting())
    def answer_all(self, number: int, *, approve: bool, by_message: bool) -> None:
        key, found = self.waiting()[number % len(self.waiting())]
        part = ApprovalPart(tool_call_id="", approve=approve, reason="So be it.")
        reply = Reply(all_calls=part, request_id=found["message_id"] if by_message else None)
        self.house.reply(key, reply)
        if by_message:
            self.last = (key, reply)

    @rule()
    @_when(lambda self: self.last is not None and self.last[0] in self.house.ledger.books.conversations)
    def answer_again(self) -> None:
        """An answer that was taken once changes nothing when it comes again."""
        assert self.last is not None
        key, reply = self.last
        if self.house.ledger.books.waiting(key) is None:
            before = self.house.ledger.version()
            self.house.reply(key, reply)
            assert self.house.ledger.version() == before

    @rule(number=_number, then=st.sampled_from(("tidy", "message", "nothing")))
    @_when(lambda self: self.waiting())
    def expire(self, number: int, then: str) -> None:
        key, _ = self.waiting()[number % len(self.waiting())]
        self.house.let_time_pass(key)
        if then == "tidy":
            self.house.tidy()
            assert self.house.ledger.books.waiting(key) is None
        if then == "message":
            assert not isinstance(self.house.send(key, "SAY:ok"), EunoeError)

    @rule(number=_number, sections=_script, fault=_fault, reopen=st.booleans(), client=st.booleans())
    def crash_in_turn(
        self, number: int, sections: list[tuple[str, ...]], fault: str, *, reopen: bool, client: bool
    ) -> None:
        key = self.house.conversation(number)
        order = Order(
            do="send",
            agent_id=self.house.agent_of(key),
            conversation_id=key,
            says=(self.script(sections),),
            client_tools=client,
            go_on=True,
            background=number % 2 == 0,
        )
        self.house.crash(order, fault, reopen=reopen)

    @rule(number=_number, do=st.sampled_from(("approve", "deny", "return")), fault=_fault, more=st.booleans())
    @_when(lambda self: self.waiting())
    def crash_in_answer(self, number: int, do: Any, fault: str, *, more: bool) -> None:
        key, _ = self.waiting()[number % len(self.waiting())]
        says = ("SAY:and on",) if more else ()
        order = Order(do=do, agent_id=self.house.agent_of(key), conversation_id=key, says=says)
        self.house.crash(order, fault, reopen=False)

    @rule(
        number=_number,
        do=st.sampled_from(("compact", "fork", "begin", "delete", "reset", "compact", "fork")),
        at=_fault,
    )
    def crash_in_other_work(self, number: int, do: Any, at: str) -> None:
        key = self.house.conversation(number)
        order = Order(
            do=do, agent_id=self.house.agent_of(key), conversation_id=key, says=("hello",), isolated=("human",)
        )
        self.house.crash(order, at, reopen=number % 2 == 0)

    @rule(number=_number, sections=_script)
    def restart(self, number: int, sections: list[tuple[str, ...]]) -> None:
        self.house.restart()
        self.house.send(self.house.conversation(number), self.script(sections))

    @rule(number=_number)
    def compact(self, number: int) -> None:
        self.house.compact(self.house.conversation(number))

    @rule(number=_number, label=_label)
    def edit(self, number: int, label: str) -> None:
        self.house.set_value(self.house.conversation(number), label)

    @rule(number=_number)
    def attach_or_detach(self, number: int) -> None:
        agent = self.house.agents[number % 2]
        if number < 4:
            self.house.toggle_team(agent)
        else:
            self.house.toggle_tool(agent, ("memory_insert", GATED)[number % 4 // 2])

    @rule(number=_number, at=st.one_of(st.none(), st.integers(0, 40)))
    @_when(lambda self: len(self.house.ledger.books.conversations) < 6)
    def fork(self, number: int, at: int | None) -> None:
        self.house.fork(self.house.conversation(number), at)

    @rule(number=_number, labels=st.sets(_label, max_size=2), says=st.sampled_from(((), ("hello", "hello again"))))
    @_when(lambda self: len(self.house.ledger.books.conversations) < 6)
    def begin(self, number: int, labels: set[str], says: tuple[str, ...]) -> None:
        self.house.begin(self.house.agents[number % 2], tuple(sorted(labels)), says)

    @rule(number=_number)
    def delete(self, number: int) -> None:
        self.house.delete(self.house.conversation(number))

    @rule(number=_number)
    @_when(lambda self: len(self.house.ledger.books.messages) > 12)
    def reset(self, number: int) -> None:
        if number < 3:
            self.house.reset(self.house.agents[number % 2])

    @rule(number=_number, what=st.sampled_from(("system", "rules", "settings", "small", "large", "buffer", "name")))
    def patch(self, number: int, what: str) -> None:
        agent = self.house.agents[number % 2]
        changes: dict[str, Any] = {
            "system": {"system": f"You are {self.house.word()}."},
            "rules": {"tool_rules": _RULES[number % len(_RULES)]},
            "settings": {"model_settings": {"temperature": number / 10}},
            "small": {"context_window_limit": WINDOW},
            "large": {"context_window_limit": 100_000},
            "buffer": {"message_buffer_autoclear": number % 4 == 0},
            "name": {"name": self.house.word()},
        }[what]
        self.house.patch(agent, **changes)


_RULES: Final = (
    (ApprovalRule(tool_name=GATED),),
    (ApprovalRule(tool_name=GATED), TerminalRule(tool_name="memory_insert")),
    (ApprovalRule(tool_name="memory_insert"),),
    (ApprovalRule(tool_name=GATED), MaxCountRule(tool_name="memory_insert", max_count_limit=1)),
    (ApprovalRule(tool_name=GATED), RequiredBeforeExitRule(tool_name="conversation_search")),
)


def _tool(name: str, **arguments: str) -> str:
    return f"TOOL:{name} {msgspec.json.encode(arguments).decode()}"


def _answer(call: dict[str, Any], decision: str) -> Answer:
    if decision in ("yes", "no"):
        return ApprovalPart(tool_call_id=call["id"], approve=decision == "yes", reason=None)
    status = "success" if decision == "returned" else "error"
    return ToolReturnPart(tool_call_id=call["id"], name=call["name"], content=OF_THE_CLIENT, status=status)


@contextmanager
def _running() -> Iterator[None]:
    """Give the machine what all its examples share."""
    with start_blocking_portal() as portal, dying_process() as dying:
        Conversations.portal = portal
        Conversations.dying = dying
        yield


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=80,
        print_blob=True,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
        deadline=None,
    )


def test_nothing_that_can_be_done_breaks_a_conversation(tmp_path: Path) -> None:
    memory = Path("/dev/shm")  # noqa: S108 - what a killed process wrote is there for the next, on whatever disk
    scratch = Path(mkdtemp(dir=memory)) if memory.is_dir() and os.access(memory, os.W_OK) else tmp_path
    Conversations.scratch = scratch
    try:
        with _running():
            examples = EXAMPLES
            while Conversations.steps < LEAST_STEPS and examples:
                run_state_machine_as_test(Conversations, settings=_settings(examples))
                # How long examples are is chance: what is missing is made up for, a quarter of the first round at most.
                examples = EXAMPLES // 4 if examples == EXAMPLES else examples - 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    assert Conversations.steps >= LEAST_STEPS
