"""The skills of an agent, for people: which there are, what one says, and installing and removing its own.

An agent's own skills are memory files under ``skills/``: each change is a commit.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from eunoe.memory.skill_sources import SkillFiles, checked_files, clone, is_git_address, skill_from
from eunoe.memory.skills import FoundSkill, Skills, SkillSource, UnreadSkill, name_of_skill, read_skill
from eunoe.runtime.file_edits import Commit, FileStore
from eunoe.runtime.file_reading import find_skill, skill_files
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.memory_edits import MemoryChange, change_memory
from eunoe.runtime.runtime import Runtime
from eunoe.runtime.skill_places import SKILLS, all_skills, find_outside
from eunoe.state.agents import AgentState
from eunoe.state.errors import Conflict, InvalidInput, NotFound
from eunoe.store import agents


class SkillInfo(Struct, frozen=True, kw_only=True):
    """A skill as people are told of it. ``location`` is its ``SKILL.md``; ``disabled`` skills are for people only."""

    name: str
    source: SkillSource
    description: str
    location: str
    title: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    disabled: bool = False
    user_invocable: bool = True


class SkillList(Struct, frozen=True, kw_only=True):
    """An agent's skills by name, and those that cannot be read, with the reason."""

    skills: tuple[SkillInfo, ...]
    unread: tuple[UnreadSkill, ...]


class SkillShown(Struct, frozen=True, kw_only=True):
    """A skill with its text, and the paths of its other files."""

    skill: SkillInfo
    text: str
    files: tuple[str, ...]


class SkillInstalled(Struct, frozen=True, kw_only=True):
    """What an installation did: the skill's name, and the commit that it is in."""

    name: str
    change: MemoryChange


def _info(skill: FoundSkill) -> SkillInfo:
    return SkillInfo(
        name=skill.name,
        source=skill.source,
        description=skill.text.description,
        location=skill.path,
        title=skill.text.title,
        category=skill.text.category,
        tags=skill.text.tags,
        disabled=skill.text.disabled,
        user_invocable=skill.text.user_invocable,
    )


async def _known(runtime: Runtime, agent_id: str, project: Path | None) -> tuple[AgentState, Skills]:
    await follow_memory(runtime, agent_id)
    outside = await find_outside(runtime.settings.skills_folder, project)
    state = await runtime.db.read(lambda tx: agents.state(tx, agent_id))
    return state, await anyio.to_thread.run_sync(all_skills, runtime.homes, state, outside)


async def list_skills(runtime: Runtime, agent_id: str, *, project: Path | None = None) -> SkillList:
    """Return the skills that an agent has; ``project`` is a working folder whose skills count too.

    Raises ``NotFound``.
    """
    _, known = await _known(runtime, agent_id, project)
    return SkillList(skills=tuple(_info(skill) for skill in known.skills), unread=known.unread)


async def show_skill(runtime: Runtime, agent_id: str, name: str, *, project: Path | None = None) -> SkillShown:
    """Return a skill with its text. Raises ``NotFound``, and ``InvalidInput`` for one that cannot be read."""
    state, known = await _known(runtime, agent_id, project)
    skill = find_skill(known, name)
    files = await anyio.to_thread.run_sync(skill_files, state, skill)
    return SkillShown(skill=_info(skill), text=skill.text.body, files=files)


async def install_skill(
    runtime: Runtime,
    agent_id: str,
    source: str,
    *,
    name: str | None = None,
    path: str | None = None,
    revision: str | None = None,
    replace: bool = False,
) -> SkillInstalled:
    """Install a skill from a folder of this machine or from a git address (https, ssh, file) as one commit.

    ``path`` is the skill's folder in the source, where it holds several; ``revision`` a branch or tag of the
    repository. ``replace`` puts it in place of one that has the name. No code of the source is run. Raises
    ``NotFound``, ``Conflict`` (the name is taken; memory is blocks), ``InvalidInput`` for a source that cannot be used,
    and the verdict on a file that may not be in memory; then nothing is changed.
    """
    skill = await _fetch(source, name, path, revision)
    # A query may hold a key, and the history is for ever.
    return await _install(runtime, agent_id, skill, f"From {source.partition('?')[0]}", replace=replace)


async def install_files(
    runtime: Runtime, agent_id: str, name: str, files: Mapping[str, bytes], *, replace: bool = False
) -> SkillInstalled:
    """Install a skill from its files by path, ``SKILL.md`` among them. Raises as ``install_skill`` does."""
    return await _install(runtime, agent_id, checked_files(name, files), "", replace=replace)


async def remove_skill(runtime: Runtime, agent_id: str, name: str) -> MemoryChange:
    """Remove one of the agent's own skills as one commit; it stays in the history.

    Raises ``NotFound``, and ``Conflict`` for an agent whose memory is blocks.
    """

    def edit(files: FileStore) -> None:
        held = _held(files, name)
        if not held:
            raise NotFound("Skill", name, f"The agent's memory has no skill {name!r}. Global ones are removed by hand.")
        files.commit(dict.fromkeys(held), Commit(actor="user", subject=f"Remove skill {name}"))

    return await change_memory(runtime, agent_id, edit)


async def _install(runtime: Runtime, agent_id: str, skill: SkillFiles, why: str, *, replace: bool) -> SkillInstalled:
    try:
        read_skill(skill.files["SKILL.md"], "SKILL.md")
    except InvalidInput as error:
        raise InvalidInput(f"The skill {skill.name!r} cannot be read: {error.message}.", field="source") from error

    def edit(files: FileStore) -> None:
        held = _held(files, skill.name)
        if held and not replace:
            raise Conflict(f"The agent has a skill {skill.name!r} already. Say so if it shall be replaced.")
        changes: dict[str, bytes | None] = dict.fromkeys(held)
        changes.update({f"{SKILLS}{skill.name}/{path}": data for path, data in skill.files.items()})
        verb = "Replace" if held else "Install"
        files.commit(changes, Commit(actor="user", subject=f"{verb} skill {skill.name}", why=why))

    return SkillInstalled(name=skill.name, change=await change_memory(runtime, agent_id, edit))


def _held(files: FileStore, name: str) -> list[str]:
    """Return the paths of an installed skill without those of skills below it; a folder of skills is none."""
    paths = [entry.path for entry in files.repository.snapshot(files.head.revision).below(f"{SKILLS}{name}")]
    names = {found for path in paths if (found := name_of_skill(path.removeprefix(SKILLS)))}
    inner = tuple(f"{SKILLS}{one}/" for one in names - {name})
    return [path for path in paths if not path.startswith(inner)] if name in names else []


async def _fetch(source: str, name: str | None, path: str | None, revision: str | None) -> SkillFiles:
    if not is_git_address(source):
        if revision is not None:
            raise InvalidInput("A folder has no revision; name a git address.", field="revision")
        return await anyio.to_thread.run_sync(lambda: skill_from(Path(source), below=path, name=name))
    with tempfile.TemporaryDirectory(prefix="eunoe-skill-") as temporary:
        target = Path(temporary) / "source"
        submodules = await clone(source, target, revision)
        return await anyio.to_thread.run_sync(
            lambda: skill_from(target, below=path, name=name, called=_called(source), without=submodules)
        )


def _called(address: str) -> str:
    """Return what a repository is called: the last part of its address."""
    return address.rstrip("/").replace(":", "/").rpartition("/")[2].removesuffix(".git")
