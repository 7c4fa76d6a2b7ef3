"""The skills of an agent, for the Python door."""

from pathlib import Path

from eunoe.runtime import skills
from eunoe.runtime.memory_edits import MemoryChange
from eunoe.runtime.runtime import Runtime
from eunoe.runtime.skills import SkillInstalled, SkillList, SkillShown


class AgentSkills:
    """Skills of one agent; it holds nothing but the id. ``project`` is a working folder whose skills count too."""

    def __init__(self, runtime: Runtime, agent_id: str) -> None:
        self._runtime = runtime
        self._id = agent_id

    async def list(self, *, project: str | Path | None = None) -> SkillList:
        """Return the skills that the agent has, and those that cannot be read."""
        return await skills.list_skills(self._runtime, self._id, project=Path(project) if project else None)

    async def show(self, name: str, *, project: str | Path | None = None) -> SkillShown:
        """Return a skill with its text. Raises ``NotFound``."""
        return await skills.show_skill(self._runtime, self._id, name, project=Path(project) if project else None)

    async def install(
        self,
        source: str | Path,
        *,
        name: str | None = None,
        path: str | None = None,
        revision: str | None = None,
        replace: bool = False,
    ) -> SkillInstalled:
        """Install a skill from a folder or a git address as one commit; no code of it is run.

        Raises ``Conflict`` when the name is taken or memory is blocks, and ``InvalidInput`` for a source that cannot be
        used.
        """
        return await skills.install_skill(
            self._runtime, self._id, str(source), name=name, path=path, revision=revision, replace=replace
        )

    async def remove(self, name: str) -> MemoryChange:
        """Remove one of the agent's own skills as one commit. Raises ``NotFound``."""
        return await skills.remove_skill(self._runtime, self._id, name)
