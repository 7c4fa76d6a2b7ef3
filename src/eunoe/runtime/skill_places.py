"""Which skills an agent has in a turn: the project's, its own, what the client brings, and the global ones."""

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct, structs

from eunoe.memory.skill_folders import PROJECT_SKILLS, is_there, skills_in
from eunoe.memory.skills import FoundSkill, Skills, UnreadSkill, discover, merged, read_skill
from eunoe.prompt.skills import Skill
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.turn import TurnRequest
from eunoe.state.agents import AgentState
from eunoe.state.blocks import Block
from eunoe.state.errors import InvalidInput
from eunoe.tools.files import LOAD_SKILL

SKILLS: Final = "skills/"
AGENT_ROOT: Final = "${MEMORY_DIR}/skills"
"""How the folder of an agent's own skills is told (Letta v1's name for it)."""


class OutsideSkills(Struct, frozen=True, kw_only=True):
    """The skills that are no agent's own: of the caller's working folder, and the global ones."""

    project: Skills = Skills()
    everywhere: Skills = Skills()


def outside_skills(folder: Path, project: Path | None) -> OutsideSkills:
    """Look for the skills of the store's home and of a working folder. Blocks for as long as the disk takes."""
    return OutsideSkills(
        project=skills_in(project / PROJECT_SKILLS, "project", within=project) if project is not None else Skills(),
        everywhere=skills_in(folder, "global"),
    )


async def find_outside(folder: Path, project: Path | None) -> OutsideSkills:
    """As ``outside_skills``, in a worker thread; where neither folder is, that is all it costs to know it."""
    if not _any_there(folder, project):
        return OutsideSkills()
    return await anyio.to_thread.run_sync(outside_skills, folder, project)


def _any_there(folder: Path, project: Path | None) -> bool:
    return is_there(folder) or (project is not None and is_there(project / PROJECT_SKILLS))


def own_skills(homes: MemoryHomes, state: AgentState) -> Skills:
    """Return an agent's own skills: those of its memory files, or its blocks labelled ``skills/<name>``."""
    head = state.memory
    if head is None:
        return _of_blocks(state.blocks)
    first, end = bisect_left(head.names, SKILLS), bisect_left(head.names, "skills0")  # '0' comes after '/'
    if first == end:
        return Skills()
    repository = homes.repository(head.agent_id)
    files = repository.snapshot(head.revision)

    def read(path: str) -> bytes:
        entry = files.entry(SKILLS + path)
        if entry is None:
            raise InvalidInput(f"commit {head.revision[:10]} has no such file")
        return repository.read(entry.blob_id)

    return discover((path.removeprefix(SKILLS) for path in head.names[first:end]), read, "agent", AGENT_ROOT)


def all_skills(homes: MemoryHomes, state: AgentState, outside: OutsideSkills) -> Skills:
    """Return all skills of an agent, each name once: the project's before its own before the global ones."""
    return merged((outside.project, own_skills(homes, state), outside.everywhere))


def turn_skills(
    homes: MemoryHomes, state: AgentState, request: TurnRequest, outside: OutsideSkills
) -> tuple[Skill, ...]:
    """Return what a turn's requests list. What the client brings comes after the agent's own, before the global ones.

    Skills from outside are listed for agents that can load them.
    """
    can_load = any(tool.name == LOAD_SKILL.name for tool in state.tools)
    near = merged((outside.project, own_skills(homes, state)) if can_load else (own_skills(homes, state),))
    shown = [*listed(near), *request.client_skills]
    return (*shown, *listed(outside.everywhere)) if can_load else tuple(shown)


def listed(skills: Skills) -> tuple[Skill, ...]:
    """Return skills as a prompt lists them; one that cannot be read is listed with the reason."""
    shown = [
        Skill(name=one.name, description=one.text.description, location=one.path)
        for one in skills.skills
        if not one.text.disabled
    ]
    named = {one.name for one in skills.skills}
    shown += (
        Skill(name=one.name, description=f"cannot be read: {one.reason}", location=one.path)
        for one in skills.unread
        if one.name not in named
    )
    return tuple(shown)


def _of_blocks(blocks: Sequence[Block]) -> Skills:
    found: dict[str, FoundSkill] = {}
    unread: list[UnreadSkill] = []
    for block in blocks:
        name = block.label.removeprefix(SKILLS).removesuffix("/SKILL")
        if not block.label.startswith(SKILLS) or not name:
            continue
        folder = f"{AGENT_ROOT}/{name}"
        path = f"{folder}/SKILL.md"
        try:
            text = read_skill(block.value.encode(), path)
        except InvalidInput as error:
            unread.append(UnreadSkill(name=name, source="agent", path=path, reason=error.message))
            continue
        if block.description:
            text = structs.replace(text, description=block.description)
        found.setdefault(name, FoundSkill(name=name, source="agent", folder=folder, path=path, text=text))
    return Skills(skills=tuple(found.values()), unread=tuple(unread))
