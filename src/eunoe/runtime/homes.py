"""Where the repositories of memory files are, and those that are open."""

import logging
import os
import threading
from datetime import datetime
from pathlib import Path
from typing import Final

from eunoe.memory.git_library import Author
from eunoe.memory.hooks import renew_hook
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.repository_create import clear_unfinished
from eunoe.state.errors import StoreError

USER: Final = Author("User", "user@eunoe.local")
"""Who signs what the person at this machine changes by Python, the terminal, or a server without a token."""

API_KEY: Final = Author("API key", "api-key@eunoe.local")
"""Who signs what comes to a server with the token. It has one, so it cannot tell who of those that have it asks."""

_log: Final = logging.getLogger(__name__)


class MemoryHomes:
    """The memory repositories of a store: one folder for each agent, under ``memory/`` of the store's home.

    Any thread may use it; a repository is opened once and kept. ``caller`` signs what this process is asked to change
    and no agent changes itself.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.caller = USER
        self._text = str(folder)
        self._open: dict[str, MemoryRepository] = {}
        self._lock = threading.Lock()
        self._cleared = False

    def path(self, agent_id: str) -> Path:
        """Return the folder of an agent's memory files."""
        return self.folder / agent_id

    def worktree(self, agent_id: str, branch: str) -> Path:
        """Return the folder in which a branch of an agent's memory files is worked on."""
        return self._worktrees(agent_id) / branch.rpartition("/")[2]

    def _worktrees(self, agent_id: str) -> Path:
        return self.folder / "worktrees" / agent_id

    def exists(self, agent_id: str) -> bool:
        """Say whether the agent has a repository, in use or from an earlier time."""
        # Asked before each request about an agent: a Path costs five times what the look itself does.
        return os.path.exists(f"{self._text}/{agent_id}/.git")  # noqa: PTH110 - see above

    def repository(self, agent_id: str) -> MemoryRepository:
        """Return an agent's repository. Raises ``StoreError`` when there is none or it cannot be read."""
        with self._lock:
            found = self._open.get(agent_id)
            if found is None:
                found = MemoryRepository.open(self.path(agent_id))
                self._renew_hook(found)
                self._open[agent_id] = found
            return found

    def _renew_hook(self, repository: MemoryRepository) -> None:
        try:
            renew_hook(repository)
        except (OSError, StoreError) as error:  # memory is readable without: what goes round a hook is judged later
            _log.warning("commits by hand in %s are not checked before they are made: %s", repository.path, error)

    def clear_unfinished(self) -> None:
        """Remove, once in this process, what others left that were killed while they made a repository."""
        with self._lock:
            if not self._cleared and self.folder.exists():
                clear_unfinished(self.folder)
            self._cleared = True

    def keep(self, agent_id: str, repository: MemoryRepository) -> None:
        """Keep a repository that was just made."""
        with self._lock:
            self._open[agent_id] = repository

    def put_aside(self, agent_id: str, now: datetime) -> Path | None:
        """Move the files of a deleted agent aside, so that nothing is lost by a slip, and return where they are."""
        with self._lock:
            self._open.pop(agent_id, None)
        if not self.path(agent_id).exists():
            return None
        aside = self.folder / "deleted" / f"{agent_id}-{now:%Y%m%dT%H%M%SZ}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        self.path(agent_id).rename(aside)
        if self._worktrees(agent_id).exists():
            self._worktrees(agent_id).rename(aside.with_name(f"{aside.name}.worktrees"))
        return aside
