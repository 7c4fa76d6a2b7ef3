"""The limits that a repository of layout 2 sets for itself, and who may change them."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from eunoe.memory.constraints import CONFIG, Actor, matches
from eunoe.memory.judgement import change_problems, file_problems
from eunoe.memory.tree import FILE, TreeEntry

NAMED: Final = "---\nname: x\ndescription: About x\n---\n"


class Files:
    """Files of one commit, readable by what they hold."""

    def __init__(self, files: Mapping[str, str], limits: Mapping[str, Any] | None) -> None:
        held = {"MEMORY.md": "# Index\n", **files}
        if limits is not None:
            held[CONFIG] = json.dumps({"version": 1, **limits})
        self._held = held
        self.entries = [TreeEntry(path=path, blob_id=repr(held[path]), mode=FILE, size=None) for path in sorted(held)]

    def read(self, entry: TreeEntry) -> bytes:
        return self._held[entry.path].encode()


def told(files: Files, since: Files | None = None) -> list[tuple[str, str]]:
    problems = file_problems(files.entries, files.read, since=since.entries if since else ())
    return [(problem.path, problem.rule) for problem in problems]


def refused(before: Files, after: Files, actor: Actor) -> list[str]:
    def read(entry: TreeEntry) -> bytes:
        return (after if entry in after.entries else before).read(entry)

    return [problem.path for problem in change_problems(before.entries, after.entries, read, actor)]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (None, []),
        ({}, []),
        ({"maxDepth": 1}, [("a/b/deep.md", "depth")]),
        ({"maxDepth": 0}, [("a/MEMORY.md", "depth"), ("a/b/deep.md", "depth")]),
        ({"maxFileCharacters": len(NAMED) + 5}, []),
        ({"maxFileCharacters": len(NAMED) + 4}, [("é.md", "size")]),
        ({"maxFileCharacters": 1, "fileCharacterLimits": [{"pattern": "**", "maxCharacters": None}]}, []),
        (
            {"fileCharacterLimits": [{"pattern": "a/**", "maxCharacters": 3}, {"pattern": "**", "maxCharacters": 500}]},
            [("a/MEMORY.md", "size"), ("a/b/deep.md", "size")],
        ),
        ({"maxCoreMemoryCharacters": len(NAMED) + 5 + len("# Index\n")}, []),
        ({"maxCoreMemoryCharacters": len(NAMED) + 4 + len("# Index\n")}, [(CONFIG, "size")]),
        ({"maxDepth": -1}, [(CONFIG, "limits")]),
        ({"version": 2}, [(CONFIG, "limits")]),
        ({"ofAnotherTool": True}, []),
    ],
)
def test_a_commit_is_held_to_the_limits_that_it_sets(limits: Any, expected: list[tuple[str, str]]):
    files = {"é.md": f"{NAMED}ééééé", "a/MEMORY.md": "deep", "a/b/deep.md": "deeper", "skills/x/y/z/big.md": "x" * 900}
    assert told(Files(files, limits)) == expected


def test_without_an_index_at_the_root_there_are_no_such_limits():
    files = Files({"system/a.md": "---\ndescription: A\n---\nLong."}, {"maxFileCharacters": 1})
    entries = [entry for entry in files.entries if entry.path != "MEMORY.md"]
    assert file_problems(entries, files.read) == []


def test_what_was_accepted_is_judged_anew_when_the_limits_change():
    wide = Files({"a.md": f"{NAMED}aaaa", "b.md": f"{NAMED}bbbb"}, {"maxFileCharacters": 100})
    narrow = Files({"a.md": f"{NAMED}aaaa", "b.md": f"{NAMED}bbbb"}, {"maxFileCharacters": 30})
    assert told(narrow, since=wide) == [("a.md", "size"), ("b.md", "size")]
    longer = Files({"a.md": f"{NAMED}aaaa", "b.md": f"{NAMED}bbbb" + "b" * 100}, {"maxFileCharacters": 100})
    assert told(longer, since=wide) == [("b.md", "size")]


def test_a_message_names_the_limit_and_says_not_to_raise_it():
    (problem,) = file_problems(
        (files := Files({"a.md": f"{NAMED}aaaa"}, {"maxFileCharacters": 20})).entries, files.read
    )
    assert problem.message == (
        f"Has {len(NAMED) + 4} characters; {CONFIG} allows 20. Shorten it, or move a part to another file; "
        "do not raise the limit."
    )


def test_files_named_read_only_are_for_a_person_who_frees_them_first():
    rules = {"readOnlyFiles": ["rules/**", "*.txt"]}
    before = Files({"rules/a.md": "Be kind.", "b.md": f"{NAMED}b", "c.txt": "c"}, rules)
    after = Files({"rules/a.md": "Be rude.", "b.md": f"{NAMED}B"}, rules)
    for actor in ("agent", "user"):
        assert refused(before, after, actor) == ["c.txt", "rules/a.md"]
    added = Files({"rules/a.md": "Be kind.", "rules/b.md": "And brief.", "b.md": f"{NAMED}b", "c.txt": "c"}, rules)
    assert refused(before, added, "agent") == ["rules/b.md"]
    freed = Files({"rules/a.md": "Be rude.", "b.md": f"{NAMED}b", "c.txt": "c"}, {})
    assert refused(before, freed, "user") == []
    assert refused(before, freed, "agent") == [CONFIG, "rules/a.md"]
    assert refused(before, Files({"rules/a.md": "Be kind.", "b.md": f"{NAMED}b", "c.txt": "c"}, None), "agent") == [
        CONFIG
    ]


def test_limits_that_cannot_be_understood_may_be_repaired_by_anyone():
    broken = Files({}, {"version": "one"})
    assert refused(broken, Files({}, {}), "agent") == []


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a.md", "*.md", True),
        ("x/a.md", "*.md", False),
        ("x/a.md", "**/*.md", True),
        ("a.md", "**/*.md", True),
        ("x/y/a.md", "x/**", True),
        ("x", "x/**", False),
        ("ab.md", "a?.md", True),
        ("a/.md", "a?.md", False),
        ("a+b.md", "a+b.md", True),
        ("aab.md", "a+b.md", False),
        ("a.md", "/a.md", True),
    ],
)
def test_patterns_are_those_of_paths(path: str, pattern: str, expected: bool):
    assert matches(path, pattern) is expected
