"""The repository of memory files: what it holds, how it advances, and that it is one that git understands."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from repository_rig import AGENT, PERSONA, WHEN, contents, git, make, write

from eunoe.memory.git_library import Author
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.repository_create import create_repository
from eunoe.memory.snapshot import changed_paths
from eunoe.memory.tree import EXECUTABLE, FILE, SUBMODULE, SYMLINK
from eunoe.memory.working_tree import fast_forward_working_tree
from eunoe.state.errors import Conflict, InvalidInput, NotFound, StaleRevision, StoreError

HOSTILE_NAMES = (
    'system/with "quotes" and spaces.md',
    "system/caf\u00e9.md",
    "system/cafe\u0301.md",
    "notes/back\\slash.md",
    "notes/tab\tnew\nline.md",
    "notes/-rf",
    "notes/%s$HOME;`id`.md",
    "\U0001f9e0/\u8bb0\u5fc6.md",
    "notes/\uffff.md",
    "notes/\U00010000.md",
)


def ls_tree(folder: Path, commit: str) -> list[tuple[str, str, int]]:
    rows = git(folder, "ls-tree", "-rz", commit).split("\0")[:-1]
    fields = [(*row.partition("\t")[0].split(" "), row.partition("\t")[2]) for row in rows]
    return [(path, blob_id, int(mode, 8)) for mode, _, blob_id, path in fields]


def listed(repository: MemoryRepository, commit: str) -> list[tuple[str, str, int]]:
    return [(entry.path, entry.blob_id, entry.mode) for entry in repository.snapshot(commit).entries]


def test_new_repository_is_one_that_git_finds_in_order(tmp_path: Path):
    repository = make(tmp_path, {PERSONA: b"I remember.\n", "notes/a.md": b"a"})
    assert git(repository.path, "status", "--porcelain=v2", "--branch").splitlines() == [
        f"# branch.oid {repository.head()}",
        "# branch.head main",
    ]
    assert git(repository.path, "fsck", "--strict", "--full") == ""
    assert git(repository.path, "log", "--format=%an <%ae> %aI %s") == (
        "Mnemosyne <agent-1@eunoe.local> 2026-03-01T12:30:15+02:00 Begin\n"
    )
    assert git(repository.path, "config", "--local", "eunoe.agentId") == "agent-1\n"
    assert git(repository.path, "config", "--local", "commit.gpgsign") == "false\n"
    assert (repository.path / PERSONA).read_bytes() == b"I remember.\n"


def test_repository_may_begin_without_files(tmp_path: Path):
    repository = make(tmp_path, {})
    head = repository.head()
    assert head is not None
    assert repository.snapshot(head).entries == ()
    assert git(repository.path, "fsck", "--strict") == ""


def test_names_that_git_cannot_keep_in_a_signature_do_not_stop_an_agent(tmp_path: Path):
    repository = create_repository(
        tmp_path / "a", agent_id="agent-9", agent_name=" <Ann>\n", files={}, message="Begin", when=WHEN
    )
    assert git(repository.path, "log", "--format=%an|%ae") == "Ann|agent-9@eunoe.local\n"


def test_place_that_is_taken_is_left_as_it_is(tmp_path: Path):
    repository = make(tmp_path)
    head = repository.head()
    with pytest.raises(Conflict, match="already"):
        make(tmp_path, {"other.md": b""})
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "mine.txt").write_bytes(b"mine")
    with pytest.raises(Conflict):
        make(tmp_path, name="files")
    assert repository.head() == head
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent-1", "files"]


def test_opening_says_what_is_missing(tmp_path: Path):
    with pytest.raises(StoreError, match="nowhere"):
        MemoryRepository.open(tmp_path / "nowhere")
    make(tmp_path)
    (tmp_path / "agent-1" / "inner").mkdir()
    with pytest.raises(StoreError, match="inner"):
        MemoryRepository.open(tmp_path / "agent-1" / "inner")
    with pytest.raises(InvalidInput, match="absolute"):
        MemoryRepository.open(Path("agent-1"))


def test_missing_library_is_named_with_what_installs_it(tmp_path: Path):
    make(tmp_path)
    code = (
        "import sys; sys.modules['pygit2'] = None\n"
        "from pathlib import Path\n"
        "from eunoe.memory.repository import MemoryRepository\n"
        "try:\n    MemoryRepository.open(Path(sys.argv[1]))\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "agent-1")], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "InvalidInput Memory files need the git library, which is not installed. "
        "Install it with: pip install 'eunoe[git]'\n"
    )


def test_library_is_not_imported_before_a_repository_is_opened():
    code = (
        "import sys, eunoe.memory.repository, eunoe.memory.history, eunoe.memory.hooks, eunoe.memory.merge\n"
        "print('pygit2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_head_sees_a_commit_from_outside_at_once_also_when_references_are_packed(tmp_path: Path):
    repository = make(tmp_path)
    for number in range(3):
        (repository.path / "notes.md").write_text(f"{number}")
        git(repository.path, "add", "-A")
        git(repository.path, "commit", "-qm", "by hand")
        assert repository.head() == git(repository.path, "rev-parse", "main").strip()
        git(repository.path, "pack-refs", "--all")
        assert repository.head() == git(repository.path, "rev-parse", "main").strip()


def test_head_of_a_repository_that_is_gone_is_an_error_and_not_an_empty_memory(tmp_path: Path):
    repository = make(tmp_path)
    repository.path.rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="gone"):
        repository.head()


def test_commit_is_an_object_only_until_the_head_moves(tmp_path: Path):
    repository = make(tmp_path)
    before = repository.head()
    commit = write(repository, {PERSONA: b"I forget.\n"})
    assert repository.head() == before
    assert (repository.path / PERSONA).read_bytes() == b"I remember.\n"
    # A crash here leaves an object that nothing names; another process can still go on from it.
    again = MemoryRepository.open(repository.path)
    assert again.head() == before
    assert contents(again, commit) == {PERSONA: b"I forget.\n"}
    again.move_head(before, commit)
    assert git(repository.path, "rev-parse", "main").strip() == commit
    assert git(repository.path, "fsck", "--strict") == ""


def test_change_that_changes_nothing_makes_no_commit(tmp_path: Path):
    repository = make(tmp_path)
    head = repository.head()
    assert write(repository, {}) == head
    assert write(repository, {PERSONA: b"I remember.\n"}) == head


def test_head_moves_only_from_where_it_was_expected(tmp_path: Path):
    repository = make(tmp_path)
    head = repository.head()
    one, other = write(repository, {"a.md": b"1"}), write(repository, {"a.md": b"2"})
    repository.move_head(head, one)
    with pytest.raises(StaleRevision) as stale:
        repository.move_head(head, other)
    assert stale.value.details["current_revision"] == one
    with pytest.raises(StaleRevision):
        repository.move_head(None, write(repository, {"b.md": b"3"}))
    assert repository.head() == one


def test_history_is_never_rewritten(tmp_path: Path):
    repository = make(tmp_path)
    first = repository.head()
    assert first is not None
    second = write(repository, {"a.md": b"1"})
    repository.move_head(first, second)
    aside = write(repository, {"a.md": b"2"}, parent=first)
    for elsewhere in (first, aside):
        with pytest.raises(Conflict, match="never rewritten"):
            repository.move_head(second, elsewhere)
    repository.move_head(second, second)
    assert repository.head() == second


def test_unknown_commits_are_named(tmp_path: Path):
    repository = make(tmp_path)
    head = repository.head()
    assert head is not None
    blob = repository.snapshot(head).entries[0].blob_id
    for unknown in ("0" * 40, blob, "not an id"):
        with pytest.raises(NotFound, match=unknown):
            repository.snapshot(unknown)
        with pytest.raises(NotFound, match=unknown):
            repository.is_ancestor(head, unknown)
        with pytest.raises(NotFound, match=unknown):
            repository.move_head(head, unknown)
        with pytest.raises(NotFound, match=unknown):
            write(repository, {"a.md": b""}, parent=unknown)


def test_damaged_repository_is_an_error_that_names_the_object(tmp_path: Path):
    repository = make(tmp_path)
    head = repository.head()
    assert head is not None
    (entry,) = repository.snapshot(head).entries
    (repository.git_folder / "objects" / entry.blob_id[:2] / entry.blob_id[2:]).unlink()
    again = MemoryRepository.open(repository.path)
    for look in (lambda: again.read(entry.blob_id), lambda: again.with_sizes([entry])):
        with pytest.raises(StoreError, match=entry.blob_id):
            look()


def test_any_name_that_git_keeps_is_kept(tmp_path: Path):
    files = {name: name.encode() for name in HOSTILE_NAMES}
    repository = make(tmp_path, files)
    head = repository.head()
    assert head is not None
    assert contents(repository, head) == files
    assert [path for path, _, _ in listed(repository, head)] == sorted(HOSTILE_NAMES)
    assert git(repository.path, "status", "--porcelain") == ""
    assert git(repository.path, "fsck", "--strict") == ""
    changed = write(repository, dict.fromkeys(HOSTILE_NAMES[:5]) | {HOSTILE_NAMES[5]: b"new"})
    repository.move_head(head, changed)
    fast_forward_working_tree(repository, head, changed)
    assert git(repository.path, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "path",
    ["", "/a.md", "a//b.md", "a/", "../a.md", "a/../b.md", "./a.md", ".git/config", "a/.GIT/x", "a\0b", "\udc80"],
)
def test_path_that_leads_elsewhere_is_refused(tmp_path: Path, path: str):
    repository = make(tmp_path)
    with pytest.raises(InvalidInput):
        write(repository, {path: b"x"})


def test_file_and_folder_of_one_name_are_refused_unless_one_goes(tmp_path: Path):
    repository = make(tmp_path, {"a": b"file", "b/c": b"inner"})
    for changes in ({"a/x": b"1"}, {"b": b"1"}, {"n": b"1", "n/x": b"2"}):
        with pytest.raises(InvalidInput):
            write(repository, changes)
    swapped = write(repository, {"a": None, "a/x": b"1", "b/c": None, "b": b"2"})
    assert contents(repository, swapped) == {"a/x": b"1", "b": b"2"}


def test_deleting_what_is_not_there_is_told(tmp_path: Path):
    repository = make(tmp_path, {"a/b.md": b"1"})
    for path in ("a", "a/c.md", "x/y.md"):
        with pytest.raises(NotFound, match=path):
            write(repository, {path: None})


def test_modes_links_and_submodules_are_told_and_never_followed(tmp_path: Path):
    repository = make(tmp_path, {"run.sh": b"#!/bin/sh\n"})
    head = repository.head()
    assert head is not None
    (repository.path / "run.sh").chmod(0o755)
    (repository.path / "out.md").symlink_to("/etc/passwd")
    git(repository.path, "add", "-A")
    git(repository.path, "update-index", "--add", "--cacheinfo", f"160000,{head},inner")
    git(repository.path, "commit", "-qm", "odd")
    commit = repository.head()
    assert commit is not None
    snapshot = repository.snapshot(commit)
    modes = {entry.path: entry.mode for entry in snapshot.entries}
    assert modes == {"run.sh": EXECUTABLE, "out.md": SYMLINK, "inner": SUBMODULE}
    link = snapshot.entry("out.md")
    assert link is not None
    assert repository.read(link.blob_id) == b"/etc/passwd"
    assert [entry.size for entry in repository.with_sizes(snapshot.entries)] == [0, 11, 10]
    kept = write(repository, {"run.sh": b"#!/bin/sh\nls\n", "out.md": b"text"})
    modes = {entry.path: entry.mode for entry in repository.snapshot(kept).entries}
    assert modes == {"run.sh": EXECUTABLE, "out.md": FILE, "inner": SUBMODULE}


def test_names_that_are_no_text_are_listed(tmp_path: Path):
    repository = make(tmp_path)
    with open(os.fsencode(repository.path) + b"/\xff\xfe.md", "wb") as file:  # noqa: PTH123 - a path in bytes
        file.write(b"odd")
    git(repository.path, "add", "-A")
    git(repository.path, "commit", "-qm", "odd name")
    commit = repository.head()
    assert commit is not None
    assert contents(repository, commit)["\udcff\udcfe.md"] == b"odd"
    # Another file of that folder can change, and the odd one stays.
    assert "\udcff\udcfe.md" in contents(repository, write(repository, {"b.md": b"1"}))


def test_large_blobs_go_through(tmp_path: Path):
    data = b"0123456789abcdef" * (10 * 64 * 1024)
    repository = make(tmp_path, {"reference/large.bin": data})
    head = repository.head()
    assert head is not None
    (entry,) = repository.with_sizes(repository.snapshot(head).entries)
    assert entry.size == len(data)
    assert repository.read(entry.blob_id) == data


def test_snapshot_of_a_commit_shares_what_did_not_change(tmp_path: Path):
    repository = make(tmp_path, {f"notes/{n}/x.md": b"%d" % n for n in range(5)} | {"b/c/d.md": b""})
    head = repository.head()
    assert head is not None
    before = repository.snapshot(head)
    after = repository.snapshot(write(repository, {"notes/3/x.md": b"new", "b/c/d.md": None}))
    assert after.root.folders["notes"].folders["2"] is before.root.folders["notes"].folders["2"]
    changes = changed_paths(before, after)
    assert [(c.path, c.before is not None, c.after is not None) for c in changes] == [
        ("b/c/d.md", True, False),
        ("notes/3/x.md", True, True),
    ]
    assert repository.snapshot(head) is before
    assert [entry.path for entry in before.below("b")] == [entry.path for entry in before.below("b/c/")] == ["b/c/d.md"]
    assert before.below("b/c/d.md") == before.below("nowhere") == ()


names = st.sampled_from(["a", "b", "a.md", "a-", "a0", "caf\u00e9", "\uffff", "\U00010000", "z z"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
edits = st.lists(st.tuples(paths, st.none() | st.binary(max_size=3)), max_size=6).map(dict)


def apply_to(model: dict[str, bytes], changes: dict[str, bytes | None]) -> dict[str, bytes] | None:
    """What the files become; ``None`` where a file would be a folder too, or a deleted file is not there."""
    if any(data is None and path not in model for path, data in changes.items()):
        return None
    after = {path: data for path, data in model.items() if path not in changes}
    after |= {path: data for path, data in changes.items() if data is not None}
    folders = {path[:at] for path in after for at, sign in enumerate(path) if sign == "/"}
    return None if folders & after.keys() else after


@settings(max_examples=12)
@given(steps=st.lists(edits, max_size=6))
def test_any_edits_come_to_what_a_plain_mapping_comes_to_and_to_what_git_lists(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, bytes | None]]
):
    repository = make(tmp_path_factory.mktemp("edits"), {})
    commit = repository.head()
    assert commit is not None
    model: dict[str, bytes] = {}
    for changes in steps:
        after = apply_to(model, changes)
        if after is None:
            with pytest.raises((InvalidInput, NotFound)):
                write(repository, changes, parent=commit)
            continue
        model, commit = after, write(repository, changes, parent=commit)
        assert contents(repository, commit) == model
    rows = ls_tree(repository.path, commit)
    assert listed(repository, commit) == sorted(rows)
    assert [path for path, _, _ in rows] == sorted(model)
    assert git(repository.path, "fsck", "--strict", "--no-dangling") == ""


def test_one_instance_serves_many_threads(tmp_path: Path):
    repository = make(tmp_path, {f"notes/{n:03}.md": b"%d\n" % n * 50 for n in range(100)})
    head = repository.head()
    assert head is not None
    done = threading.Event()

    def read_all(seed: int) -> int:
        rounds = 0
        while not done.is_set() or rounds < 3:
            commit = repository.head()
            assert commit is not None
            for entry in repository.snapshot(commit).entries[seed::7]:
                number = int(entry.path[6:9])
                assert repository.read(entry.blob_id).startswith(b"%d\n" % number)
            rounds += 1
        return rounds

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read_all, seed) for seed in range(4)]
        try:
            commit = head
            for number in range(8):
                new = write(repository, {f"notes/{number:03}.md": b"%d\nnew\n" % number}, parent=commit)
                repository.move_head(commit, new)
                commit = new
        finally:
            done.set()
        assert all(reader.result(30) >= 3 for reader in readers)
    assert repository.head() == commit


def test_author_and_time_of_a_commit_are_kept(tmp_path: Path):
    repository = make(tmp_path)
    commit = repository.write_commit(
        repository.head(), {"a.md": b"1"}, author=Author("Zo\u00eb", "z@x"), message="S\u00e9\n\nWhy\n", when=WHEN
    )
    said = git(repository.path, "log", "-1", "--format=%an|%ae|%cn|%aI|%B", commit)
    assert said == "Zo\u00eb|z@x|Zo\u00eb|2026-03-01T12:30:15+02:00|S\u00e9\n\nWhy\n\n"
    assert structs.asdict(AGENT) == {"name": "Mnemosyne", "email": "agent-1@eunoe.local"}


def test_G12_clone_without_remote_settings_and_a_deleted_current_folder(tmp_path: Path):
    make(tmp_path)
    git(tmp_path, "clone", "-q", "agent-1", "copy")
    (tmp_path / "gone").mkdir()
    code = (
        "import os, sys\n"
        "os.chdir(sys.argv[1] + '/gone'); os.rmdir(sys.argv[1] + '/gone')\n"
        "from pathlib import Path\n"
        "from datetime import UTC, datetime\n"
        "from eunoe.memory.git_library import Author\n"
        "from eunoe.memory.repository import MemoryRepository\n"
        "from eunoe.memory.working_tree import fast_forward_working_tree\n"
        "r = MemoryRepository.open(Path(sys.argv[1]) / 'copy')\n"
        "h = r.head()\n"
        "c = r.write_commit(h, {'a.md': b'1'}, author=Author('a', 'b'), message='m', when=datetime.now(UTC))\n"
        "r.move_head(h, c)\n"
        "print(fast_forward_working_tree(r, h, c).updated)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, cwd="/", check=True
    )
    assert (done.stdout, done.stderr) == ("('a.md',)\n", "")
    assert git(tmp_path / "copy", "status", "--porcelain") == ""
