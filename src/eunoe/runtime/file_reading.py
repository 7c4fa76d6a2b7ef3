"""Tools that read memory files and skills: a worker thread, one commit, bounded answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread

from eunoe.memory.arguments import Arguments
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.file_views import MemoryView
from eunoe.memory.front_matter import decode
from eunoe.memory.pages import page_of
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.revisions import resolve
from eunoe.memory.skill_folders import files_of, read_file_of
from eunoe.memory.skills import FoundSkill, Skills, loaded
from eunoe.runtime.following import require_files
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.skill_places import SKILLS, all_skills, outside_skills
from eunoe.runtime.turn import Turn
from eunoe.state.agents import AgentState
from eunoe.state.errors import InvalidInput, NotFound
from eunoe.store import agents, memory_heads
from eunoe.store.database import Database
from eunoe.tools.files import FILE_SCHEMAS, LOAD_SKILL


class FileReader:
    """Runs the tools that read memory files and skills. ``skills_folder`` is that of the global skills."""

    def __init__(self, database: Database, homes: MemoryHomes, skills_folder: Path) -> None:
        self._database = database
        self._homes = homes
        self._skills_folder = skills_folder

    async def run(self, turn: Turn, name: str, given: Mapping[str, Any]) -> str:
        """Run one call and return what the model reads.

        Raises an ``EunoeError`` with a sentence for the model when the call cannot be done.
        """
        schema = LOAD_SKILL if name == LOAD_SKILL.name else FILE_SCHEMAS[name]
        arguments = Arguments(name, given, frozenset(schema.parameters["properties"]))
        if name == LOAD_SKILL.name:
            return await self._load(turn, arguments)
        repository, commit = await self._place(turn)
        return await anyio.to_thread.run_sync(_view, repository, commit, name, arguments)

    async def _place(self, turn: Turn) -> tuple[MemoryRepository, str]:
        """Return the repository and the commit that the turn's memory is at now."""
        branch = turn.request.memory_branch
        if branch is not None:
            repository = self._homes.repository(branch.agent_id)
            return repository, branch.tip or await anyio.to_thread.run_sync(resolve, repository, branch.name)
        agent_id = turn.state.agent.id
        head = require_files(await self._database.read(lambda tx: memory_heads.get(tx, agent_id)), agent_id)
        return self._homes.repository(agent_id), head.revision

    async def _load(self, turn: Turn, arguments: Arguments) -> str:
        state = await self._database.read(lambda tx: agents.state(tx, turn.state.agent.id))
        return await anyio.to_thread.run_sync(self._read_skill, state, turn.request.project, arguments)

    def _read_skill(self, state: AgentState, project: Path | None, arguments: Arguments) -> str:
        name, file, offset = arguments.text("name"), arguments.optional_text("file"), arguments.count("offset")
        known = all_skills(self._homes, state, outside_skills(self._skills_folder, project))
        skill = find_skill(known, name.strip().strip("/"))
        text = loaded(skill, skill_files(state, skill))
        if file:
            data = skill_file(self._homes, state, skill, file)
            found = decode(data, file)
            if isinstance(found, FileProblem):
                raise InvalidInput(f"{file!r} is no text; it has {len(data)} bytes.", field="file")
            text = found
        return page_of(text or "(empty file)", offset, file or f"The skill {skill.name!r}")


def _view(repository: MemoryRepository, commit: str, name: str, arguments: Arguments) -> str:
    view = MemoryView(repository, commit)
    match name:
        case "memory_open":
            return view.open(arguments.text("path"), arguments.count("offset"))
        case "memory_list":
            return view.list(arguments.optional_text("path") or "", arguments.count("offset"))
        case "memory_search":
            return view.search(arguments.text("query"))
        case _:
            before = arguments.optional_text("before")
            return view.history(arguments.text("path"), resolve(repository, before) if before else None)


def find_skill(skills: Skills, name: str) -> FoundSkill:
    """Return the skill of this name. Raises ``NotFound`` with the names there are, or why it cannot be read."""
    for skill in skills.skills:
        if skill.name == name:
            return skill
    for unread in skills.unread:
        if unread.name == name:
            raise InvalidInput(f"The skill {name!r} ({unread.path}) cannot be read: {unread.reason}.", field="name")
    names = ", ".join(skill.name for skill in skills.skills) or "none"
    raise NotFound("Skill", name, f"There is no skill {name!r} here. There are: {names}.")


def skill_files(state: AgentState, skill: FoundSkill) -> tuple[str, ...]:
    """Return the paths of a skill's files but its ``SKILL.md``, relative to its folder."""
    if skill.source != "agent":
        return files_of(skill)
    if state.memory is None:
        return ()
    prefix = f"{SKILLS}{skill.name}/"
    main = prefix + skill.path.rpartition("/")[2]
    return tuple(path.removeprefix(prefix) for path in state.memory.names if path.startswith(prefix) and path != main)


def skill_file(homes: MemoryHomes, state: AgentState, skill: FoundSkill, path: str) -> bytes:
    """Return a file of a skill. Raises ``NotFound``, and ``InvalidInput`` for a path that leads out of its folder."""
    if skill.source != "agent":
        return read_file_of(skill, path)
    if path not in skill_files(state, skill) or state.memory is None:
        raise NotFound("file", path, f"The skill {skill.name!r} has no file {path!r}.")
    repository = homes.repository(state.agent.id)
    entry = repository.snapshot(state.memory.revision).entry(f"{SKILLS}{skill.name}/{path}")
    if entry is None:
        raise NotFound("file", path, f"The skill {skill.name!r} has no file {path!r}.")
    return repository.read(entry.blob_id)
