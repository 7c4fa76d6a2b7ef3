"""A history in one file, out and in: git bundles, made and fetched by the ``git`` program."""

import os
import secrets
import subprocess
from pathlib import Path
from typing import Final

from msgspec import Struct

from eunoe.memory.git_library import named_commit
from eunoe.memory.repository import MemoryRepository
from eunoe.state.errors import InvalidInput, StoreError

GIT_SECONDS: Final = 300.0
_MAIN: Final = "refs/heads/main"


class FetchedHistory(Struct, frozen=True, kw_only=True):
    """A commit that was fetched, and the reference that keeps it until it is merged."""

    commit: str
    reference: str


def write_bundle(repository: MemoryRepository, target: Path, seconds: float = GIT_SECONDS) -> None:
    """Write all branches and tags with their history to a file. Raises ``StoreError`` when git cannot."""
    _git(repository, ["bundle", "create", "--quiet", str(target), "HEAD", "--branches", "--tags"], seconds)


def fetch_history(repository: MemoryRepository, source: Path, seconds: float = GIT_SECONDS) -> FetchedHistory:
    """Take over the objects of a bundle or of another repository, for the commit of its main (or its HEAD).

    No branch moves. Raises ``InvalidInput`` for a source that git cannot read, and ``StoreError`` without git.
    """
    place = str(source.absolute())
    reference = f"refs/eunoe/import-{secrets.token_hex(8)}"
    try:
        listed = _git(repository, ["ls-remote", place, _MAIN, "HEAD"], seconds)
        names = [line.partition("\t")[2] for line in listed.splitlines()]
        name = _MAIN if _MAIN in names else "HEAD"
        fetch = ["-c", "fetch.fsckObjects=true", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"]
        _git(repository, [*fetch, place, f"+{name}:{reference}"], seconds)
    except StoreError as error:
        raise InvalidInput(f"{source} cannot be imported: {error.message}", field="source") from error
    commit = named_commit(repository.handle(), reference)
    if commit is None:
        raise InvalidInput(f"{source} holds no commit, so there is nothing to import.", field="source")
    return FetchedHistory(commit=commit, reference=reference)


def forget_fetched(repository: MemoryRepository, fetched: FetchedHistory) -> None:
    """Let go of what was fetched, once it is merged or refused."""
    repository.handle().lookup_reference(fetched.reference).delete()


def _git(repository: MemoryRepository, words: list[str], seconds: float) -> str:
    command = ["git", "-C", str(repository.path), "-c", "protocol.ext.allow=never"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours, and paths are single absolute arguments
            [*command, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**environment, "GIT_TERMINAL_PROMPT": "0"},
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise StoreError(
            "There is no git on the PATH, which import and export with history need. Install git."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise StoreError(f"git took longer than {seconds:g} seconds and was stopped.") from error
    if done.returncode != 0:
        raise StoreError(f"git says: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8", "replace")
