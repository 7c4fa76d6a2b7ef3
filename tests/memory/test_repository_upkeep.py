"""Packing keeps everything, also what no reference names yet, and open repositories go on."""

import os
from pathlib import Path

import pytest
from repository_rig import PERSONA, contents, git, make, write

from eunoe.memory.repository import RECORDED, MemoryRepository
from eunoe.memory.upkeep import pack_if_needed
from eunoe.state.errors import StoreError, StoreLocked


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


def test_commit_that_is_being_recorded_is_kept_until_main_has_it(tmp_path: Path):
    repository = make(tmp_path)
    head = repository.head()
    given_up, new = write(repository, {PERSONA: b"given up"}), write(repository, {PERSONA: b"2"})
    repository.keep_recorded(given_up)
    repository.keep_recorded(new)
    repository.release_recorded()
    git(repository.path, "gc", "-q", "--prune=now")  # packs the reference too
    assert git(repository.path, "cat-file", "-t", new) == "commit\n"
    assert "fatal: " in git(repository.path, "cat-file", "-t", given_up, check=False)
    repository.move_head(head, new)
    repository.release_recorded()
    assert git(repository.path, "for-each-ref", "--format=%(refname)") == "refs/heads/main\n"


def test_name_whose_setting_was_cut_off_does_not_stop_the_next(tmp_path: Path):
    repository = make(tmp_path)
    new = write(repository, {PERSONA: b"2"})
    repository.keep_recorded(write(repository, {PERSONA: b"1"}))
    lock = repository.git_folder / f"{RECORDED}.lock"
    lock.write_text("")
    (repository.git_folder / "eunoe-advance-recorded").write_text(new)
    os.utime(lock, (0, 0))
    repository.keep_recorded(new, seconds=1)
    assert git(repository.path, "rev-parse", RECORDED).strip() == new
    lock.write_text("")
    with pytest.raises(StoreLocked, match="Another git process holds"):
        repository.keep_recorded(write(repository, {PERSONA: b"3"}), seconds=0.05)
    lock.unlink()
