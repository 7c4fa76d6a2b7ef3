"""The Python door: agents in your own program, without a server.

    async with eunoe.open("./my-agents") as home:
        agent = await home.create_agent(model="openai/gpt-4o-mini", memory={"human": "Likes maps."})
        async for event in agent.send("hello"):
            ...

For scripts, ``eunoe.open_sync`` gives the same objects without ``async``.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from eunoe.agent_memory import AgentMemory
from eunoe.agent_skills import AgentSkills
from eunoe.home_mcp import HomeMcp
from eunoe.runtime import agents as agent_commands
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.labelled import block_by_label, update_by_label
from eunoe.runtime.manifest import Manifest, Verification, manifest, verify
from eunoe.runtime.recompile import read_system_message
from eunoe.runtime.reflecting import reflecting
from eunoe.runtime.replay import ReplayedRequest, step_request
from eunoe.runtime.runtime import Runtime, open_runtime, utc_now
from eunoe.runtime.settings import settings_from
from eunoe.runtime.turn import DEFAULT_MAX_STEPS, TurnRequest
from eunoe.state.agents import AgentChanges, AgentSpec, AgentState
from eunoe.state.blocks import Block, BlockChanges, BlockSpec
from eunoe.state.errors import EunoeError, InvalidInput, NotFound
from eunoe.state.events import Event, MessageStored, RunEnded
from eunoe.state.ids import is_id
from eunoe.state.messages import Message, NewMessage, TextPart
from eunoe.store import agents, conversations
from eunoe.store.agents import AgentQuery

T = TypeVar("T")


class TurnFailed(EunoeError):
    """A turn ended with an error; ``ended`` is its terminal event."""

    code = "TURN_FAILED"

    def __init__(self, ended: RunEnded) -> None:
        error = ended.error
        said = f"{error.message} {error.detail or ''}".strip() if error else f"the run ended: {ended.stop_reason}"
        super().__init__(said, run_id=ended.run_id, stop_reason=ended.stop_reason)
        self.ended = ended


def _blocks(memory: Mapping[str, str] | Sequence[BlockSpec]) -> tuple[BlockSpec, ...]:
    if isinstance(memory, Mapping):
        return tuple(BlockSpec(label=label, value=value) for label, value in memory.items())
    return tuple(memory)


class Agent:
    """An agent of an open store. It holds nothing but the agent's id: all state is in the store (I1)."""

    def __init__(self, runtime: Runtime, agent_id: str) -> None:
        self._runtime = runtime
        self.id = agent_id

    def __repr__(self) -> str:
        """Show the id."""
        return f"<Agent {self.id}>"

    async def state(self) -> AgentState:
        """Return the whole of the agent but its messages. Raises ``NotFound`` once it is deleted."""
        await follow_memory(self._runtime, self.id)
        return await self._runtime.db.read(lambda tx: agents.state(tx, self.id))

    async def update(self, **changes: Any) -> AgentState:
        """Change the named fields (those of ``AgentChanges``); the rest stays as it is."""
        return await agent_commands.update_agent(self._runtime, self.id, AgentChanges(**changes))

    async def delete(self) -> None:
        """Delete the agent and its messages. Its blocks stay in the store."""
        await agent_commands.delete_agent(self._runtime, self.id)

    async def send(
        self,
        text: str,
        *,
        max_steps: int = DEFAULT_MAX_STEPS,
        conversation_id: str | None = None,
        project: str | Path | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Send a user message and tell the events of the turn, to its ``RunEnded``.

        ``project`` is a working folder on this machine, whose skills (``.agents/skills``) the agent has in this turn.
        If another run holds the conversation, wait for it. Leaving the loop early cancels the turn; what was stored
        by then stays. Raises ``NotFound``, ``ConversationBusy``, ``InvalidInput`` and ``StoreError`` before the first
        event; a failing model is no exception but the ``error`` of ``RunEnded``.
        """
        handle = await self._runtime.start(
            TurnRequest(
                agent_id=self.id,
                conversation_id=conversation_id,
                messages=(NewMessage(role="user", parts=(TextPart(text=text),)),),
                max_steps=max_steps,
                on_busy="wait",
                project=Path(project) if project else None,
            )
        )
        try:
            async for event in handle.events():
                yield event
        finally:
            if handle.ended is None:
                handle.cancel()

    async def ask(self, text: str, *, max_steps: int = DEFAULT_MAX_STEPS, project: str | Path | None = None) -> str:
        """Send a user message, wait for the end of the turn, and return what the agent said.

        Raises ``TurnFailed`` when the turn ended with an error.
        """
        said: list[str] = []
        async for event in self.send(text, max_steps=max_steps, project=project):
            if isinstance(event, MessageStored) and event.message.role == "assistant":
                said.append(event.message.text)
            if isinstance(event, RunEnded) and event.error:
                raise TurnFailed(event)
        return "\n".join(filter(None, said))

    async def block(self, label: str) -> Block:
        """Return the block of this label. Raises ``NotFound``."""
        await follow_memory(self._runtime, self.id)
        homes = self._runtime.homes
        return await self._runtime.db.read(lambda tx: block_by_label(tx, homes, self.id, label))

    async def update_block(
        self, label: str, /, *, expected_revision: int | None = None, why: str = "", **changes: Any
    ) -> Block:
        """Change the named fields of a block (those of ``BlockChanges``), and return it.

        ``why`` is kept with the block's revision, and is said by the commit if memory is files. Raises ``NotFound``,
        ``BlockLimitExceeded``, ``ReadOnlyBlock`` and ``StaleRevision``.
        """
        await follow_memory(self._runtime, self.id)
        now = utc_now()
        named = BlockChanges(**changes)
        return await self._runtime.db.write(
            lambda tx: update_by_label(
                tx,
                self._runtime.homes,
                self.id,
                label,
                named,
                expected_revision=expected_revision,
                why=why,
                now=now,
            )
        )

    @property
    def memory(self) -> AgentMemory:
        """The agent's memory files and their history, for an agent whose memory is files."""
        return AgentMemory(self._runtime, self.id)

    @property
    def skills(self) -> AgentSkills:
        """The agent's skills."""
        return AgentSkills(self._runtime, self.id)

    async def window(self) -> tuple[Message, ...]:
        """Return the messages in context, without the system message; they are the caller's own copies."""
        held = await self._runtime.db.read(lambda tx: conversations.window(tx, conversations.default(tx, self.id)))
        # The store keeps what it has decoded, and what a provider gave with a part is a dict that can be changed.
        return deepcopy(held)

    async def prompt(self) -> str:
        """Return the compiled system message that the next request carries."""
        return (await read_system_message(self._runtime, self.id)).text

    async def manifest(self) -> Manifest:
        """Return every part of the agent with revision, hash, size and source."""
        return await manifest(self._runtime, self.id)

    async def verify(self) -> Verification:
        """Compile afresh, compare byte for byte with what is stored, and say what differs."""
        return await verify(self._runtime, self.id)

    async def request_of(self, step_id: str) -> ReplayedRequest:
        """Return the exact request of a past step."""
        return await step_request(self._runtime, step_id)


class Home:
    """An open store."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def create_agent(
        self, *, model: str, memory: Mapping[str, str] | Sequence[BlockSpec] = (), **fields: Any
    ) -> Agent:
        """Create an agent with its memory, model and tools.

        ``memory`` is labels with values, or blocks in full; ``fields`` are those of ``AgentSpec``. Raises
        ``InvalidInput``, ``NotFound`` and ``BlockLimitExceeded``; then nothing is stored.
        """
        spec = AgentSpec(model=model, memory_blocks=_blocks(memory), **fields)
        state = await agent_commands.create_agent(self.runtime, spec)
        return Agent(self.runtime, state.agent.id)

    async def agent(self, id_or_name: str) -> Agent:
        """Open an agent by its id, or by its name if only one has it. Raises ``NotFound`` and ``InvalidInput``."""
        if is_id("agent", id_or_name):
            await self.runtime.db.read(lambda tx: agents.get(tx, id_or_name))
            return Agent(self.runtime, id_or_name)
        query = AgentQuery(name=id_or_name, limit=2)
        found = await self.runtime.db.read(lambda tx: agents.page(tx, query))
        if not found:
            raise NotFound("Agent", id_or_name, f"There is no agent named {id_or_name!r}")
        if len(found) > 1:
            raise InvalidInput(f"Several agents are named {id_or_name!r}; open it by its id.", field="name")
        return Agent(self.runtime, found[0].id)

    async def agents(self) -> list[Agent]:
        """Return all agents, oldest first."""
        query = AgentQuery(limit=1_000_000, order="asc")
        found = await self.runtime.db.read(lambda tx: agents.page(tx, query))
        return [Agent(self.runtime, agent.id) for agent in found]

    @property
    def mcp(self) -> HomeMcp:
        """The MCP servers whose tools agents can have."""
        return HomeMcp(self.runtime)


@asynccontextmanager
async def open(  # noqa: A001 - read as eunoe.open
    path: str | Path | None = None, *, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Home, None]:
    """Open the store in a folder (``EUNOE_HOME`` or ``~/.eunoe`` when none is given), making it if need be.

    ``environment`` is where model endpoints and keys are read from; the process's own by default. Raises
    ``StoreError`` and its kinds.
    """
    settings = settings_from(os.environ if environment is None else environment, path)
    async with open_runtime(settings) as runtime, reflecting(runtime):
        yield Home(runtime)


class SyncAgent:
    """``Agent`` without ``async``: every method runs in the store's own thread."""

    def __init__(self, portal: BlockingPortal, agent: Agent) -> None:
        self._portal = portal
        self._agent = agent
        self.id = agent.id

    def send(self, text: str, *, max_steps: int = DEFAULT_MAX_STEPS) -> Generator[Event, None, None]:
        """Send a user message and tell the events of the turn. Leaving the loop early cancels it."""
        with self._portal.wrap_async_context_manager(_events(self._agent, text, max_steps)) as events:
            while True:
                try:
                    yield self._portal.call(events.__anext__)
                except StopAsyncIteration:
                    return

    @property
    def memory(self) -> "SyncPart":
        """``Agent.memory`` without ``async``."""
        return SyncPart(self._portal, self._agent.memory)

    @property
    def skills(self) -> "SyncPart":
        """``Agent.skills`` without ``async``."""
        return SyncPart(self._portal, self._agent.skills)

    def __getattr__(self, name: str) -> Any:
        """Give ``Agent``'s other methods, each waiting for its result."""
        return _waiting(self._portal, getattr(self._agent, name))


class SyncPart:
    """``AgentMemory``, ``AgentSkills`` or ``HomeMcp`` without ``async``."""

    def __init__(self, portal: BlockingPortal, part: AgentMemory | AgentSkills | HomeMcp) -> None:
        self._portal = portal
        self._part = part

    def __getattr__(self, name: str) -> Any:
        """Give its methods, each waiting for its result."""
        return _waiting(self._portal, getattr(self._part, name))


def _waiting(portal: BlockingPortal, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return portal.call(lambda: method(*args, **kwargs))

    return call


@asynccontextmanager
async def _events(agent: Agent, text: str, max_steps: int) -> AsyncGenerator[AsyncIterator[Event], None]:
    events = agent.send(text, max_steps=max_steps)
    try:
        yield events
    finally:
        await events.aclose()


class SyncHome:
    """``Home`` without ``async``."""

    def __init__(self, portal: BlockingPortal, home: Home) -> None:
        self._portal = portal
        self._home = home

    def create_agent(
        self, *, model: str, memory: Mapping[str, str] | Sequence[BlockSpec] = (), **fields: Any
    ) -> SyncAgent:
        """Create an agent; see ``Home.create_agent``."""
        return SyncAgent(
            self._portal, self._portal.call(lambda: self._home.create_agent(model=model, memory=memory, **fields))
        )

    def agent(self, id_or_name: str) -> SyncAgent:
        """Open an agent; see ``Home.agent``."""
        return SyncAgent(self._portal, self._portal.call(self._home.agent, id_or_name))

    def agents(self) -> list[SyncAgent]:
        """Return all agents, oldest first."""
        return [SyncAgent(self._portal, agent) for agent in self._portal.call(self._home.agents)]

    @property
    def mcp(self) -> SyncPart:
        """``Home.mcp`` without ``async``."""
        return SyncPart(self._portal, self._home.mcp)


@contextmanager
def open_sync(
    path: str | Path | None = None, *, environment: Mapping[str, str] | None = None
) -> Generator[SyncHome, None, None]:
    """Open a store for a script; see ``open``."""
    opening: Callable[[], AbstractAsyncContextManager[Home]] = lambda: open(path, environment=environment)  # noqa: E731
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opening()) as home:
        yield SyncHome(portal, home)
