"""What happened to memory: log, differences, blame, names of commits, and files as they were."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repository_rig import AGENT, LATER, PERSONA, WHEN, contents, git, git_environment, make, write

from eunoe.memory.git_library import Author
from eunoe.memory.history import blame, changes_between, diff, file_at, log, restore, show
from eunoe.memory.merge import merge
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.revisions import (
    NamedCommit,
    branches,
    create_branch,
    delete_branch,
    resolve,
    tag,
    tags,
)
from eunoe.memory.trailers import commit_message, parse_trailers
from eunoe.state.errors import Conflict, InvalidInput, NotFound

TRAILERS = {"Run": "run-1", "Step": "step-2", "Message": "message-3", "Model": "a/b", "Actor": "agent:agent-1"}


def advance(repository: MemoryRepository, changes: dict[str, bytes | None], message: str = "Change\n") -> str:
    head = repository.head()
    when = datetime(2026, 4, 1, 0, 0, int(git(repository.path, "rev-list", "--count", "main")), tzinfo=UTC)
    commit = repository.write_commit(head, changes, author=AGENT, message=message, when=when)
    repository.move_head(head, commit)
    return commit


def test_log_tells_who_when_and_why(tmp_path: Path):
    repository = make(tmp_path)
    message = commit_message("Learn the name", "The user said it.\n\nTwice.", TRAILERS)
    commit = advance(repository, {PERSONA: b"2"}, message)
    first, second = log(repository, start=commit)
    assert first.id == commit
    assert first.parents == (second.id,)
    assert first.subject == "Learn the name"
    assert first.trailers == tuple(TRAILERS.items())
    assert first.author == AGENT
    assert (second.when, second.when.utcoffset()) == (WHEN, WHEN.utcoffset())


def test_log_of_paths_and_pages(tmp_path: Path):
    repository = make(tmp_path, {"a/x.md": b"0", "b.md": b"0"})
    made = [advance(repository, {"a/x.md" if n % 2 else "b.md": b"%d" % n}) for n in range(1, 7)]
    head = made[-1]
    begin = git(repository.path, "rev-list", "--max-parents=0", "main").strip()
    of_folder = [commit.id for commit in log(repository, start=head, paths=["a"])]
    assert of_folder == [made[4], made[2], made[0], begin]
    assert of_folder == git(repository.path, "log", "--format=%H", "--", "a").split()
    pages = [log(repository, start=head, limit=2)]
    while pages[-1]:
        pages.append(log(repository, start=head, limit=2, before=pages[-1][-1].id))
    assert [commit.id for page in pages for commit in page] == [*reversed(made), begin]
    with pytest.raises(NotFound, match="not in the history"):
        log(repository, start=made[0], before=made[3])
    assert log(repository, start=head, paths=["nowhere"]) == ()


def test_show_and_diff_are_what_git_apply_takes(tmp_path: Path):
    before = {PERSONA: b"1\n2\n3\n", "gone.md": b"bye", 'odd "\u00e9".md': b"x\n"}
    repository = make(tmp_path, before)
    head = repository.head()
    after = {PERSONA: b"1\ntwo\n3\n", "new/a b.md": b"no end", 'odd "\u00e9".md': b"y\n"}
    commit = advance(repository, {**after, "gone.md": None})
    shown = show(repository, commit)
    assert [change.path for change in shown.changes] == ["gone.md", "new/a b.md", 'odd "\u00e9".md', PERSONA]
    assert "-2\n+two\n" in shown.diff
    assert diff(repository, head, commit, ["new"]).startswith("diff --git a/new/a b.md b/new/a b.md\nnew file mode")
    git(tmp_path, "init", "-q", "plain")
    plain = tmp_path / "plain"
    for path, data in before.items():
        (plain / path).parent.mkdir(exist_ok=True)
        (plain / path).write_bytes(data)
    git(plain, "apply", data=shown.diff.encode())
    found = {p.relative_to(plain).as_posix(): p.read_bytes() for p in plain.rglob("*.md")}
    assert found == contents(repository, commit) == after


def test_long_diffs_are_bounded_and_say_so(tmp_path: Path):
    long = b"".join(b"line %d\n" % n for n in range(6_000))
    repository = make(tmp_path, {})
    files = {f"{n:02}.md": long[: 45_000 + n] for n in range(12)}
    commit = advance(repository, {**files, "huge.bin": b"x" * 3_000_000, "long.md": long * 3, "z.bin": b"\0"})
    text = diff(repository, None, commit)
    assert len(text) < 510_000
    assert text.endswith(" more files differ; ask for them by path]\n")
    assert diff(repository, None, commit, ["huge.bin"]) == (
        "['huge.bin' differs; it is too large to compare: 3000000 bytes]\n"
    )
    assert "its diff is too long to show" in diff(repository, None, commit, ["long.md"])
    assert "Binary files" in diff(repository, None, commit, ["z.bin"])


def test_blame_names_the_commit_of_each_line(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: b"one\ntwo\nthree"})
    begin = repository.head()
    message = commit_message("Second", "", {"Run": "run-7"})
    commit = advance(repository, {PERSONA: b"one\nTWO\nthree\nfour\n"}, message)
    lines = blame(repository, PERSONA, commit)
    assert [(line.number, line.text, line.commit.id) for line in lines] == [
        (1, "one", begin),
        (2, "TWO", commit),
        (3, "three", commit),
        (4, "four", commit),
    ]
    assert lines[1].commit.trailers == (("Run", "run-7"),)
    empty = advance(repository, {"empty.md": b"", "odd.bin": b"\xff"})
    assert blame(repository, "empty.md", empty) == ()
    with pytest.raises(InvalidInput, match=r"odd\.bin"):
        blame(repository, "odd.bin", empty)


def test_files_as_they_were_and_back_again(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: b"1", "a/b.md": b"1", "a/c.md": b"1"})
    then = repository.head()
    assert then is not None
    now = advance(repository, {PERSONA: b"2", "a/b.md": None, "a/d.md": b"2"})
    assert file_at(repository, "a/b.md", then) == b"1"
    with pytest.raises(NotFound, match=r"a/b\.md"):
        file_at(repository, "a/b.md", now)
    assert restore(repository, now, then, ["a"]) == {"a/b.md": b"1", "a/d.md": None}
    back = advance(repository, dict(restore(repository, now, then)))
    assert contents(repository, back) == contents(repository, then)
    assert changes_between(repository, then, back) == ()
    assert [commit.id for commit in log(repository, start=back)] == [back, now, then]
    with pytest.raises(NotFound, match="nowhere"):
        restore(repository, now, then, ["nowhere"])


def test_commits_are_found_by_every_name_that_people_use(tmp_path: Path):
    repository = make(tmp_path)
    first = repository.head()
    assert first is not None
    second = advance(repository, {PERSONA: b"2"})
    tag(repository, "v1/good", first, author=AGENT, message="As it was", when=LATER)
    create_branch(repository, "mine", first)
    found = [resolve(repository, name) for name in (first[:8], "HEAD~1", "v1/good", "mine", "main", second)]
    assert found == [first, first, first, first, second, second]
    assert tags(repository) == (NamedCommit(name="v1/good", commit=first),)
    assert branches(repository) == (
        NamedCommit(name="main", commit=second),
        NamedCommit(name="mine", commit=first),
    )
    for name in ("nothing", "a..b", "", "HEAD~9", f"main:{PERSONA}"):
        with pytest.raises(NotFound, match="names no single commit"):
            resolve(repository, name)
    assert git(repository.path, "tag", "-n", "--format=%(objecttype) %(subject)") == "tag As it was\n"


def test_names_are_given_once_and_main_is_never_deleted(tmp_path: Path):
    repository = make(tmp_path)
    head = repository.head()
    assert head is not None
    tag(repository, "v1", head, author=AGENT, message="", when=LATER)
    create_branch(repository, "mine", head)
    with pytest.raises(Conflict):
        tag(repository, "v1", head, author=AGENT, message="", when=LATER)
    for taken in ("mine", "mine/inner"):
        with pytest.raises(Conflict, match="'mine'"):
            create_branch(repository, taken, head)
    for bad in ("a b", "-f", "..", "a.lock", ""):
        with pytest.raises(InvalidInput):
            create_branch(repository, bad, head)
    delete_branch(repository, "mine")
    with pytest.raises(Conflict):
        delete_branch(repository, "main")
    with pytest.raises(NotFound):
        delete_branch(repository, "mine")
    assert [named.name for named in branches(repository)] == ["main"]


def test_merge_commits_are_in_the_log_of_a_path_as_git_has_them(tmp_path: Path):
    repository = make(tmp_path, {"a.md": b"1\n2\n3\n", "b.md": b"1"})
    ours = write(repository, {"a.md": b"one\n2\n3\n"})
    theirs = write(repository, {"a.md": b"1\n2\nthree\n"})
    merged = merge(repository, ours, theirs, author=Author("m", "m@m"), message="Merge", when=LATER).commit
    assert merged is not None
    assert {commit.id for commit in log(repository, start=merged, paths=["a.md"])} == set(
        git(repository.path, "log", "--format=%H", merged, "--", "a.md").split()
    )
    assert merged in {commit.id for commit in log(repository, start=merged, paths=["a.md"])}
    assert merged not in {commit.id for commit in log(repository, start=merged, paths=["b.md"])}


def test_reason_cannot_forge_trailers():
    forged = "Because.\n\nActor: user\nRun: run-0"
    assert parse_trailers(commit_message("Subject", forged, {"Actor": "agent:a"})) == (("Actor", "agent:a"),)
    assert parse_trailers(commit_message("Subject", forged, {})) == ()
    assert parse_trailers(commit_message("Subject", "", {"Actor": "agent:a\nRun: run-0"})) == (
        ("Actor", "agent:a Run: run-0"),
    )
    assert commit_message(" a\n\nRun: x ", "", {}) == "a Run: x\n"
    assert commit_message("", "why", {}) == "Change memory\n\nwhy\n"


texts = st.text(st.sampled_from("ab :-\n#A\u00e9"), max_size=12)
keys = st.sampled_from(["Run", "Step", "Message", "Actor"])
values = st.text(st.sampled_from("ab-:"), min_size=1, max_size=8)


@given(subject=texts, why=texts, trailers=st.dictionaries(keys, values))
def test_trailers_come_back_whatever_stands_above_them(subject: str, why: str, trailers: dict[str, str]):
    assert dict(parse_trailers(commit_message(subject, why, trailers))) == trailers


@pytest.mark.parametrize(
    "message",
    [
        commit_message("Subject", "Why: because", TRAILERS),
        commit_message("Subject", "Why: because", {}),
        "Subject\n\nRun: run-1\n  more\nStep: 2\n",
        "Run: run-1\n",
        "Subject\n\ntext\n\nnot a trailer\nRun: x y\n",
    ],
)
def test_trailers_are_what_git_takes_for_trailers(tmp_path: Path, message: str):
    done = subprocess.run(
        ["git", "interpret-trailers", "--parse"],
        input=message.encode(),
        capture_output=True,
        env=git_environment(tmp_path),
        check=True,
        timeout=30,
    )
    assert "".join(f"{key}: {value}\n" for key, value in parse_trailers(message)) == done.stdout.decode()
