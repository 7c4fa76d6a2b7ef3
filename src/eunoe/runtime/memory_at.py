"""What an agent knew at a past step: the system text that was sent, and the memory files that it was made from."""

from datetime import datetime

import anyio.to_thread
from msgspec import Struct

from eunoe.memory.paths import in_prompt, layout_of
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.runtime import Runtime
from eunoe.state.errors import NotFound
from eunoe.store import steps, texts
from eunoe.store.database import Transaction


class KnownFile(Struct, frozen=True, kw_only=True):
    """A memory file whose text the prompt had."""

    path: str
    text: str


class MemoryAtStep(Struct, frozen=True, kw_only=True):
    """What the agent knew when it was asked.

    ``system`` is the text that was sent. For memory in files, ``commit`` is the one that the agent had been told of
    (by the prompt, or by an update message), ``files`` those whose text is in the prompt, ``names`` all others.
    ``note`` says why there is no commit.
    """

    agent_id: str
    step_id: str
    at: datetime
    model: str | None
    system: str
    commit: str | None
    files: tuple[KnownFile, ...] = ()
    names: tuple[str, ...] = ()
    note: str | None = None


async def memory_at(runtime: Runtime, step_id: str, agent_id: str | None = None) -> MemoryAtStep:
    """Return what the agent knew at a step. Raises ``NotFound``, also for a step of another agent."""

    def read(tx: Transaction) -> tuple[MemoryAtStep, str | None]:
        step = steps.get(tx, step_id)
        if agent_id not in (None, step.agent_id):
            raise NotFound("Step", step_id, f"Agent {agent_id} has no step {step_id}.")
        if step.request is None:
            raise NotFound("Request", step_id, f"Step {step_id} made no request to a model, so it was told nothing.")
        known = MemoryAtStep(
            agent_id=step.agent_id,
            step_id=step_id,
            at=step.created_at,
            model=step.model,
            system=texts.get(tx, step.request.system_hash),
            commit=None,
            note="Memory was blocks then: the system text shows them.",
        )
        return known, step.request.memory_commit

    known, commit = await runtime.db.read(read)
    if commit is None:
        return known
    return await anyio.to_thread.run_sync(_with_files, runtime.homes, known, commit)


def _with_files(homes: MemoryHomes, known: MemoryAtStep, commit: str) -> MemoryAtStep:
    repository = homes.repository(known.agent_id)
    entries = repository.snapshot(commit).entries
    layout = layout_of(entry.path for entry in entries)
    shown = [entry for entry in entries if in_prompt(entry.path, layout)]
    return MemoryAtStep(
        agent_id=known.agent_id,
        step_id=known.step_id,
        at=known.at,
        model=known.model,
        system=known.system,
        commit=commit,
        files=tuple(KnownFile(path=entry.path, text=repository.read(entry.blob_id).decode()) for entry in shown),
        names=tuple(entry.path for entry in entries if not in_prompt(entry.path, layout)),
    )
