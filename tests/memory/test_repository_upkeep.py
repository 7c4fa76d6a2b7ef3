"""Packing keeps everything, also what no reference names yet, and open repositories go on."""

from pathlib import Path

import pytest
from repository_rig import PERSONA, contents, git, make, write

from eunoe.memory.repository import MemoryRepository
from eunoe.memory.upkeep import pack_if_needed
from eunoe.state.errors import StoreError


def loose_objects(repository: MemoryRepository) -> int:
    return int(git(repository.path, "count-objects").split()[0])


def test_packing_keeps_recorded_commits_and_open_repositories_go_on(tmp_path: Path):
    repository = make(tmp_path, {f"{number}.md": b"%d" % number for number in range(300)})
    head = repository.head()
    assert head is not None
    recorded = write(repository, {PERSONA: b"recorded, and main is not there yet"})
    git(repository.path, "config", "gc.auto", "1")
    before = contents(MemoryRepository.open(repository.path), recorded)
    pack_if_needed(repository)
    assert loose_objects(repository) < 10
    assert contents(repository, recorded) == before
    repository.move_head(head, recorded)
    assert repository.head() == git(repository.path, "rev-parse", "main").strip() == recorded
    assert git(repository.path, "fsck", "--strict") == ""


def test_little_is_left_as_it_is(tmp_path: Path):
    repository = make(tmp_path)
    before = loose_objects(repository)
    pack_if_needed(repository)
    assert loose_objects(repository) == before > 0


def test_packing_that_fails_says_why(tmp_path: Path):
    repository = make(tmp_path)
    (repository.git_folder / "config").write_text("[core\n")
    with pytest.raises(StoreError, match="failed: fatal: bad config"):
        pack_if_needed(repository)
    with pytest.raises(StoreError, match="longer than 0 seconds"):
        pack_if_needed(repository, 0)
