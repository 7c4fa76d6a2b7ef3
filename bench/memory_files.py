"""Reading memory files for a prompt costs what changed, not what there is (I6)."""

import gc
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.clock import median, quiet
from bench.figures import Figure
from eunoe.memory.git_library import Author
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.repository_create import create_repository

SIZES: Final = (10, 1_000, 10_000)
IN_PROMPT: Final = 50
"""Files under ``system/``, whose text every compilation needs (all of them in a small memory)."""

ROUNDS: Final = 15
SAME_ROUNDS: Final = 300

SAME_MS: Final = 0.2
CHANGED_MS: Final = 5.0
COLD_MS: Final = 60.0
HEAD_US: Final = 50.0

_AUTHOR: Final = Author("Bench", "bench@eunoe.local")


def measure() -> list[Figure]:
    """Measure reads of memories of several sizes."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            figures += _reads(Path(folder) / f"memory-{size}", size)
    return figures


def read_for_prompt(repository: MemoryRepository) -> int:
    """Do what a compilation reads: the head, all names, and the text of files under ``system/``; return its length."""
    head = repository.head()
    if head is None:
        return 0
    return sum(len(repository.read(entry.blob_id)) for entry in repository.snapshot(head).below("system"))


def _reads(path: Path, size: int) -> list[Figure]:
    repository = example_repository(path, size)
    _git(path, "gc", "--quiet")
    cold = [_ms(lambda: read_for_prompt(MemoryRepository.open(path))) for _ in range(ROUNDS)]
    read_for_prompt(repository)
    changed = [_changed(repository, number) for number in range(ROUNDS)]
    same = [_ms(lambda: read_for_prompt(repository)) for _ in range(SAME_ROUNDS)]
    head = [_ms(lambda: [repository.head() for _ in range(100)]) * 10 for _ in range(ROUNDS)]
    shown = [_ms(lambda: _git(path, "show", "main:system/0000.md")) for _ in range(ROUNDS)]
    in_prompt = min(size, IN_PROMPT)
    files = f"{size:,} memory files"
    largest = size == SIZES[-1]
    return [
        _told(f"{files}, first read", quiet(cold), COLD_MS if largest else None, f"packed, {in_prompt} in the prompt"),
        _told(f"{files}, one has changed", quiet(changed), CHANGED_MS, f"lower quartile of {ROUNDS}"),
        _told(f"{files}, nothing has changed", quiet(same), SAME_MS, f"lower quartile of {SAME_ROUNDS}"),
        Figure(name=f"{files}, which commit", value=quiet(head), reach=HEAD_US, unit="us"),
        _told(f"{files}, one git process a file", median(shown) * in_prompt, None, f"{in_prompt} times `git show`"),
    ]


def _told(name: str, value: float, reach: float | None, note: str) -> Figure:
    return Figure(name=name, value=value, reach=reach, unit="ms", note=note)


def write_example_files(path: Path, size: int) -> None:
    """Write so many memory files below a folder, the first of them under ``system/``."""
    for n in range(size):
        file = path / (f"system/{n:04}.md" if n < IN_PROMPT else f"notes/{n // 100:03}/{n:05}.md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"---\ndescription: Note %d\n---\n" % n + b"What is known about it, line after line.\n" * 20)


def example_repository(path: Path, size: int) -> MemoryRepository:
    """Make a repository with so many files in one commit."""
    # All files at once in one commit; made without waiting for the disk at each of them, which is not what is measured.
    create_repository(path, agent_id=path.name, agent_name="Bench", files={}, message="Begin", when=_now())
    write_example_files(path, size)
    _git(path, "add", "-A")
    _git(path, "commit", "-q", "-m", "Files")
    return MemoryRepository.open(path)


def _changed(repository: MemoryRepository, number: int) -> float:
    head = repository.head()
    new = commit_by_library(repository, head, "system/0000.md", number)
    repository.move_head(head, new)
    return _ms(lambda: read_for_prompt(repository))


def commit_by_library(repository: MemoryRepository, head: str | None, path: str, number: int) -> str:
    """Write a commit that changes one file on this head and return its id; main stays where it is."""
    changes = {path: b"---\ndescription: Changed\n---\nTo %d.\n" % number}
    return repository.write_commit(head, changes, author=_AUTHOR, message="Change\n", when=_now())


def _git(path: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "gc.auto=0", "-C", str(path), *arguments], check=True, stdout=subprocess.DEVNULL)


def _ms(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def _now() -> datetime:
    return datetime.now(UTC)
