"""How a memory file is read: what is its value, what its front matter says, and what is refused."""

import subprocess
import sys
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eunoe.memory import yaml_mapping
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.front_matter import MemoryFile, parse
from eunoe.memory.yaml_mapping import MAX_CHARACTERS

PATH = "system/human.md"


def read(text: str | bytes, *, strict: bool = False) -> MemoryFile:
    data = text if isinstance(text, bytes) else text.encode()
    file = parse(data, PATH, strict=strict)
    assert isinstance(file, MemoryFile), file.sentence
    assert file.raw == data
    return file


def problem(text: str | bytes, *, strict: bool = False) -> FileProblem:
    found = parse(text if isinstance(text, bytes) else text.encode(), PATH, strict=strict)
    assert isinstance(found, FileProblem)
    assert found.path == PATH
    assert PATH in found.sentence
    assert found.message in found.as_error().message
    return found


def test_front_matter_and_body_are_told_apart():
    file = read(
        "---\ndescription: Facts about the user # short\nread_only: true\nlimit: 500\nmetadata:\n  source: manual\n"
        "owner: me\n---\nLikes maps.\n---\nLives in Ravenna.\n"
    )
    assert file.description == "Facts about the user"
    assert file.read_only is True
    assert file.limit == 500
    assert file.metadata == {"source": "manual"}
    assert list(file.front) == ["description", "read_only", "limit", "metadata"]
    assert file.other_keys == ("owner",)
    assert file.body == "Likes maps.\n---\nLives in Ravenna.\n"
    assert file.notes == ()


def test_what_is_not_said_is_the_default_and_not_in_front():
    file = read("---\ndescription: x\n---\n")
    assert (file.read_only, file.limit, file.metadata, file.name, file.body) == (False, 100_000, {}, None, "")
    assert file.front == {"description": "x"}


@pytest.mark.parametrize(
    "text", ["", "Likes maps.", "Likes maps.\n", "\n---\na: b\n---\n", "--- \nx", "----\na\n----\n", "---", "x\n---\n"]
)
def test_without_front_matter_the_whole_text_is_the_value(text: str):
    file = read(text)
    assert file.body == text
    assert not file.had_front


def test_front_matter_that_is_not_closed_is_text_or_a_problem_where_it_is_asked_for():
    text = "---\ndescription: x\nLikes maps.\n"
    assert read(text).body == text
    found = problem(text, strict=True)
    assert (found.rule, found.line) == ("front matter", 1)


@pytest.mark.parametrize("body", ["abc", "abc\n", "abc\n\n", "\nabc", "", "\n", " abc ", "---\n"])
def test_the_body_is_the_value_to_the_last_character(body: str):
    assert read(f"---\ndescription: x\n---\n{body}").body == body


def test_a_byte_order_mark_and_crlf_are_tolerated_with_a_note():
    file = read("\ufeff---\r\ndescription: x\r\n---\r\nLikes maps.\r\nAnd stars.\r\n")
    assert file.description == "x"
    assert file.body == "Likes maps.\nAnd stars.\n"
    assert len(file.notes) == 2
    assert "byte order mark" in file.notes[0]
    assert "CRLF" in file.notes[1]


def test_an_index_is_all_text():
    file = parse(b"---\nname: x\n---\nProjects", "MEMORY.md", index=True)
    assert isinstance(file, MemoryFile)
    assert file.body == "---\nname: x\n---\nProjects"


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"ok\nLikes \xff maps", 2, "no UTF-8 at byte 9"),
        ("Likes maps".encode("utf-16"), 1, "UTF-16"),
        (b"a\nb\nc\0", 3, "NUL"),
    ],
)
def test_what_is_no_text_is_refused_with_the_place(data: bytes, line: int, words: str):
    found = problem(data)
    assert (found.rule, found.line) == ("encoding", line)
    assert words in found.message


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_marks_of_a_merge_conflict_are_refused(end: str):
    text = end.join(["---", "description: x", "---", "a", "<<<<<<< HEAD", "b", "=======", "c", ">>>>>>> other", ""])
    found = problem(text)
    assert (found.rule, found.line) == ("conflict", 5)


@pytest.mark.parametrize(
    "text",
    ["Heading\n=======\n", "<<<<<<< a\n", "=======\n>>>>>>> x\n", " <<<<<<< a\n =======\n >>>>>>> b\n", "<<<<<<<<\n"],
)
def test_other_lines_of_such_signs_are_text(text: str):
    assert read(text).body == text


@pytest.mark.parametrize(
    ("front", "rule", "line", "words"),
    [
        ("description: hello: world", "front matter", 2, "no valid YAML"),
        ("description: x\nlimit: 1\ndescription: y", "front matter", 4, "'description' twice"),
        ("metadata: {a: {b: 1, b: 2}}", "front matter", 2, "'b' twice"),
        ("- x", "front matter", 2, "no mapping"),
        ("just text", "front matter", 2, "no mapping"),
        ("a: &a [x]\ndescription: *a", "front matter", 2, "anchor or alias"),
        ("description: !!python/name:os.system x", "front matter", 2, "tag"),
        ("<<: {read_only: true}", "front matter", 2, "merge key"),
        ("metadata:\n  <<: {a: 1}", "front matter", 3, "merge key"),
        ("%YAML 1.1\n--- {}", "front matter", 3, "directive"),
        ("a: 1\n...", "front matter", 3, "'...'"),
        ("? [a]\n: b", "front matter", 2, "keys are text"),
        ("a: 'x", "front matter", 3, "no valid YAML"),
        ("a: b\n\x07: c", "front matter", 3, "no valid YAML"),
        ('a: "\\ud800"', "front matter", 2, "surrogate"),
        ('a: "\\UFFFFFFFF"', "front matter", 2, "no valid YAML"),
        ("a: " + "[" * 40 + "]" * 40, "front matter", 2, "levels deep"),
        ("a: " + "9" * 5000, "front matter", 2, "digits"),
        ("metadata: {a: 1e999}", "front matter", 2, "too large"),
        ("a: " + "x" * MAX_CHARACTERS, "front matter", 2, "at most 65536"),
        ("a: [" + "x," * 5000 + "]", "front matter", 2, "parts"),
        ("description: [a]", "description", 2, "must be text"),
        ("description: true", "description", 2, "must be text"),
        ("description: 12", "description", 2, "must be text"),
        ("name: null", "name", 2, "must be text"),
        ("x: 1\nread_only: yes", "front matter", 3, "true or false"),
        ("read_only: 1", "front matter", 2, "true or false"),
        ("read_only:", "front matter", 2, "true or false"),
        ("limit: true", "limit", 2, "whole number"),
        ("limit: 1.5", "limit", 2, "whole number"),
        ("limit: '500'", "limit", 2, "whole number"),
        ("metadata: [a]", "front matter", 2, "a mapping"),
    ],
)
def test_front_matter_that_does_not_mean_one_thing_is_refused_at_its_line(front: str, rule: str, line: int, words: str):
    found = problem(f"---\n{front}\n---\nbody\n")
    assert (found.rule, found.line) == (rule, line), found
    assert words in found.message


@pytest.mark.parametrize(
    ("front", "description"),
    [
        ("description: yes", "yes"),
        ("description: 2024-01-01", "2024-01-01"),
        ("description: '1'", "1"),
        ("description: 1_000", "1_000"),
        ("description: |\n  a\n  b\n", "a\nb\n"),
        ("description: >-\n  a\n  b", "a b"),
        ('description: "a: b"', "a: b"),
        ("description: null", None),
        ("description: ~", None),
        ("description:", ""),
        ('{"description": "x"}', "x"),
        ("", None),
        ("# nothing here", None),
    ],
)
def test_the_values_are_those_of_yaml_1_2(front: str, description: str | None):
    assert read(f"---\n{front}\n---\n").description == description


@given(st.text(st.sampled_from("---\n\r\t :#'\"[]{}&*!|>%@`,?x1<=\ufeff"), max_size=60), st.booleans())
def test_any_text_is_read_or_refused_and_nothing_else(text: str, strict: bool):
    data = f"---\n{text}".encode()
    file = parse(data, PATH, strict=strict)
    assert isinstance(file, FileProblem) or file.raw == data


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes):
    file = parse(data, PATH)
    assert isinstance(file, FileProblem) or file.raw == data


def test_hostile_front_matter_is_refused_in_bounded_time():
    started = time.process_time()
    for text in ("[" * 60_000, "{" * 60_000, "a: " * 20_000, "- " * 30_000, "? " * 30_000, "x: 1\n" * 12_000):
        problem(f"---\n{text}\n---\n")
    assert time.process_time() - started < 8


def test_G13_without_the_yaml_reader_the_error_says_what_to_install():
    program = (
        "import sys\n"
        "sys.modules['ruamel.yaml'] = None\n"
        "from eunoe.memory.front_matter import parse\n"
        "from eunoe.state.errors import InvalidInput\n"
        "assert parse(b'no front matter', 'a.md').body == 'no front matter'\n"
        "try:\n"
        "    parse(b'---\\na: [b]\\n---\\n', 'a.md')\n"
        "except InvalidInput as error:\n"
        "    print(error.message)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'eunoe[git]'" in told.stdout


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["description", "read_only", "y", "null", "a_b", "true", ""]),
            st.sampled_from([": ", ":", " : ", ":  "]),
            st.text(st.sampled_from("aTZ09 ,.()/_-:#'\"&*?~\u00e9"), max_size=8)
            | st.sampled_from(["true", "null", "yes", "False", "No", "x - y", "inf", "e5", "a: b", "a #b", "Aa."]),
        ).map("".join),
        max_size=3,
    ).map("\n".join),
    st.sampled_from(["", "\n", "\n\n", "\r\n"]),
)
@example("description: Facts about the user\nread_only: true\nlimit: 20", "\n")
def test_simple_lines_are_read_as_the_whole_of_yaml_reads_them(text: str, end: str):
    simple = yaml_mapping._simple_lines(text + end)
    if simple is not None:
        reader = yaml_mapping._Reader(text + end)
        first = reader.next()
        assert first is not None
        assert first.kind == "mapping"
        assert tuple(reader.entries()) == simple
        reader.require_end()


def test_simple_lines_are_what_most_front_matter_is():
    text = "description: What is known about it (so far), e.g. names.\nread_only: true\n"
    assert yaml_mapping._simple_lines(text) == yaml_mapping.read_mapping(text)
    assert [(entry.key, entry.value) for entry in yaml_mapping.read_mapping(text)] == [
        ("description", "What is known about it (so far), e.g. names."),
        ("read_only", True),
    ]
    assert text[yaml_mapping.read_mapping(text)[1].start :] == "read_only: true\n"
