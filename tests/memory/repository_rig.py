"""What the tests of memory repositories share: repositories in a folder of the test, and the real git beside them."""

import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from eunoe.memory.git_library import Author
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.repository_create import create_repository

WHEN = datetime(2026, 3, 1, 12, 30, 15, tzinfo=timezone(timedelta(hours=2)))
LATER = datetime(2026, 3, 2, tzinfo=UTC)
AGENT = Author("Mnemosyne", "agent-1@eunoe.local")
PERSONA = "system/persona.md"


def git_environment(folder: Path) -> dict[str, str]:
    """An environment in which git knows no person, no machine-wide settings and never asks."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
    }


def git(folder: Path, *arguments: str, check: bool = True, data: bytes | None = None, **extra: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        input=data,
        capture_output=True,
        env={**git_environment(folder.parent), **extra},
        timeout=60,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"git {arguments} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode("utf-8", "surrogateescape") + ("" if check else done.stderr.decode())


def make(folder: Path, files: Mapping[str, bytes] | None = None, name: str = "agent-1") -> MemoryRepository:
    return create_repository(
        folder / name,
        agent_id=name,
        agent_name="Mnemosyne",
        files={PERSONA: b"I remember.\n"} if files is None else files,
        message="Begin\n",
        when=WHEN,
    )


def write(repository: MemoryRepository, changes: Mapping[str, bytes | None], parent: str | None = None) -> str:
    """Write a commit on head, or on another parent; nothing moves."""
    return repository.write_commit(parent or repository.head(), changes, author=AGENT, message="Change\n", when=LATER)


def contents(repository: MemoryRepository, commit: str) -> dict[str, bytes]:
    return {entry.path: repository.read(entry.blob_id) for entry in repository.snapshot(commit).entries}
