"""A turn: what a caller asks of an agent, and what is known while it goes on."""

from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from eunoe.models.protocol import ModelInfo
from eunoe.prompt.skills import Skill
from eunoe.runtime.approvals import Reply
from eunoe.state.agents import AgentState
from eunoe.state.approvals import Answer
from eunoe.state.conversations import Conversation
from eunoe.state.memory import RefreshPolicy
from eunoe.state.messages import Message, NewMessage
from eunoe.state.runs import Run, Step, Usage
from eunoe.state.tools import ToolSchema

DEFAULT_MAX_STEPS: Final = 50
MOST_STEPS: Final = 1_000


class MemoryBranch(Struct, kw_only=True):
    """A branch of an agent's memory files, by its name, that the turn of another agent works on.

    ``tip`` is the newest commit that the turn has made; the branch moves there after it.
    """

    agent_id: str
    name: str
    tip: str | None = None


class TurnRequest(Struct, frozen=True, kw_only=True):
    """What a caller asks of an agent: new messages, a reply to an approval request, or both.

    ``conversation_id`` is ``None`` for the default conversation. ``on_busy`` says what to do when another run holds
    the conversation: wait for it (bounded by the settings) or raise ``ConversationBusy``. ``on_pending`` says what to
    do with a message while an approval is pending: raise ``PendingApproval``, deny the calls and go on, or wait for
    the answer (bounded too). ``memory_refresh`` overrides the agent's policy. ``project`` is the caller's working
    folder on this machine, whose skills are listed with the agent's; never that of a client on another one.
    ``memory_branch`` says that the turn's memory is a branch of another agent's files. ``options`` are kept with the
    run as the caller's.
    """

    agent_id: str
    messages: tuple[NewMessage, ...] = ()
    reply: Reply | None = None
    conversation_id: str | None = None
    max_steps: int = DEFAULT_MAX_STEPS
    client_tools: tuple[ToolSchema, ...] = ()
    client_skills: tuple[Skill, ...] = ()
    override_model: str | None = None
    override_system: str | None = None
    background: bool = False
    on_busy: Literal["wait", "reject"] = "reject"
    on_pending: Literal["reject", "deny_and_continue", "queue"] = "reject"
    memory_refresh: RefreshPolicy | None = None
    project: Path | None = None
    memory_branch: MemoryBranch | None = None
    options: dict[str, Any] = {}


class Turn(Struct, kw_only=True):
    """A turn that goes on: what was restored, and what has happened since (the only mutable state of a run).

    ``messages`` is the window without the system message. ``asked`` is the stored assistant message whose calls have no
    stored return yet; ``shown`` is text of an answer that was told as message ``shown_as`` and is not stored yet. A
    turn that goes on from an approval starts with ``asked``, its ``asked_step`` and the ``answers``; ``following`` are
    the messages that came with the reply: they are stored, and the returns are put before them. ``skills`` are listed
    after the compiled prompt; ``offered`` are the tools that the model can be offered, before the rules;
    ``repaired`` says that the model was told once that its answer does not have the form that was asked for.
    """

    request: TurnRequest
    run: Run
    fence: int
    state: AgentState
    conversation: Conversation
    model: ModelInfo
    system: str
    messages: list[Message]
    usage: Usage = Usage()
    steps: int = 0
    context_tokens: int | None = None
    asked: Message | None = None
    asked_step: Step | None = None
    answers: tuple[Answer, ...] = ()
    following: tuple[Message, ...] = ()
    shown: list[str] = []
    overflows: int = 0
    repaired: bool = False
    shown_as: str = ""
    skills: tuple[Skill, ...] = ()
    offered: tuple[ToolSchema, ...] = ()


class AlreadyStarted(Exception):
    """The same request was taken before (same otid, or an approval that is answered): this is its run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(run_id)
        self.run_id: Final = run_id
