"""Which paths memory files may have, and which file is which block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.memory.paths import (
    check_path,
    clashes,
    in_prompt,
    is_index,
    label_of,
    layout_of,
    memory_folders,
    path_of,
)
from eunoe.state.errors import InvalidInput


@pytest.mark.parametrize(
    ("label", "path"),
    [
        ("human", "human.md"),
        ("system/human", "system/human.md"),
        ("system/projects/alpha", "system/projects/alpha.md"),
        ("notes.md", "notes.md.md"),
        ("my notes", "my notes.md"),
        ("地図/é", "地図/é.md"),
        ("skills/pdf", "skills/pdf/SKILL.md"),
        ("skills/office/pdf", "skills/office/pdf/SKILL.md"),
        ("skills", "skills.md"),
    ],
)
def test_a_label_and_its_path_lead_to_each_other(label: str, path: str):
    assert path_of(label) == path
    assert label_of(path) == label


@pytest.mark.parametrize(
    "path", ["a.txt", "a", "system/data.csv", "skills/x.md", "skills/SKILL.md", "skills/x/notes.md", "a/.md", ".md"]
)
def test_other_files_are_no_blocks(path: str):
    assert label_of(path) is None


@given(st.text(st.sampled_from("aA. /é\u0301_~-:kils"), min_size=1, max_size=24))
def test_no_label_shares_its_file_with_another(label: str):
    try:
        path = path_of(label)
    except InvalidInput:
        return
    assert label_of(path) == label
    check_path(path)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "empty"),
        ("/etc/passwd", "starts with '/'"),
        ("~/a.md", "starts with '~'"),
        ("../a.md", "the part '..'"),
        ("a/../b.md", "the part '..'"),
        ("a//b.md", "the part ''"),
        ("a/./b.md", "the part '.'"),
        ("a/", "the part ''"),
        ("a\\b.md", "backslash"),
        ("a\nb.md", "U\\+000A at offset 1"),
        ("a\x1b.md", "U\\+001B"),
        ("a\u2028.md", "U\\+2028"),
        ("a\udcff.md", "U\\+DCFF"),
        (".git/config", "reserved for git"),
        ("a/.GIT/hooks/x", "reserved for git"),
        (".g\u200cit/config", "reserved for git"),
        (".git /config", "reserved for git"),
        (".git./config", "reserved for git"),
        (".git::$INDEX_ALLOCATION/config", "reserved for git"),
        ("GIT~1/config", "reserved for git"),
        ("a/.md", "no name before"),
        ("x" * 256, "256 bytes"),
        ("é" * 128, "256 bytes"),
        ("/".join(["x" * 200] * 5), "1004 bytes"),
    ],
)
def test_a_path_that_is_not_safe_everywhere_is_refused_with_the_reason(path: str, reason: str):
    with pytest.raises(InvalidInput, match=reason) as caught:
        check_path(path)
    assert caught.value.field == "path"


@pytest.mark.parametrize(
    "path",
    ["a.md", "a b/c'd\".md", "é.md", "e\u0301.md", ".gitignore", ".github/x.md", "git/x.md", "x" * 255, "a..md", "a~1"],
)
def test_other_paths_are_kept_as_they_are(path: str):
    check_path(path)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("", "blank"),
        ("../x", "'..'"),
        ("/x", "empty part"),
        ("skills/", "empty part"),
        ("a//b", "empty part"),
        ("a/.git/b", "reserved for git"),
        ("é" * 200, "403 bytes"),
    ],
)
def test_a_label_that_cannot_be_a_file_is_refused_as_a_label(label: str, reason: str):
    with pytest.raises(InvalidInput, match=reason) as caught:
        path_of(label)
    assert caught.value.field == "label"


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["a.md", "b.md"], []),
        (["a.md", "a/b.md"], []),
        (["A.md", "a.md"], [("a.md", "A.md")]),
        (["\u00e9.md", "e\u0301.md"], [("\u00e9.md", "e\u0301.md")]),
        (["stra\u00dfe.md", "STRASSE.md"], [("stra\u00dfe.md", "STRASSE.md")]),
        (["\u03b1\u0345\u0301.md", "\u03b1\u0301\u0345.md"], [("\u03b1\u0345\u0301.md", "\u03b1\u0301\u0345.md")]),
        (["notes/a.md", "Notes"], [("Notes", "notes/")]),
        (["x/A/1.md", "x/a/2.md"], []),
        (["a.md", "A.md", "\u00c5.md"], [("a.md", "A.md")]),
    ],
)
def test_names_that_some_file_systems_cannot_tell_apart_clash(paths: list[str], found: list[tuple[str, str]]):
    assert clashes(paths) == found
    assert clashes(reversed(paths)) == found


def test_the_layout_is_told_by_the_index_at_the_root():
    assert layout_of(["system/a.md", "projects/MEMORY.md"]) == 1
    assert layout_of(["system/a.md", "MEMORY.md"]) == 2
    assert layout_of([]) == 1


@pytest.mark.parametrize(
    ("path", "one", "two"),
    [
        ("system/human.md", True, False),
        ("system/a/b.md", True, False),
        ("system/data.csv", False, False),
        ("human.md", False, True),
        ("MEMORY.md", False, True),
        ("projects/MEMORY.md", False, False),
        ("skills/x/SKILL.md", False, False),
        ("systems/a.md", False, False),
    ],
)
def test_which_files_the_prompt_shows(path: str, one: bool, two: bool):
    assert (in_prompt(path, 1), in_prompt(path, 2)) == (one, two)


def test_a_folder_belongs_to_memory_if_it_and_all_above_have_an_index():
    paths = {
        "MEMORY.md",
        "projects/MEMORY.md",
        "projects/alpha/MEMORY.md",
        "projects/beta/notes.md",
        "loose/inner/MEMORY.md",
        "skills/MEMORY.md",
        "skills/x/MEMORY.md",
    }
    assert memory_folders(paths) == ("projects/", "projects/alpha/")
    assert memory_folders(paths - {"projects/MEMORY.md"}) == ()
    assert memory_folders(paths - {"MEMORY.md"}) == ()


def test_an_index_is_one_in_layout_2_outside_skills_only():
    assert [is_index(path, 2) for path in ("MEMORY.md", "a/MEMORY.md", "skills/a/MEMORY.md", "memory.md")] == [
        True,
        True,
        False,
        False,
    ]
    assert not is_index("MEMORY.md", 1)
