"""Working trees beside the main one: a branch in a folder of its own, and what a person has in it."""

import shutil
from pathlib import Path

import pytest
from repository_rig import PERSONA, git, make, write

from eunoe.memory.git_library import delete_reference, reference_target, set_branch
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.revisions import create_branch, delete_branch
from eunoe.memory.worktrees import add_worktree, move_worktree, remove_worktree
from eunoe.state.errors import Conflict, StoreError

BRANCH = "refs/heads/work"


@pytest.fixture
def repository(tmp_path: Path) -> MemoryRepository:
    made = make(tmp_path, {PERSONA: b"one\n", "notes/a b.md": b"x\r\n", "ü.md": b"u\n"})
    create_branch(made, "work", made.head() or "")
    return made


@pytest.fixture
def tree(repository: MemoryRepository, tmp_path: Path) -> Path:
    path = tmp_path / "beside" / "work"
    add_worktree(repository, BRANCH, path)
    return path


def advance(repository: MemoryRepository, tree: Path, changes: dict[str, bytes | None]) -> str:
    """Commit on the branch, with its files."""
    old = str(repository.handle().lookup_reference(BRANCH).target)
    new = write(repository, changes, old)
    move_worktree(tree, BRANCH, old, new, lambda: set_branch(repository.handle(), BRANCH, old, new, "work"))
    assert git(repository.path, "rev-parse", "work").strip() == new
    return new


def remove(repository: MemoryRepository, tree: Path) -> bool:
    """Remove the working tree of a branch that nobody wants."""
    handle = repository.handle()
    at = reference_target(handle, BRANCH)
    return remove_worktree(repository, BRANCH, tree, lambda: at is None or delete_reference(handle, BRANCH, at))


def test_a_branch_is_checked_out_byte_for_byte_and_its_commits_follow(repository: MemoryRepository, tree: Path):
    assert (tree / "notes/a b.md").read_bytes() == b"x\r\n"
    assert (tree / "ü.md").read_bytes() == b"u\n"
    new = advance(repository, tree, {PERSONA: b"two\n", "deep/er.md": b"new\n", "ü.md": None})
    assert git(tree, "rev-parse", "HEAD").strip() == new
    assert git(tree, "status", "--porcelain") == ""
    assert (tree / PERSONA).read_bytes() == b"two\n"
    assert not (tree / "ü.md").exists()
    assert (repository.path / PERSONA).read_bytes() == b"one\n"
    assert git(repository.path, "status", "--porcelain") == ""


def test_uncommitted_edits_stay_while_the_branch_moves(repository: MemoryRepository, tree: Path):
    (tree / PERSONA).write_bytes(b"mine\n")
    advance(repository, tree, {PERSONA: b"two\n", "b.md": b"b\n"})
    assert (tree / PERSONA).read_bytes() == b"mine\n"
    assert (tree / "b.md").read_bytes() == b"b\n"
    assert not remove(repository, tree)
    assert (tree / PERSONA).read_bytes() == b"mine\n"


def test_a_lock_that_a_git_program_left_keeps_the_files_behind_and_not_the_branch(
    repository: MemoryRepository, tree: Path
):
    lock = repository.git_folder / "worktrees" / "work" / "index.lock"
    lock.touch()
    advance(repository, tree, {PERSONA: b"two\n"})
    assert (tree / PERSONA).read_bytes() == b"one\n"
    lock.unlink()


@pytest.mark.parametrize("left", ["nothing", "the folder", "an empty folder", "what git notes", "half of it"])
def test_what_is_removed_is_gone_however_much_of_it_there_was(repository: MemoryRepository, tree: Path, left: str):
    noted = repository.git_folder / "worktrees" / "work"
    if left in ("nothing", "what git notes"):
        git(repository.path, "worktree", "remove", str(tree))
    if left == "an empty folder":
        git(repository.path, "worktree", "remove", str(tree))
        tree.mkdir()
    if left == "what git notes":
        noted.mkdir(parents=True)
        (noted / "gitdir").write_text(f"{tree}/.git\n")
    if left == "half of it":
        (tree / PERSONA).unlink()
        (repository.git_folder / "eunoe-part-work").touch()
    assert remove(repository, tree)
    assert not tree.exists()
    assert str(tree) not in git(repository.path, "worktree", "list", "--porcelain")
    create_branch(repository, "again", repository.head() or "")
    add_worktree(repository, "refs/heads/again", tree)
    assert (tree / PERSONA).read_bytes() == b"one\n"


def test_one_that_somebody_has_locked_stays(repository: MemoryRepository, tree: Path):
    git(repository.path, "worktree", "lock", str(tree))
    assert not remove(repository, tree)
    assert (tree / PERSONA).exists()


@pytest.mark.parametrize(
    "how", ["at a commit", "at a branch", "merging", "moved away", "by a link", "damaged", "unknown"]
)
def test_one_that_somebody_works_in_stays_with_its_branch(
    repository: MemoryRepository, tree: Path, tmp_path: Path, how: str
):
    noted = repository.git_folder / "worktrees" / "work"
    at = tree
    if how == "at a commit":
        git(tree, "checkout", "-q", "--detach")
    elif how == "at a branch":
        git(tree, "checkout", "-q", "-b", "own")
    elif how == "merging":
        (noted / "MERGE_HEAD").write_text(f"{repository.head()}\n")
    elif how == "moved away":
        git(repository.path, "worktree", "move", str(tree), str(at := tmp_path / "there"))
    elif how == "by a link":
        tree.rename(at := tmp_path / "there")
        tree.symlink_to(at)
    elif how == "damaged":
        (noted / "HEAD").unlink()
    else:
        shutil.rmtree(noted)
    assert not remove(repository, tree)
    assert (at / PERSONA).read_bytes() == b"one\n"
    assert reference_target(repository.handle(), BRANCH) == repository.head()
    if how in ("at a commit", "at a branch", "merging", "moved away", "by a link"):
        assert git(at, "status", "--porcelain") == ""


def test_a_branch_that_is_checked_out_elsewhere_too_stays(repository: MemoryRepository, tree: Path, tmp_path: Path):
    git(repository.path, "worktree", "add", "-q", "-f", str(tmp_path / "other"), "work")
    assert not remove(repository, tree)
    with pytest.raises(Conflict, match="'work' is in use"):
        delete_branch(repository, "work")
    assert git(tmp_path / "other", "status", "--porcelain") == ""
    git(repository.path, "worktree", "remove", str(tmp_path / "other"))
    assert remove(repository, tree)


def test_a_branch_with_new_commits_keeps_its_folder(repository: MemoryRepository, tree: Path):
    assert not remove_worktree(repository, BRANCH, tree, lambda: False)
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("how", ["no notes", "no HEAD", "no index", "a file for a folder"])
def test_the_branch_moves_whatever_is_the_matter_with_the_folder(repository: MemoryRepository, tree: Path, how: str):
    noted = repository.git_folder / "worktrees" / "work"
    if how == "no notes":
        shutil.rmtree(noted)
    elif how == "no HEAD":
        (noted / "HEAD").unlink()
    elif how == "no index":
        (noted / "index").unlink()
    else:
        shutil.rmtree(tree)
        tree.write_text("x")
    advance(repository, tree, {PERSONA: b"two\n"})


def test_conversions_of_line_ends_change_no_file(repository: MemoryRepository, tmp_path: Path):
    main = repository.head()
    made = write(repository, {".gitattributes": b"* text eol=crlf\n"}, main)
    assert set_branch(repository.handle(), BRANCH, main, made, "work")
    tree = tmp_path / "beside" / "work"
    add_worktree(repository, BRANCH, tree)
    assert (tree / PERSONA).read_bytes() == b"one\n"
    advance(repository, tree, {PERSONA: b"two\n"})
    assert (tree / PERSONA).read_bytes() == b"two\n"


def test_a_file_in_the_place_of_the_folder_above_is_told(repository: MemoryRepository, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be checked out into .*file/work"):
        add_worktree(repository, BRANCH, tmp_path / "file" / "work")


def test_ignored_files_are_no_edits(repository: MemoryRepository, tree: Path):
    advance(repository, tree, {".gitignore": b"*.tmp\n"})
    (tree / "x.tmp").touch()
    assert remove(repository, tree)


def test_a_folder_in_the_way_is_told(repository: MemoryRepository, tmp_path: Path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").touch()
    with pytest.raises(StoreError, match=r"cannot be checked out into .*taken"):
        add_worktree(repository, BRANCH, tmp_path / "taken")
    assert (tmp_path / "taken/file").exists()
