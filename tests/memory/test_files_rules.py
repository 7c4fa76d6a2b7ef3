"""What a commit of memory files may hold, and that the answer is the one that the API and the tools give (I9)."""

import datetime as dt
import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from eunoe.memory import verdict
from eunoe.memory.file_blocks import render_block
from eunoe.memory.file_changes import check_change
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.file_rules import MAX_FILE, MAX_PROMPT_FILE, MAX_SYSTEM_FILE, check_contents, check_tree
from eunoe.memory.paths import layout_of, memory_folders
from eunoe.memory.tools import edit
from eunoe.memory.tree import EXECUTABLE, FILE, SUBMODULE, SYMLINK, TreeEntry
from eunoe.state.blocks import Block, BlockChanges
from eunoe.state.errors import BlockLimitExceeded, EunoeError, InvalidInput, ReadOnlyBlock

MOMENT = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)

Files = Mapping[str, str | bytes]


class Repository:
    """Files by content, as a git repository holds them; it remembers what was read."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.read_paths: list[str] = []

    def tree(self, files: Files, *, mode: int = FILE) -> list[TreeEntry]:
        entries: list[TreeEntry] = []
        for path, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            blob_id = hashlib.sha1(data, usedforsecurity=False).hexdigest()
            self.blobs[blob_id] = data
            entries.append(TreeEntry(path=path, blob_id=blob_id, mode=mode, size=len(data)))
        return entries

    def read(self, entry: TreeEntry) -> bytes:
        self.read_paths.append(entry.path)
        return self.blobs[entry.blob_id]


def problems(files: Files, *, mode: int = FILE) -> list[tuple[str, str]]:
    repository = Repository()
    found = check_tree(repository.tree(files, mode=mode), repository.read)
    for problem in found:
        assert repr(problem.path) in problem.sentence
        assert problem.rule in problem.sentence
        assert problem.message.strip().endswith((".", "'"))
    return [(problem.path, problem.rule) for problem in found]


def front(**keys: str) -> str:
    return "".join(["---\n", *(f"{key}: {value}\n" for key, value in keys.items()), "---\nbody\n"])


GOOD = front(description="Facts")
NAMED = front(name="a", description="Facts")

LAYOUT_1: dict[str, tuple[Files, list[tuple[str, str]]]] = {
    "nothing": ({}, []),
    "ordinary": ({"system/human.md": GOOD, "notes/x.md": "plain", "skills/pdf/SKILL.md": front(name="pdf")}, []),
    "file beside folder": ({"system/a.md": GOOD, "system/a/b.md": GOOD}, []),
    "no front matter": ({"system/human.md": "Likes maps."}, []),
    "unknown keys": ({"system/human.md": front(description="x", owner="me")}, []),
    "null description": ({"system/human.md": front(description="null")}, []),
    "no description": ({"system/human.md": front(limit="5")}, [("system/human.md", "description")]),
    "blank description": ({"reference/a.md": front(description="' '")}, [("reference/a.md", "description")]),
    "empty description": ({"system/human.md": front(description="")}, [("system/human.md", "description")]),
    "no description elsewhere": ({"notes/a.md": front(limit="5")}, []),
    "not closed": ({"system/human.md": "---\ndescription: x\n"}, [("system/human.md", "front matter")]),
    "not closed elsewhere": ({"notes/a.md": "---\ndescription: x\n"}, []),
    "bad yaml": ({"system/human.md": front(description="a: b")}, [("system/human.md", "front matter")]),
    "bad yaml in a skill": ({"skills/x/SKILL.md": front(description="a: b")}, []),
    "bad yaml elsewhere": ({"notes/x.md": front(description="a: b")}, []),
    "flat skill": ({"skills/x.md": "x"}, [("skills/x.md", "skill")]),
    "conflict": ({"notes/x.md": "<<<<<<< a\n=======\n>>>>>>> b\n"}, [("notes/x.md", "conflict")]),
    "conflict in a skill": ({"skills/git/SKILL.md": "<<<<<<< a\n=======\n>>>>>>> b\n"}, []),
    "no utf-8": ({"skills/x/SKILL.md": b"\xff", "notes/a.md": b"\xff"}, [
        ("notes/a.md", "encoding"), ("skills/x/SKILL.md", "encoding"),
    ]),
    "pictures": ({"profile.png": b"\xff\x00", "system/p.png": b"\xff\x00"}, []),
    "escape": ({"../x.md": "x", ".git/config": "x"}, [("../x.md", "path"), (".git/config", "path")]),
    "clash": ({"system/A.md": GOOD, "system/a.md": GOOD}, [("system/a.md", "clash")]),
    "long value": ({"system/a.md": front(description="x", limit="4")}, [("system/a.md", "value")]),
    "value at the limit": ({"system/a.md": front(description="x", limit="5")}, []),
    "long value elsewhere": ({"notes/a.md": front(limit="4"), "skills/x/SKILL.md": front(limit="4")}, [
        ("notes/a.md", "value"), ("skills/x/SKILL.md", "value"),
    ]),
    "longer than the default": ({"notes/a.md": "x" * 100_001}, [("notes/a.md", "value")]),
    "bad limit": ({"system/a.md": front(description="x", limit="0")}, [("system/a.md", "limit")]),
    "control character": ({"system/a.md": "a\x1bb"}, [("system/a.md", "value")]),
    "carriage return": ({"system/a.md": "a\rb"}, [("system/a.md", "value")]),
    "label with white space": ({"system/a .md": GOOD}, [("system/a .md", "path")]),
    "large": ({"system/a.md": b"x" * (MAX_PROMPT_FILE + 1), "system/b": b"x" * (MAX_SYSTEM_FILE + 1)}, [
        ("system/a.md", "size"), ("system/b", "size"),
    ]),
    "large elsewhere": ({"a.bin": b"x" * MAX_FILE, "b.bin": b"x" * (MAX_FILE + 1)}, [("b.bin", "size")]),
}  # fmt: skip

LAYOUT_2: dict[str, tuple[Files, list[tuple[str, str]]]] = {
    "ordinary": ({"human.md": NAMED, "projects/MEMORY.md": "Projects.", "projects/a.md": NAMED}, []),
    "without a name": ({"human.md": front(description="x")}, [("human.md", "name")]),
    "without a description": ({"human.md": front(name="x")}, [("human.md", "description")]),
    "blank": ({"human.md": front(name="''", description="' '")}, [("human.md", "description"), ("human.md", "name")]),
    "without front matter": ({"human.md": "x"}, [("human.md", "description"), ("human.md", "name")]),
    "another key": ({"human.md": front(name="a", description="b", limit="5", x="1")}, [("human.md", "front matter")]),
    "in a memory folder": ({"a/MEMORY.md": "A.", "a/b.md": "x"}, [("a/b.md", "description"), ("a/b.md", "name")]),
    "in another folder": ({"a/b.md": "x", "c/d/MEMORY.md": "x", "c/d/e.md": "x"}, []),
    "in skills": ({"skills/MEMORY.md": "x", "skills/x/SKILL.md": "x"}, [("skills/MEMORY.md", "skill")]),
    "index with front matter": ({"a/MEMORY.md": NAMED}, [("a/MEMORY.md", "index")]),
    "large": ({"human.md": b"x" * (MAX_PROMPT_FILE + 1), "system/a.md": "x" * 90_000}, [("human.md", "size")]),
}


@pytest.mark.parametrize("case", LAYOUT_1)
def test_the_rules_of_layout_1(case: str):
    files, expected = LAYOUT_1[case]
    assert problems(files) == expected


@pytest.mark.parametrize("case", LAYOUT_2)
def test_the_rules_of_layout_2(case: str):
    files, expected = LAYOUT_2[case]
    assert problems({"MEMORY.md": "Index.", **files}) == expected


def test_the_root_index_has_no_front_matter():
    assert problems({"MEMORY.md": NAMED}) == [("MEMORY.md", "index")]


@pytest.mark.parametrize(
    ("mode", "expected"), [(FILE, []), (EXECUTABLE, []), (SYMLINK, ["mode"]), (SUBMODULE, ["mode"])]
)
def test_memory_holds_plain_files_only(mode: int, expected: list[str]):
    assert [rule for _, rule in problems({"system/a.md": GOOD}, mode=mode)] == expected


def test_a_size_that_was_not_looked_up_is_that_of_the_bytes():
    repository = Repository()
    entries = [
        structs.replace(entry, size=None) for entry in repository.tree({"system/a.md": b"x" * (MAX_PROMPT_FILE + 1)})
    ]
    assert [problem.rule for problem in check_tree(entries, repository.read)] == ["size"]


def test_a_file_that_is_too_large_is_not_read():
    repository = Repository()
    check_tree(repository.tree({"system/a.md": b"x" * (MAX_PROMPT_FILE + 1)}), repository.read)
    assert repository.read_paths == []


def test_files_that_were_accepted_before_are_not_read_again():
    repository = Repository()
    since = repository.tree({"system/a.md": GOOD, "system/b.md": GOOD, "old.md": "x"})
    now = repository.tree({"system/a.md": GOOD, "system/b.md": front(limit="5"), "old.md": "x", "new.md": "y"})
    found = check_tree(now, repository.read, since=since)
    assert [problem.path for problem in found] == ["system/b.md"]
    assert repository.read_paths == ["system/b.md", "new.md"]


@pytest.mark.parametrize(
    "files",
    [
        *(files for files, _ in LAYOUT_1.values()),
        *({"MEMORY.md": "Index.", **files} for files, _ in LAYOUT_2.values()),
    ],
    ids=[*(f"layout 1: {case}" for case in LAYOUT_1), *(f"layout 2: {case}" for case in LAYOUT_2)],
)
def test_changed_contents_alone_are_judged_as_the_whole_commit_is(files: Files):
    repository = Repository()
    now = repository.tree(files)
    since = repository.tree({path: ("" if index else data) for index, (path, data) in enumerate(files.items())})
    paths = [entry.path for entry in now]
    changed = [entry for entry in now if entry not in since]
    alone = check_contents(changed, layout_of(paths), memory_folders(paths), repository.read)
    whole = [problem for problem in check_tree(now, repository.read, since=since) if problem.rule != "clash"]
    assert [problem.sentence for problem in alone] == [problem.sentence for problem in whole]


def test_a_new_index_brings_its_rules_to_files_that_did_not_change():
    repository = Repository()
    since = repository.tree({"MEMORY.md": "Index.", "a/b.md": "x"})
    now = repository.tree({"MEMORY.md": "Index.", "a/b.md": "x", "a/MEMORY.md": "A."})
    assert check_tree(since, repository.read) == []
    assert {problem.path for problem in check_tree(now, repository.read, since=since)} == {"a/b.md"}


@given(st.permutations([*list(LAYOUT_1["ordinary"][0]), "system/x.md", "A.md", "a.md"]))
def test_the_answer_does_not_depend_on_the_order_of_entries(order: list[str]):
    assert problems(dict.fromkeys(order, front(limit="5"))) == problems(dict.fromkeys(sorted(order), front(limit="5")))


# One verdict


def block(value: str, *, limit: int = 100, read_only: bool = False) -> Block:
    return Block(
        id="block-1",
        label="system/human",
        value=value,
        limit=limit,
        read_only=read_only,
        description="Facts",
        created_at=MOMENT,
        updated_at=MOMENT,
    )


def answer(error: EunoeError) -> tuple[type[EunoeError], str, dict[str, Any]]:
    return type(error), error.message, error.details


def commit(before: Block, **changed: Any) -> list[FileProblem]:
    """Judge a commit by a user that changes a block's file, as hook, push and file sync do."""
    repository = Repository()
    old = repository.tree({"system/human.md": render_block(None, "system/human.md", before)})
    new = repository.tree(
        {"system/human.md": render_block(None, "system/human.md", structs.replace(before, **changed))}
    )
    return [*check_tree(new, repository.read, since=old), *check_change(old, new, repository.read, "user")]


def test_B01_a_value_over_its_limit_gets_the_same_answer_by_api_by_tool_and_by_commit():
    before, long = block("short"), "x" * 500
    with pytest.raises(BlockLimitExceeded) as by_api:
        verdict.check_change(before, BlockChanges(value=long))
    with pytest.raises(BlockLimitExceeded) as by_tool:
        edit("core_memory_replace", {"label": "system/human", "old_content": "short", "new_content": long}, [before])
    by_commit = commit(before, value=long)
    assert len(by_commit) == 1
    assert by_commit[0].path == "system/human.md"
    assert answer(by_commit[0].as_error()) == answer(by_api.value) == answer(by_tool.value)
    assert "100" in by_commit[0].message
    assert "500" in by_commit[0].message


def test_a_change_of_a_read_only_value_gets_the_same_answer_by_api_by_tool_and_by_commit():
    before = block("short", read_only=True)
    with pytest.raises(ReadOnlyBlock) as by_api:
        verdict.check_change(before, BlockChanges(value="other"))
    with pytest.raises(ReadOnlyBlock) as by_tool:
        edit("core_memory_append", {"label": "system/human", "content": "other"}, [before])
    by_commit = commit(before, value="other")
    assert len(by_commit) == 1
    assert answer(by_commit[0].as_error()) == answer(by_api.value) == answer(by_tool.value)


@given(
    st.sampled_from(["", "short", "x" * 100, "x" * 101, "a\x1bb", "a\tb\n"]),
    st.sampled_from(["Facts", "Other", "x" * 201]),
    st.sampled_from([1, 100, 0, 10_000_001]),
    st.booleans(),
    st.booleans(),
)
@example(value="short", description="x" * 20_001, limit=100, was=False, now=False)
@example(value="x" * 101, description="x" * 20_001, limit=0, was=True, now=False)
def test_API_and_commit_agree_on_every_change(value: str, description: str, limit: int, was: bool, now: bool):
    before = block("short", read_only=was)
    changes = BlockChanges(value=value, description=description, limit=limit, read_only=now)
    refused = ""
    try:
        verdict.check_change(before, changes)
    except InvalidInput as error:
        refused = error.message
    data = f"---\ndescription: {description}\nread_only: {str(now).lower()}\nlimit: {limit}\n---\n{value}".encode()
    repository = Repository()
    old = repository.tree({"system/human.md": render_block(None, "system/human.md", before)})
    new = repository.tree({"system/human.md": data})
    found = [*check_change(old, new, repository.read, "user"), *check_tree(new, repository.read)]
    assert bool(found) == bool(refused)
    if refused:
        assert refused in [problem.message for problem in found]


# What read_only protects

LOCKED = front(description="Facts", read_only="true")
OPEN = front(description="Facts", read_only="false")

CHANGES: dict[str, tuple[Files, Files, list[str], list[str]]] = {
    "edit": ({"a.md": LOCKED}, {"a.md": LOCKED + "x"}, ["a.md"], ["a.md"]),
    "delete": ({"a.md": LOCKED}, {}, ["a.md"], ["a.md"]),
    "rename": ({"a.md": LOCKED}, {"b.md": LOCKED}, ["a.md", "b.md"], ["a.md"]),
    "unlock": ({"a.md": LOCKED}, {"a.md": OPEN}, ["a.md"], []),
    "unlock and edit": ({"a.md": LOCKED}, {"a.md": OPEN + "x"}, ["a.md"], []),
    "take the line away": ({"a.md": LOCKED}, {"a.md": GOOD}, ["a.md"], ["a.md"]),
    "make unreadable": ({"a.md": LOCKED}, {"a.md": front(description="a: b")}, ["a.md"], ["a.md"]),
    "comment": ({"a.md": LOCKED}, {"a.md": LOCKED.replace("Facts", "Facts # x")}, ["a.md"], []),
    "metadata": ({"a.md": LOCKED}, {"a.md": LOCKED.replace("read_only", "metadata: {a: 1}\nread_only")}, ["a.md"], []),
    "description": ({"a.md": LOCKED}, {"a.md": LOCKED.replace("Facts", "Other")}, ["a.md"], ["a.md"]),
    "lock": ({"a.md": GOOD}, {"a.md": LOCKED}, ["a.md"], []),
    "new and locked": ({}, {"a.md": LOCKED}, ["a.md"], []),
    "edit of an open file": ({"a.md": OPEN}, {"a.md": GOOD + "x"}, [], []),
    "delete of an open file": ({"a.md": OPEN}, {}, [], []),
    "repair": ({"a.md": front(description="a: b")}, {"a.md": GOOD}, [], []),
    "other file": ({"a.md": LOCKED, "b.md": "x"}, {"a.md": LOCKED, "b.md": "y"}, [], []),
    "no memory file": ({"a.txt": LOCKED}, {"a.txt": "x"}, [], []),
    "limit taken away": ({"a.md": front(limit="6")}, {"a.md": "longer than that"}, ["a.md"], ["a.md"]),
    "limit raised": ({"a.md": front(limit="6")}, {"a.md": front(limit="60") + "longer"}, [], []),
}


@pytest.mark.parametrize("actor", ["agent", "user"])
@pytest.mark.parametrize("case", CHANGES)
def test_who_may_change_what(case: str, actor: Literal["agent", "user"]):
    before, after, agent, user = CHANGES[case]
    repository = Repository()
    found = check_change(repository.tree(before), repository.tree(after), repository.read, actor)
    assert [problem.path for problem in found] == (agent if actor == "agent" else user)


def test_a_read_only_file_cannot_be_made_a_link():
    repository = Repository()
    before, after = repository.tree({"a.md": LOCKED}), repository.tree({"a.md": LOCKED}, mode=SYMLINK)
    assert [problem.rule for problem in check_change(before, after, repository.read, "user")] == ["read only"]


def test_what_did_not_change_is_not_read():
    repository = Repository()
    entries = repository.tree({f"{number}.md": LOCKED for number in range(100)})
    assert check_change(entries, list(reversed(entries)), repository.read, "agent") == []
    assert repository.read_paths == []
