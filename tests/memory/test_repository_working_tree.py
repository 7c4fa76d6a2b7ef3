"""The working tree follows memory, and what a person has not committed stays."""

from pathlib import Path

import pytest
from repository_rig import PERSONA, git, make, write

from eunoe.memory.repository import MemoryRepository
from eunoe.memory.status import WorkingTree, status
from eunoe.memory.working_tree import (
    KeptFile,
    WorkingTreeReport,
    fast_forward_working_tree,
    followed_commit,
    heal_working_tree,
)


def advance(repository: MemoryRepository, changes: dict[str, bytes | None]) -> WorkingTreeReport:
    head = repository.head()
    commit = write(repository, changes)
    repository.move_head(head, commit)
    return fast_forward_working_tree(repository, head, commit)


def files_of(repository: MemoryRepository) -> dict[str, bytes]:
    found = (path for path in repository.path.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {path.relative_to(repository.path).as_posix(): path.read_bytes() for path in found}


def test_clean_working_tree_follows_in_files_and_index(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: b"1", "a/b/c.md": b"2", "d": b"3", "e/f": b"4"})
    report = advance(repository, {PERSONA: b"one", "a/b/c.md": None, "d": None, "d/g": b"5", "e/f": None, "e": b"6"})
    assert report.updated == ("a/b/c.md", "d", "d/g", "e", "e/f", PERSONA)
    assert report.kept == ()
    assert files_of(repository) == {PERSONA: b"one", "d/g": b"5", "e": b"6"}
    assert not (repository.path / "a").exists()
    assert git(repository.path, "status", "--porcelain") == ""
    assert git(repository.path, "diff", "--cached", "HEAD") == ""


def test_executable_files_stay_executable(tmp_path: Path):
    repository = make(tmp_path, {"run.sh": b"1"})
    (repository.path / "run.sh").chmod(0o755)
    git(repository.path, "commit", "-qam", "executable")
    advance(repository, {"run.sh": b"2"})
    assert (repository.path / "run.sh").stat().st_mode & 0o111
    assert git(repository.path, "status", "--porcelain") == ""


def test_G09_uncommitted_and_untracked_files_are_kept_and_told(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: b"1", "gone.md": b"1", "staged.md": b"1", "both.md": b"1", "free.md": b"1"})
    (repository.path / PERSONA).write_bytes(b"a person's edit")
    (repository.path / "gone.md").unlink()
    (repository.path / "both.md").write_bytes(b"edited before it was deleted in memory")
    (repository.path / "new.md").write_bytes(b"a person's new file")
    (repository.path / "other.txt").write_bytes(b"unrelated")
    (repository.path / "staged.md").write_bytes(b"staged")
    git(repository.path, "add", "staged.md")
    before = files_of(repository)
    changes = {PERSONA: b"2", "gone.md": b"2", "staged.md": b"2", "both.md": None, "free.md": b"2", "new.md": b"2"}
    report = advance(repository, changes)
    assert report.updated == ("free.md",)
    assert set(report.kept) == {
        KeptFile(path=PERSONA, why="modified"),
        KeptFile(path="gone.md", why="deleted"),
        KeptFile(path="both.md", why="modified"),
        KeptFile(path="new.md", why="untracked"),
        KeptFile(path="staged.md", why="staged"),
    }
    assert files_of(repository) == before | {"free.md": b"2"}
    assert status(repository) == WorkingTree(
        branch="main",
        staged=("staged.md",),
        modified=("gone.md", "new.md", PERSONA),
        untracked=("both.md", "other.txt"),
    )


def test_commit_of_something_else_does_not_undo_a_change_beside_an_uncommitted_edit(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: b"1", "notes.md": b"1"})
    (repository.path / PERSONA).write_bytes(b"a person's edit")
    advance(repository, {PERSONA: b"2"})
    (repository.path / "notes.md").write_bytes(b"2")
    git(repository.path, "commit", "-qm", "notes only", "notes.md")
    git(repository.path, "commit", "-qm", "whatever is staged", "--allow-empty")
    assert git(repository.path, "show", f"HEAD:{PERSONA}") == "2"
    assert (repository.path / PERSONA).read_bytes() == b"a person's edit"


def test_edit_that_is_the_change_itself_is_no_difference(tmp_path: Path):
    repository = make(tmp_path, {"a.md": b"1"})
    (repository.path / "a.md").write_bytes(b"2")
    (repository.path / "b.md").write_bytes(b"3")
    assert advance(repository, {"a.md": b"2", "b.md": b"3"}).kept == ()
    assert git(repository.path, "status", "--porcelain") == ""


def test_links_are_never_followed_out_of_the_working_tree(tmp_path: Path):
    repository = make(tmp_path, {"a/x.md": b"1", "b.md": b"1"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_bytes(b"1")
    (outside / "b.md").write_bytes(b"1")
    (repository.path / "a" / "x.md").unlink()
    (repository.path / "a").rmdir()
    (repository.path / "a").symlink_to(outside)
    (repository.path / "b.md").unlink()
    (repository.path / "b.md").symlink_to(outside / "b.md")
    (repository.path / "c").symlink_to(outside)
    report = advance(repository, {"a/x.md": b"2", "b.md": b"2", "c/new.md": b"2"})
    assert {kept.why for kept in report.kept} == {"in the way"}
    assert len(report.kept) == 3
    assert sorted((path.name, path.read_bytes()) for path in outside.iterdir()) == [("b.md", b"1"), ("x.md", b"1")]


def test_folder_in_the_place_of_a_file_is_kept(tmp_path: Path):
    repository = make(tmp_path)
    (repository.path / "a.md").mkdir()
    (repository.path / "a.md" / "mine").write_bytes(b"1")
    assert advance(repository, {"a.md": b"2"}).kept == (KeptFile(path="a.md", why="in the way"),)
    assert (repository.path / "a.md" / "mine").read_bytes() == b"1"


def test_links_and_submodules_of_a_commit_are_not_made(tmp_path: Path):
    repository = make(tmp_path)
    git(tmp_path, "clone", "-q", "agent-1", "copy")
    (tmp_path / "copy" / "out.md").symlink_to("/etc/passwd")
    git(tmp_path / "copy", "add", "-A")
    git(tmp_path / "copy", "-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "link")
    git(repository.path, "fetch", "-q", str(tmp_path / "copy"), "main:pushed")
    new, head = git(repository.path, "rev-parse", "pushed").strip(), repository.head()
    repository.move_head(head, new)
    assert fast_forward_working_tree(repository, head, new).kept == (KeptFile(path="out.md", why="not a file"),)
    assert not (repository.path / "out.md").is_symlink()


@pytest.mark.parametrize("arguments", [("checkout", "-qb", "mine"), ("checkout", "-q", "--detach")])
def test_other_branches_are_left_alone(tmp_path: Path, arguments: tuple[str, ...]):
    repository = make(tmp_path)
    git(repository.path, *arguments)
    report = advance(repository, {PERSONA: b"2"})
    assert report.skipped is not None
    assert report.updated == ()
    assert (repository.path / PERSONA).read_bytes() == b"I remember.\n"
    assert git(repository.path, "status", "--porcelain") == ""
    git(repository.path, "checkout", "-q", "main")
    assert (repository.path / PERSONA).read_bytes() == b"2"


def test_merge_of_a_person_that_is_not_finished_keeps_its_conflicts_and_loses_no_change(tmp_path: Path):
    repository = make(tmp_path, {"a.md": b"1\n", "b.md": b"1\n"})
    git(repository.path, "checkout", "-qb", "mine")
    (repository.path / "a.md").write_bytes(b"mine\n")
    git(repository.path, "commit", "-qam", "mine")
    git(repository.path, "checkout", "-q", "main")
    (repository.path / "a.md").write_bytes(b"ours\n")
    git(repository.path, "commit", "-qam", "ours")
    git(repository.path, "merge", "mine", check=False)
    conflict = (repository.path / "a.md").read_bytes()
    report = advance(repository, {"a.md": b"2\n", "b.md": b"2\n"})
    assert report.kept == (KeptFile(path="a.md", why="conflicted"),)
    assert (repository.path / "a.md").read_bytes() == conflict
    told = status(repository)
    assert (told.in_progress, told.conflicted, told.clean) == ("merge", ("a.md",), False)
    assert told.sentences() == (
        "An operation of git is not finished: merge.",
        "1 file is in conflict, so not in memory: 'a.md'.",
    )
    (repository.path / "a.md").write_bytes(b"settled\n")
    git(repository.path, "add", "a.md")
    git(repository.path, "commit", "-qm", "merged")
    assert git(repository.path, "show", "HEAD:b.md") == "2\n"


def test_crash_between_moving_the_head_and_the_working_tree_is_healed(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: b"1", "a.md": b"1"})
    head = repository.head()
    assert followed_commit(repository) == head
    commit = write(repository, {PERSONA: b"2", "a.md": None, "b.md": b"2"})
    repository.move_head(head, commit)
    (repository.path / PERSONA).write_bytes(b"2")  # and half of the files were done
    again = MemoryRepository.open(repository.path)
    report = heal_working_tree(again)
    assert report is not None
    assert report.updated == ("a.md", "b.md", PERSONA)
    assert git(repository.path, "status", "--porcelain") == ""
    assert heal_working_tree(again) is None


def test_healing_leaves_alone_what_a_person_did_since(tmp_path: Path):
    repository = make(tmp_path, {"a.md": b"1", "b.md": b"1"})
    for number in (2, 3):
        (repository.path / "a.md").write_bytes(b"%d" % number)
        git(repository.path, "commit", "-qam", "by hand")
    (repository.path / "a.md").write_bytes(b"1")  # back to what Eunoe saw last, and not committed
    report = heal_working_tree(repository)
    assert report is not None
    assert (repository.path / "a.md").read_bytes() == b"1"
    assert git(repository.path, "status", "--porcelain") == " M a.md\n"


def test_status_of_a_clean_tree_is_clean_and_says_nothing(tmp_path: Path):
    told = status(make(tmp_path))
    assert told == WorkingTree(branch="main")
    assert told.clean
    assert told.sentences() == ()


def test_status_names_a_few_files_and_counts_the_rest(tmp_path: Path):
    repository = make(tmp_path)
    git(repository.path, "checkout", "-q", "--detach")
    names = [f"{number} \u00e9.md" for number in range(8)]
    for name in names:
        (repository.path / name).write_bytes(b"")
    told = status(repository)
    assert told.branch is None
    assert told.sentences() == (
        "The working tree is at a commit without a branch; memory is what main holds.",
        f"8 files are new and not committed, so not in memory: {', '.join(map(repr, names[:5]))} and 3 more.",
    )
