"""A commit by hand is judged before it is made, by the rules that every other way to write memory has."""

import sys
from io import StringIO
from pathlib import Path

from repository_rig import PERSONA, git, make

from eunoe.memory.hook import main
from eunoe.memory.hooks import BEFORE_OURS, install_hook, renew_hook
from eunoe.memory.repository import MemoryRepository

GOOD = b"---\ndescription: Who I am\n---\nI remember.\n"


def hooked(folder: Path) -> MemoryRepository:
    repository = make(folder, {PERSONA: GOOD})
    install_hook(repository, Path(sys.executable))
    return repository


def test_commit_that_follows_the_rules_is_made(tmp_path: Path):
    repository = hooked(tmp_path / 'a "folder" with spaces')
    (repository.path / PERSONA).write_bytes(GOOD + b"And more.\n")
    git(repository.path, "commit", "-qam", "more", PATH="/usr/bin:/bin")
    assert git(repository.path, "log", "-1", "--format=%s") == "more\n"


def test_commit_that_breaks_the_rules_is_refused_and_the_file_is_named(tmp_path: Path):
    repository = hooked(tmp_path)
    (repository.path / "system" / "two words \u00e9.md").write_bytes(b"\xff\xfe")
    git(repository.path, "add", "-A")
    told = git(repository.path, "commit", "-qm", "bad", check=False)
    assert "This commit was refused" in told
    assert "'system/two words \u00e9.md', line 1: " in told
    assert git(repository.path, "rev-list", "--count", "main") == "1\n"


def test_what_is_judged_is_what_is_staged(tmp_path: Path):
    repository = hooked(tmp_path)
    (repository.path / PERSONA).write_bytes(GOOD + b"Staged.\n")
    git(repository.path, "add", "-A")
    (repository.path / PERSONA).write_bytes(b"\xff")
    (repository.path / "system" / "bad.md").write_bytes(b"\xff")
    git(repository.path, "commit", "-qm", "the staged one")
    git(repository.path, "add", "system/bad.md")
    # A commit of named paths is made from an index of its own, in which the bad file is not.
    (repository.path / "notes.txt").write_bytes(b"1")
    git(repository.path, "add", "notes.txt")
    git(repository.path, "commit", "-qm", "notes only", "notes.txt")
    assert "bad.md" in git(repository.path, "commit", "-qm", "bad", check=False)


def test_read_only_file_is_for_people_and_not_for_the_agent(tmp_path: Path):
    read_only = b"---\ndescription: Rules\nread_only: true\n---\nBe kind.\n"
    repository = make(tmp_path, {"system/rules.md": read_only})
    install_hook(repository, Path(sys.executable))
    (repository.path / "system/rules.md").write_bytes(
        read_only.replace(b"true", b"false").replace(b"kind", b"kind and brief")
    )
    told = git(repository.path, "commit", "-qam", "edit", check=False, EUNOE_ACTOR="agent")
    assert "system/rules.md" in told
    assert git(repository.path, "rev-list", "--count", "main") == "1\n"
    git(repository.path, "commit", "-qam", "edit")
    assert git(repository.path, "rev-list", "--count", "main") == "2\n"


def test_hook_of_a_person_is_kept_and_runs_first(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: GOOD})
    hooks = repository.git_folder / "hooks"
    hooks.mkdir(exist_ok=True)
    theirs = "#!/bin/sh\necho theirs >&2\ntest ! -e stop\n"
    (hooks / "pre-commit").write_text(theirs)
    (hooks / "pre-commit").chmod(0o755)
    for _ in range(2):
        install_hook(repository, Path(sys.executable))
    assert (hooks / f"pre-commit{BEFORE_OURS}").read_text() == theirs
    (repository.path / "stop").write_bytes(b"")
    git(repository.path, "add", "-A")
    assert git(repository.path, "commit", "-qm", "stopped", check=False) == "theirs\n"
    (repository.path / "stop").unlink()
    git(repository.path, "add", "-A")
    (repository.path / PERSONA).write_bytes(GOOD + b"x")
    git(repository.path, "commit", "-qam", "goes on")
    assert git(repository.path, "rev-list", "--count", "main") == "2\n"


def test_python_that_is_gone_stops_the_commit_and_says_how_to_go_on(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: GOOD})
    install_hook(repository, tmp_path / "gone")
    told = git(repository.path, "commit", "-qm", "x", "--allow-empty", check=False)
    assert str(tmp_path / "gone") in told
    assert "git config eunoe.python" in told


def test_merge_by_hand_that_breaks_the_rules_is_refused(tmp_path: Path):
    repository = hooked(tmp_path)
    git(repository.path, "checkout", "-qb", "draft")
    (repository.path / "system" / "bad.md").write_bytes(b"\xff")
    git(repository.path, "add", "-A")
    git(repository.path, "commit", "-qm", "not for main", "--no-verify")
    git(repository.path, "checkout", "-q", "main")
    (repository.path / PERSONA).write_bytes(GOOD + b"And more.\n")
    git(repository.path, "commit", "-qam", "more")
    told = git(repository.path, "merge", "-q", "--no-edit", "draft", check=False)
    assert "'system/bad.md', line 1: " in told
    assert git(repository.path, "rev-list", "--count", "main") == "2\n"


def test_hooks_of_a_repository_that_was_moved_or_restored_are_put_right_when_it_is_opened(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: GOOD})
    renew_hook(repository)  # as after a restore from a clone, which has no hooks
    assert git(repository.path, "config", "eunoe.python").strip() == sys.executable
    install_hook(repository, tmp_path / "gone")
    renew_hook(repository)
    (repository.path / PERSONA).write_bytes(b"\xff")
    assert f"{PERSONA!r}, line 1: " in git(repository.path, "commit", "-qam", "bad", check=False)
    kept = tmp_path / "python that stays"
    kept.symlink_to(sys.executable)
    install_hook(repository, kept)
    renew_hook(repository)
    assert git(repository.path, "config", "eunoe.python").strip() == str(kept)


def test_files_of_the_agent_are_not_imported_by_the_hook(tmp_path: Path):
    repository = hooked(tmp_path)
    for name in ("msgspec.py", "eunoe.py"):
        (repository.path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    git(repository.path, "add", "-A")
    git(repository.path, "commit", "-qm", "modules")
    assert not (tmp_path / "ran").exists()


def test_repository_that_cannot_be_read_stops_the_commit(tmp_path: Path):
    out = StringIO()
    assert main([str(tmp_path)], out) == 1
    assert "could not be checked" in out.getvalue()
