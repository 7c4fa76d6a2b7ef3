"""How an agent's memory files are now: what counts, what does not, what is wrong, and what a person should do."""

from typing import Literal

from msgspec import Struct, structs

from eunoe.memory.file_problems import FileProblem
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.status import WorkingTree, status
from eunoe.memory.working_check import working_tree_problems
from eunoe.runtime.following import problems_of, standing
from eunoe.runtime.memory_history import in_repository
from eunoe.runtime.mirrors import MirrorStatus, mirror_shown
from eunoe.runtime.prompts import conversation_model, current_prompt
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.memory import MemoryHead, UnreadCommit
from eunoe.store import agents, memory_mirrors, reflections
from eunoe.store.database import Transaction

CONFLICTS = "conflicts/"
"""The folder in which a merge keeps the second form of a file that both sides changed."""


class MemoryStatus(Struct, frozen=True, kw_only=True):
    """How memory stands.

    ``head`` is the commit that memory is at, ``main`` that of the branch on disk. ``unread`` is a newer commit that
    cannot be memory, and why. ``unpublished`` says that main is behind, ``stale`` that the default conversation's
    prompt shows something older (``compiled_from``). ``conflicts`` are files that wait for somebody to bring two forms
    together. ``mirror`` says how the mirror stands, if there is one. ``said`` is all of it that somebody should know,
    in sentences; empty when all is well.
    """

    agent_id: str
    folder: str
    layout: Literal[1, 2]
    head: str
    main: str | None
    unread: UnreadCommit | None
    unpublished: bool
    stale: bool
    compiled_from: str | None
    working_tree: WorkingTree
    clean: bool
    conflicts: tuple[str, ...]
    mirror: MirrorStatus | None
    said: tuple[str, ...]


class MemoryProblem(Struct, frozen=True, kw_only=True):
    """One rule that one file breaks, in main or only in the working tree. ``line`` counts from 1."""

    where: Literal["main", "working tree"]
    path: str
    rule: str
    message: str
    line: int | None = None


class MemoryCheck(Struct, frozen=True, kw_only=True):
    """Everything that is wrong with the files of main (``commit``) and with what is not committed yet."""

    ok: bool
    commit: str
    problems: tuple[MemoryProblem, ...]


async def memory_status(runtime: Runtime, agent_id: str) -> MemoryStatus:
    """Look at repository, working tree, store and prompt. Raises ``NotFound``, ``Conflict`` and ``StoreError``."""
    now = utc_now()
    mirror, waiting = await runtime.db.read(
        lambda tx: (memory_mirrors.get(tx, agent_id), reflections.waiting(tx, agent_id))
    )

    def prompt(tx: Transaction) -> tuple[bool, str | None]:
        state = agents.state(tx, agent_id)
        model = conversation_model(runtime.models, state, state.conversation)
        current = current_prompt(tx, state, state.conversation, model, now)
        compiled = state.conversation.compiled
        return not current.fresh, compiled.memory_revision[:40] if compiled and compiled.memory_revision else None

    def work(repository: MemoryRepository, head: MemoryHead) -> MemoryStatus:
        main, how = standing(repository, head.revision)
        tree = status(repository)
        paths = repository.snapshot(head.revision).below(CONFLICTS)
        conflicts = tuple(entry.path for entry in paths)
        unpublished = how == "behind"
        shown = mirror_shown(repository, mirror) if mirror else None
        return MemoryStatus(
            agent_id=agent_id,
            folder=str(repository.path),
            layout=head.layout,
            head=head.revision,
            main=main,
            unread=head.unread,
            unpublished=unpublished,
            stale=False,
            compiled_from=None,
            working_tree=tree,
            clean=tree.clean,
            conflicts=conflicts,
            mirror=shown,
            said=(*told(head, conflicts, shown, unpublished=unpublished), *_reviews(waiting), *tree.sentences()),
        )

    found = await in_repository(runtime, agent_id, work)
    stale, compiled_from = await runtime.db.read(prompt)
    return structs.replace(found, stale=stale, compiled_from=compiled_from)


def told(
    head: MemoryHead, conflicts: tuple[str, ...], mirror: MirrorStatus | None, *, unpublished: bool
) -> tuple[str, ...]:
    """Return what a person should know of a recorded head and its mirror, as sentences; none when all is well.

    A mirror that cannot be reached for now is not told: that passes.
    """
    said: list[str] = []
    if head.unread is not None:
        said.append(
            f"Commit {head.unread.revision[:10]} cannot be memory, so memory stays at {head.revision[:10]}: "
            f"{head.unread.reason}. Commit a correction."
        )
    if unpublished:
        said.append(
            f"Main is behind {head.revision[:10]}, where memory is; the next look at this agent moves it. "
            f"If it stays so, see whether another git process holds the repository."
        )
    if conflicts:
        names = ", ".join(repr(path) for path in conflicts[:5])
        many = f"{len(conflicts)} files hold" if len(conflicts) > 1 else "1 file holds"
        said.append(
            f"{many} the second form of what was changed on two sides: {names}. Bring each together with the first, "
            f"and delete it."
        )
    if mirror is not None and mirror.said is not None and mirror.state == "needs a person":
        said.append(mirror.said)
    return tuple(said)


def _reviews(waiting: int) -> tuple[str, ...]:
    if not waiting:
        return ()
    wait = "1 reflection waits" if waiting == 1 else f"{waiting} reflections wait"
    return (f"{wait} for somebody to accept or reject the edits (eunoe memory review).",)


async def memory_check(runtime: Runtime, agent_id: str) -> MemoryCheck:
    """Judge every file of main, and what is not committed. Raises ``NotFound``, ``Conflict`` and ``StoreError``."""

    def work(repository: MemoryRepository, head: MemoryHead) -> MemoryCheck:
        commit = repository.head() or head.revision
        problems = [_problem("main", one) for one in problems_of(repository, commit, None)]
        uncommitted = working_tree_problems(repository, commit, status(repository))
        problems += [_problem("working tree", one) for one in uncommitted]
        return MemoryCheck(ok=not problems, commit=commit, problems=tuple(problems))

    return await in_repository(runtime, agent_id, work)


def _problem(where: Literal["main", "working tree"], found: FileProblem) -> MemoryProblem:
    return MemoryProblem(where=where, path=found.path, rule=found.rule, message=found.message, line=found.line)
