"""Merges in memory come to what git comes to, and conflicts are told whole."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repository_rig import AGENT, LATER, PERSONA, contents, git, git_environment, make, write

from eunoe.memory.merge import MergeConflict, MergeResult, merge, rebase_edit
from eunoe.memory.repository import MemoryRepository
from eunoe.state.errors import NotFound

LINES = b"1\n2\n3\n4\n5\n"


def merged(repository: MemoryRepository, ours: str, theirs: str) -> MergeResult:
    return merge(repository, ours, theirs, author=AGENT, message="Merge\n", when=LATER)


def rebased(repository: MemoryRepository, base: str, changes: dict[str, bytes | None], onto: str) -> MergeResult:
    return rebase_edit(repository, base, changes, onto, author=AGENT, message="Edit\n", when=LATER)


def head_of(repository: MemoryRepository) -> str:
    head = repository.head()
    assert head is not None
    return head


def test_different_lines_and_files_merge_with_both_parents(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: LINES, "a.md": b"a"})
    ours = write(repository, {PERSONA: b"one\n2\n3\n4\n5\n", "b.md": b"b"})
    theirs = write(repository, {PERSONA: b"1\n2\n3\n4\nfive\n", "a.md": None})
    result = merged(repository, ours, theirs)
    assert result.conflicts == ()
    assert result.commit is not None
    assert contents(repository, result.commit) == {PERSONA: b"one\n2\n3\n4\nfive\n", "b.md": b"b"}
    assert git(repository.path, "log", "-1", "--format=%P", result.commit).split() == [ours, theirs]
    assert git(repository.path, "fsck", "--strict", "--no-dangling") == ""


def test_conflicts_are_told_with_all_three_sides_and_nothing_is_written(tmp_path: Path):
    repository = make(tmp_path, {"same.md": b"1\n", "gone.md": b"1\n"})
    ours = write(repository, {"same.md": b"2\n", "gone.md": None, "new.md": b"ours\n"})
    theirs = write(repository, {"same.md": b"3\n", "gone.md": b"2\n", "new.md": b"theirs\n"})
    assert merged(repository, ours, theirs) == MergeResult(
        commit=None,
        conflicts=(
            MergeConflict(path="gone.md", base=b"1\n", ours=None, theirs=b"2\n"),
            MergeConflict(path="new.md", base=None, ours=b"ours\n", theirs=b"theirs\n"),
            MergeConflict(path="same.md", base=b"1\n", ours=b"2\n", theirs=b"3\n"),
        ),
    )
    assert git(repository.path, "status", "--porcelain") == ""


def test_file_renamed_on_one_side_and_edited_on_the_other_is_both(tmp_path: Path):
    repository = make(tmp_path, {"a.md": LINES})
    result = merged(
        repository,
        write(repository, {"a.md": None, "b.md": LINES}),
        write(repository, {"a.md": b"1\n2\n3\n4\nfive\n"}),
    )
    assert result.commit is not None
    assert contents(repository, result.commit) == {"b.md": b"1\n2\n3\n4\nfive\n"}


def test_what_contains_the_other_is_the_result(tmp_path: Path):
    repository = make(tmp_path)
    head = head_of(repository)
    newer = write(repository, {"a.md": b""})
    for ours, theirs in ((head, newer), (newer, head), (newer, newer)):
        assert merged(repository, ours, theirs) == MergeResult(commit=newer)


def test_unrelated_histories_merge_and_unknown_commits_do_not(tmp_path: Path):
    repository = make(tmp_path, {"a.md": b"a"})
    other = repository.write_commit(None, {"b.md": b"b"}, author=AGENT, message="Other\n", when=LATER)
    result = merged(repository, head_of(repository), other)
    assert result.commit is not None
    assert contents(repository, result.commit) == {"a.md": b"a", "b.md": b"b"}
    with pytest.raises(NotFound, match="f" * 40):
        merged(repository, other, "f" * 40)


def test_edit_is_made_again_on_a_newer_commit_where_it_does_not_overlap(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: LINES, "a.md": b"a"})
    base = head_of(repository)
    onto = write(repository, {PERSONA: b"one\n2\n3\n4\n5\n"})
    result = rebased(repository, base, {PERSONA: b"1\n2\n3\n4\nfive\n"}, onto)
    assert result.commit is not None
    assert contents(repository, result.commit)[PERSONA] == b"one\n2\n3\n4\nfive\n"
    assert git(repository.path, "log", "-1", "--format=%P", result.commit).strip() == onto
    clash = rebased(repository, base, {PERSONA: b"uno\n2\n3\n4\n5\n"}, onto)
    assert clash.commit is None
    assert [conflict.path for conflict in clash.conflicts] == [PERSONA]


def test_edit_that_is_there_already_makes_no_commit(tmp_path: Path):
    repository = make(tmp_path)
    base = head_of(repository)
    onto = write(repository, {PERSONA: b"2"})
    assert rebased(repository, base, {PERSONA: b"2"}, onto) == MergeResult(commit=onto)
    assert rebased(repository, base, {}, onto) == MergeResult(commit=onto)
    on_base = rebased(repository, base, {PERSONA: b"3"}, base)
    assert on_base.commit is not None
    assert git(repository.path, "log", "-1", "--format=%P", on_base.commit).strip() == base


words = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=7).map(lambda all_: "".join(f"{w}\n" for w in all_))


@settings(max_examples=25)
@given(base=words, ours=words, theirs=words)
def test_any_texts_merge_as_git_merges_files(
    tmp_path_factory: pytest.TempPathFactory, base: str, ours: str, theirs: str
):
    folder = tmp_path_factory.mktemp("merge")
    repository = make(folder, {"x.md": base.encode()})
    head = head_of(repository)
    sides = {"base": base, "ours": ours, "theirs": theirs}
    for name, text in sides.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        ["git", "merge-file", "-p", *(str(folder / name) for name in ("ours", "base", "theirs"))],
        capture_output=True,
        env=git_environment(folder),
        timeout=30,
        check=False,
    )
    one = write(repository, {"x.md": ours.encode()}, parent=head)
    other = write(repository, {"x.md": theirs.encode()}, parent=head)
    result = merged(repository, one, other)
    assert bool(result.conflicts) == bool(done.returncode)
    if result.commit is not None:
        assert contents(repository, result.commit)["x.md"] == done.stdout


fates = st.lists(st.sampled_from(["same", "ours", "theirs", None]), min_size=3, max_size=3)


@settings(max_examples=10)
@given(ours=fates, theirs=fates)
def test_files_that_come_and_go_on_both_sides_merge_as_git_merges_trees(
    tmp_path_factory: pytest.TempPathFactory, ours: list[str | None], theirs: list[str | None]
):
    # No file is like another one, so nothing is taken for a rename.
    before = {f"a/{number}.md": b"same %d" % number for number in range(2)}
    repository = make(tmp_path_factory.mktemp("trees"), before)

    def side(fate: list[str | None]) -> str:
        wanted = {f"a/{n}.md": f"{word} {n}".encode() if word is not None else None for n, word in enumerate(fate)}
        return write(repository, {path: data for path, data in wanted.items() if data is not None or path in before})

    one, other = side(ours), side(theirs)
    told = git(repository.path, "merge-tree", "--write-tree", "--name-only", one, other, check=False).splitlines()
    result = merged(repository, one, other)
    if result.commit is not None:
        assert told == [git(repository.path, "rev-parse", f"{result.commit}^{{tree}}").strip()]
    else:
        assert [conflict.path for conflict in result.conflicts] == sorted(told[1 : told.index("")])
