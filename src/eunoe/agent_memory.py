"""The memory files of an agent, for the Python door: what is there, what was, who wrote it, and changing it."""

from collections.abc import Sequence
from pathlib import Path

from eunoe.memory.mirror_address import absolute_address
from eunoe.memory.revisions import NamedCommit
from eunoe.runtime import (
    memory_branches,
    memory_history,
    memory_transfer,
    mirrors,
    reflecting,
    reflection,
    reflection_review,
)
from eunoe.runtime.memory_at import MemoryAtStep, memory_at
from eunoe.runtime.memory_branches import MergeOutcome, MergePolicy
from eunoe.runtime.memory_edits import MemoryChange, MemoryRestore, restore_files, write_files
from eunoe.runtime.memory_history import MemoryCommit, MemoryCommitShown, MemoryDiff, MemoryFiles, MemoryLine
from eunoe.runtime.memory_status import MemoryCheck, MemoryStatus, memory_check, memory_status
from eunoe.runtime.mirrors import MirrorStatus
from eunoe.runtime.reflection_review import ReflectionShown
from eunoe.runtime.runtime import Runtime
from eunoe.state.reflections import Reflection, ReflectionPolicy, ReflectionTrigger


class AgentMemory:
    """Memory files of one agent; it holds nothing but the id.

    A ``revision`` is a commit's id (at least 4 digits), a tag, a branch or ``HEAD~1`` and the like; ``None`` is memory
    as it is. Every method raises ``NotFound``, and ``Conflict`` for an agent whose memory is blocks.
    """

    def __init__(self, runtime: Runtime, agent_id: str) -> None:
        self._runtime = runtime
        self._id = agent_id

    async def status(self) -> MemoryStatus:
        """Return which commit memory is at, and everything that somebody should know, in words."""
        return await memory_status(self._runtime, self._id)

    async def check(self) -> MemoryCheck:
        """Judge every file of main and of the working tree."""
        return await memory_check(self._runtime, self._id)

    async def log(
        self, *paths: str, limit: int = 50, before: str | None = None, revision: str | None = None
    ) -> tuple[MemoryCommit, ...]:
        """Return commits, newest first; with paths, those that changed one of them."""
        return await memory_history.memory_log(
            self._runtime, self._id, paths=paths, limit=limit, before=before, revision=revision
        )

    async def show(self, revision: str) -> MemoryCommitShown:
        """Return a commit and what it changed."""
        return await memory_history.memory_show(self._runtime, self._id, revision)

    async def diff(self, old: str, new: str | None = None, *, paths: Sequence[str] = ()) -> MemoryDiff:
        """Return what differs between two revisions; ``nothing`` as the old one is before the first commit."""
        return await memory_history.memory_diff(self._runtime, self._id, old, new, paths=paths)

    async def blame(self, path: str, revision: str | None = None) -> tuple[MemoryLine, ...]:
        """Return the lines of a file, each with the commit, run, message and model that wrote it."""
        return await memory_history.memory_blame(self._runtime, self._id, path, revision)

    async def files(self, revision: str | None = None) -> MemoryFiles:
        """Return the files of a revision."""
        return await memory_history.memory_files(self._runtime, self._id, revision)

    async def read(self, path: str, revision: str | None = None) -> str:
        """Return a file's text. Raises ``InvalidInput`` for bytes that are no UTF-8; ``read_bytes`` gives those."""
        return (await memory_history.memory_file(self._runtime, self._id, path, revision)).text

    async def read_bytes(self, path: str, revision: str | None = None) -> bytes:
        """Return a file byte for byte."""
        return (await memory_history.memory_file(self._runtime, self._id, path, revision)).data

    async def write(self, path: str, text: str, *, expected: str | None = None, why: str = "") -> MemoryChange:
        """Write a file as one commit.

        ``expected`` is the commit that the text is based on. Raises ``StaleRevision`` if the file changed since, and
        the verdict on a file that may not be so.
        """
        return await write_files(self._runtime, self._id, {path: text.encode()}, expected=expected, why=why)

    async def delete(self, path: str, *, expected: str | None = None, why: str = "") -> MemoryChange:
        """Delete a file as one commit; it stays in the history."""
        return await write_files(self._runtime, self._id, {path: None}, expected=expected, why=why)

    async def restore(self, revision: str, *paths: str, expected: str | None = None, why: str = "") -> MemoryRestore:
        """Make files as they were at a revision, in a new commit: all, or those at and below paths."""
        return await restore_files(self._runtime, self._id, revision, paths, expected=expected, why=why)

    async def tags(self) -> tuple[NamedCommit, ...]:
        """Return the tags by name."""
        return await memory_branches.memory_tags(self._runtime, self._id)

    async def tag(self, name: str, revision: str | None = None, *, message: str = "") -> NamedCommit:
        """Give a revision a lasting name. Raises ``Conflict`` when it is taken."""
        return await memory_branches.create_memory_tag(self._runtime, self._id, name, revision, message=message)

    async def branches(self) -> tuple[NamedCommit, ...]:
        """Return the branches by name."""
        return await memory_branches.memory_branches(self._runtime, self._id)

    async def branch(self, name: str, revision: str | None = None) -> NamedCommit:
        """Begin a branch. Raises ``Conflict`` when the name is taken."""
        return await memory_branches.create_memory_branch(self._runtime, self._id, name, revision)

    async def delete_branch(self, name: str) -> None:
        """Delete a branch. Raises ``Conflict`` for main."""
        await memory_branches.delete_memory_branch(self._runtime, self._id, name)

    async def merge(self, revision: str, *, policy: MergePolicy = "abort", why: str = "") -> MergeOutcome:
        """Merge a branch into memory, and tell the paths that both sides changed."""
        return await memory_branches.merge_memory(self._runtime, self._id, revision, policy=policy, why=why)

    async def at(self, step_id: str) -> MemoryAtStep:
        """Return what the agent knew at a past step."""
        return await memory_at(self._runtime, step_id, self._id)

    async def reflect(
        self, *, policy: ReflectionPolicy = "auto", instructions: str = "", model: str | None = None
    ) -> Reflection:
        """Let a background agent bring memory up to date from what was said, and return how it ended."""
        return await reflection.reflect(self._runtime, self._id, policy=policy, instructions=instructions, model=model)

    async def reflect_when(
        self,
        *,
        every_steps: int | None = None,
        after_compaction: bool = False,
        policy: ReflectionPolicy = "auto",
        instructions: str = "",
        model: str | None = None,
    ) -> ReflectionTrigger:
        """Let reflections begin by themselves: after so many steps, or after a compaction, or both.

        They begin while the store is open here or a server or a chat runs on it. Raises ``InvalidInput`` for neither.
        """
        trigger = ReflectionTrigger(
            agent_id=self._id,
            every_steps=every_steps,
            after_compaction=after_compaction,
            policy=policy,
            instructions=instructions,
            model=model,
        )
        return await reflecting.set_trigger(self._runtime, trigger)

    async def reflects_when(self) -> ReflectionTrigger | None:
        """Return when reflections begin by themselves, ``None`` for never."""
        return await reflecting.find_trigger(self._runtime, self._id)

    async def reflect_when_asked(self) -> None:
        """Let no reflection begin by itself any more. Raises ``NotFound`` when none would."""
        await reflecting.remove_trigger(self._runtime, self._id)

    async def reflections(self) -> list[Reflection]:
        """Return the reflections, newest first."""
        return await reflection_review.list_reflections(self._runtime, self._id)

    async def reflection(self, reflection_id: str) -> ReflectionShown:
        """Return a reflection with its edits as one diff."""
        return await reflection_review.show_reflection(self._runtime, self._id, reflection_id)

    async def accept(self, reflection_id: str, *, policy: MergePolicy = "abort") -> Reflection:
        """Merge the edits of a reflection that waits. Raises ``Conflict`` when they collide with memory."""
        return await reflection_review.accept_reflection(self._runtime, self._id, reflection_id, policy=policy)

    async def reject(self, reflection_id: str) -> Reflection:
        """Drop the edits of a reflection that waits."""
        return await reflection_review.reject_reflection(self._runtime, self._id, reflection_id)

    async def mirror(self) -> MirrorStatus:
        """Return how the mirror stands. Raises ``NotFound`` when there is none."""
        return await mirrors.mirror_status(self._runtime, self._id)

    async def set_mirror(self, url: str | Path) -> MirrorStatus:
        """Mirror memory to a git remote (https, http, ssh, or a path); pushes come soon after each commit.

        Raises ``InvalidInput`` for an address that may not be, one with a password among them.
        """
        return await mirrors.set_mirror(self._runtime, self._id, absolute_address(str(url)))

    async def push_mirror(self) -> MirrorStatus:
        """Push to the mirror now, and return how it stands then; a failed push is no exception."""
        return await mirrors.push_mirror(self._runtime, self._id)

    async def remove_mirror(self) -> None:
        """Mirror memory no more; what the mirror has stays there."""
        await mirrors.remove_mirror(self._runtime, self._id)

    async def export(self, target: str | Path, revision: str | None = None) -> int:
        """Write the files into a new or empty folder, and return how many."""
        return await memory_transfer.export_folder(self._runtime, self._id, Path(target), revision)

    async def export_bundle(self, target: str | Path) -> None:
        """Write everything with its history to a git bundle."""
        await memory_transfer.export_bundle(self._runtime, self._id, Path(target))

    async def import_from(self, source: str | Path, *, policy: MergePolicy = "both", why: str = "") -> MergeOutcome:
        """Merge a folder, a clone or a git bundle into memory; nothing is written over."""
        return await memory_transfer.import_memory(self._runtime, self._id, Path(source), policy=policy, why=why)
