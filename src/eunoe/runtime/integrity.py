"""What is wrong with an agent's stored state, in plain words, and healing it by adding (I1 to I5)."""

from datetime import datetime
from typing import Final

from msgspec import Struct, structs

from eunoe.runtime.opening import state_in
from eunoe.runtime.prompts import conversation_model, refresh_prompt
from eunoe.runtime.recovery import ask_again, close_broken_calls, end_interrupted_run, release_dead_lease
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.runtime.window import strays, unanswered
from eunoe.state.conversations import Conversation
from eunoe.state.errors import NotFound, StoreError
from eunoe.state.runs import UNFINISHED, Run
from eunoe.store import agents, approvals, conversations, messages, runs, texts
from eunoe.store.database import Transaction
from eunoe.store.runs import RunQuery

LEASE: Final = "I11"
PAIRS: Final = "I3"
PROMPT: Final = "I5"
RUNS: Final = "I1"


class Violation(Struct, frozen=True, kw_only=True):
    """One thing that is not as it must be; ``invariant`` is its number in the design."""

    invariant: str
    subject: str
    what: str


class IntegrityReport(Struct, frozen=True, kw_only=True):
    """What was found; ``healed`` is what a repair did about it."""

    agent_id: str
    ok: bool
    violations: tuple[Violation, ...]
    healed: tuple[str, ...] = ()


def _check_window(tx: Transaction, conversation: Conversation) -> list[Violation]:
    where = f"conversation {conversation.id}"
    found: list[Violation] = []
    summary = conversation.summary_message_id
    if summary is not None and not _has(tx, conversation, summary):
        return [Violation(invariant=RUNS, subject=where, what=f"Its summary {summary} is missing.")]
    waiting = approvals.open_of(tx, conversation.id)
    window = conversations.window(tx, conversation)
    for stray in strays(window):
        what = f"Message {stray.id} returns what no message before it asked for."
        found.append(Violation(invariant=PAIRS, subject=where, what=what))
    for broken in unanswered(window):
        if waiting is None or waiting.message_id != broken.message.id:
            calls = ", ".join(call.id for call in broken.calls)
            what = f"Message {broken.message.id} asked for calls that have no return: {calls}."
            found.append(Violation(invariant=PAIRS, subject=where, what=what))
    if waiting is not None and not _has(tx, conversation, waiting.message_id):
        what = f"It waits for an answer about message {waiting.message_id}, which is missing."
        found.append(Violation(invariant=PAIRS, subject=where, what=what))
    return found


def _has(tx: Transaction, conversation: Conversation, message_id: str) -> bool:
    try:
        return messages.get(tx, message_id, conversation_id=conversation.id).position > 0
    except NotFound:
        return False


def _check_prompt(tx: Transaction, conversation: Conversation) -> list[Violation]:
    where = f"conversation {conversation.id}"
    if conversation.compiled is None:
        return [Violation(invariant=PROMPT, subject=where, what="Its prompt was never compiled.")]
    try:
        texts.get(tx, conversation.compiled.hash)
    except NotFound:
        what = f"The text of its compiled prompt {conversation.compiled.hash} is missing."
        return [Violation(invariant=PROMPT, subject=where, what=what)]
    except StoreError:
        what = f"The text of its compiled prompt does not have the hash {conversation.compiled.hash} that names it."
        return [Violation(invariant=PROMPT, subject=where, what=what)]
    return []


def _dead_runs(tx: Transaction, runtime: Runtime, agent_id: str) -> list[Run]:
    found = runs.page(tx, RunQuery(agent_id=agent_id, active=True, limit=None))
    dead: list[Run] = []
    for run in found:
        conversation = conversations.get(tx, run.conversation_id)
        if conversation.lease_run_id != run.id or not runtime.is_running(conversation):
            dead.append(run)
    return dead


def _lease_violations(tx: Transaction, runtime: Runtime, conversation: Conversation) -> list[Violation]:
    holder = conversation.lease_run_id
    if holder is None or runtime.is_running(conversation):
        return []
    try:
        if runs.get(tx, holder).status in UNFINISHED:
            return []  # told as a dead run
    except NotFound:
        pass
    what = f"Its lease is held by run {holder}, which is not running."
    return [Violation(invariant=LEASE, subject=f"conversation {conversation.id}", what=what)]


def find_violations(tx: Transaction, runtime: Runtime, agent_id: str) -> list[Violation]:
    """Return everything that is wrong with an agent's stored state.

    Raises ``NotFound``, and ``StoreError`` for a row that cannot be read at all.
    """
    agents.state(tx, agent_id)
    found = [
        Violation(invariant=RUNS, subject=f"run {run.id}", what=f"It says {run.status!r}, and nothing carries it.")
        for run in _dead_runs(tx, runtime, agent_id)
    ]
    for message_id in messages.nowhere(tx, agent_id):
        what = "It is in no conversation."
        found.append(Violation(invariant=RUNS, subject=f"message {message_id}", what=what))
    for conversation in conversations.of_agent(tx, agent_id):
        found += _lease_violations(tx, runtime, conversation)
        found += _check_window(tx, conversation)
        found += _check_prompt(tx, conversation)
    return found


def _heal_conversation(tx: Transaction, runtime: Runtime, conversation: Conversation, now: datetime) -> list[str]:
    healed: list[str] = []
    if conversation.lease_run_id is not None and not runtime.is_running(conversation):
        release_dead_lease(tx, conversation, now)
        healed.append(f"Freed conversation {conversation.id} from run {conversation.lease_run_id}.")
    found = _check_window(tx, conversation)
    if conversation.summary_message_id is not None and any("summary" in one.what for one in found):
        fresh = conversations.get(tx, conversation.id)
        conversations.update(tx, structs.replace(fresh, summary_message_id=None, window_from=0), now=now)
        healed.append(f"Brought all messages of conversation {conversation.id} back into view: its summary is lost.")
    waiting = approvals.open_of(tx, conversation.id)
    if waiting is not None and any(waiting.message_id in one.what for one in found):
        approvals.answer(tx, waiting, (), by="repair", run_id=None, now=now)
        healed.append(f"Closed the question about message {waiting.message_id}, which is missing.")
    fresh = conversations.get(tx, conversation.id)
    asked = ask_again(tx, fresh, conversations.window(tx, fresh), now)
    if asked:
        healed.append(f"Added calls for {asked} returns in conversation {conversation.id} whose own are lost.")
    closed = close_broken_calls(tx, conversations.get(tx, conversation.id), run_id=None, now=now)
    if closed:
        healed.append(f"Added error returns for {closed} calls in conversation {conversation.id}.")
    if _check_prompt(tx, conversation):
        conversations.set_compiled(tx, conversation.id, None)
        state, stored = state_in(tx, conversation.agent_id, conversation.id)
        refresh_prompt(tx, state, stored, conversation_model(runtime.models, state, stored), now)
        healed.append(f"Compiled the prompt of conversation {conversation.id} afresh.")
    return healed


async def integrity(runtime: Runtime, agent_id: str) -> IntegrityReport:
    """Check an agent's stored state; changes nothing. Raises ``NotFound`` and ``StoreError``."""
    found = await runtime.db.read(lambda tx: find_violations(tx, runtime, agent_id))
    return IntegrityReport(agent_id=agent_id, ok=not found, violations=tuple(found))


async def repair(runtime: Runtime, agent_id: str) -> IntegrityReport:
    """Heal what can be healed by adding, in one transaction, and say what was done and what is still wrong.

    History is never dropped. Raises ``NotFound`` and ``StoreError``.
    """
    now = utc_now()

    def mend(tx: Transaction) -> IntegrityReport:
        healed: list[str] = []
        find_violations(tx, runtime, agent_id)
        for run in _dead_runs(tx, runtime, agent_id):
            end_interrupted_run(tx, run, now)
            healed.append(f"Gave run {run.id} its end.")
        back = [message_id for message_id in messages.nowhere(tx, agent_id) if messages.put_back(tx, message_id)]
        healed += [f"Put message {message_id} back into its conversation." for message_id in back]
        for conversation in conversations.of_agent(tx, agent_id):
            healed += _heal_conversation(tx, runtime, conversation, now)
        left = find_violations(tx, runtime, agent_id)
        return IntegrityReport(agent_id=agent_id, ok=not left, violations=tuple(left), healed=tuple(healed))

    return await runtime.db.write(mend)
