"""How a memory file is written: nothing changes but what was changed, and what is written reads back."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, structs
from ruamel.yaml import YAML

from eunoe.memory.file_blocks import changes_from, render_block, spec_from
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.file_text import render
from eunoe.memory.front_matter import MemoryFile, parse
from eunoe.memory.verdict import check_change, check_text
from eunoe.state.blocks import Block, BlockChanges, BlockSpec
from eunoe.state.errors import InvalidInput

PATH = "system/human.md"
MOMENT = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)


def read(data: bytes) -> MemoryFile:
    file = parse(data, PATH)
    assert isinstance(file, MemoryFile), file
    return file


def storable(text: str) -> bool:
    try:
        check_text(text, "value")
    except InvalidInput:
        return False
    return not isinstance(parse(b"---\n---\n" + text.encode(), PATH), FileProblem)


prose = st.text(
    st.sampled_from("ab: #-'\"\n\t{}[],&*!|>%@`~=<\u00e9\u5730\u2028\ufeff\U0001f600") | st.characters(codec="utf-8"),
    max_size=30,
)
values = (prose | st.sampled_from(["---\n", "---\na: b\n---\n", "yes", "null", "a: b", "\ufeff", "abc\n"])).filter(
    storable
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | prose,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(prose, inner, max_size=3),
    max_leaves=6,
)
specs = st.builds(
    BlockSpec,
    label=st.just("system/human"),
    value=values,
    description=st.none() | values.filter(bool),
    read_only=st.booleans(),
    limit=st.integers(1, 10_000_000),
    metadata=st.dictionaries(prose, json_values, max_size=3),
)


def as_block(spec: BlockSpec) -> Block:
    return Block(id="block-1", created_at=MOMENT, updated_at=MOMENT, **structs.asdict(spec))


@given(specs)
def test_a_block_written_to_a_new_file_reads_back_as_the_same_block(spec: BlockSpec):
    assert spec_from(read(render_block(None, PATH, spec)), "system/human") == spec


FRONTS = [
    "",
    "---\n---\n",
    "---\ndescription: Facts # short\n---\n",
    "--- \nowner: me\n\n# about the limit\nlimit:   50   # small\ndescription: 'a: b'\n---\t\n",
    "---\nmetadata:\n  a: 1\n  # inner\n  b: [x, y]\n# after\nread_only: true\nzzz: |\n  kept\n\n---\n",
    '---\n{"description": "x", "limit": 5}\n---\n',
    "---\ndescription:\nread_only: false\n---\n",
    "---\n  description: >-\n    folded\n    text\n  limit: 7\n---\n",
    "---\nlimit: 9\ndescription: |\n  kept\n  lines\n---",
]
files = st.builds(
    lambda mark, front, body, crlf: (
        mark + (front + ("" if front.endswith("---") else body)).replace("\n", "\r\n" if crlf else "\n")
    ).encode(),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from(FRONTS),
    values,
    st.booleans(),
).filter(lambda data: isinstance(parse(data, PATH), MemoryFile))


@given(files)
def test_a_file_that_is_read_and_written_again_is_the_same_file(data: bytes):
    file = read(data)
    assert render_block(file, PATH, spec_from(file, "system/human")) == data


@given(files, specs)
def test_a_block_written_over_any_file_reads_back_as_the_same_block(data: bytes, spec: BlockSpec):
    before = read(data)
    written, refused = b"", ""
    try:
        written = render_block(before, PATH, spec)
    except InvalidInput as error:
        refused = error.message
    if refused:
        # Only a mapping between braces cannot take a new key in place.
        assert b"{" in data.splitlines()[1]
        assert "on a line of its own" in refused
        return
    after = read(written)
    again = check_change(as_block(spec_from(after, "system/human")), BlockChanges())
    assert (again.value, again.description or None, again.read_only, again.limit, again.metadata) == (
        spec.value,
        spec.description,
        spec.read_only,
        spec.limit,
        spec.metadata,
    )
    assert after.other_keys == before.other_keys


TEXT = (
    "---\n# who it is about\nowner: me   # kept\ndescription: 'Facts'  # the user\n\nread_only: false\n"
    "metadata:\n  a: 1\n# before the limit\nlimit: 500\n---\nLikes maps.\n"
)


@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        ({"description": "Facts: more"}, "'Facts'", '"Facts: more"'),
        ({"read_only": True}, "read_only: false", "read_only: true"),
        ({"limit": 600}, "500", "600"),
        ({"limit": 100_000}, "500", "100000"),
        ({"metadata": {"a": 2}}, "metadata:\n  a: 1\n", 'metadata: {"a": 2}\n'),
        ({"metadata": {}}, "metadata:\n  a: 1\n", "metadata: {}\n"),
        ({"description": None}, "'Facts'", "null"),
        ({"name": "human"}, "limit: 500\n", "limit: 500\nname: human\n"),
        ({"body": "Likes stars."}, "Likes maps.\n", "Likes stars."),
        ({}, "", ""),
    ],
)
def test_only_the_bytes_of_what_changed_change(changes: dict[str, Any], old: str, new: str):
    before = read(TEXT.encode())
    written = render(before, path=PATH, **{"body": before.body, **changes})
    assert written.decode() == TEXT.replace(old, new)


def test_a_comment_after_an_empty_value_stays():
    data = b"---\ndescription:\n# about the limit\n\nlimit: 5\n---\n"
    assert render(read(data), path=PATH, body="", description="Facts") == data.replace(
        b"description:", b"description: Facts"
    )


def test_line_ends_and_byte_order_mark_of_a_file_stay_when_it_changes():
    data = "\ufeff---\r\ndescription: x\r\n---\r\nLikes maps.\r\n".encode()
    written = render(read(data), path=PATH, body="Likes\nstars.\n", limit=7)
    assert written.decode() == "\ufeff---\r\ndescription: x\r\nlimit: 7\r\n---\r\nLikes\r\nstars.\r\n"


def test_new_files_say_what_is_not_the_default_and_always_the_description():
    assert render(None, path=PATH, body="Likes maps.\n") == b"---\ndescription: null\n---\nLikes maps.\n"
    assert render(
        None,
        path="human.md",
        body="x",
        name="human",
        description="Facts about the user",
        read_only=True,
        limit=20,
        metadata={"a": [1, "é"]},
    ).decode() == (
        "---\nname: human\ndescription: Facts about the user\nread_only: true\nlimit: 20\n"
        'metadata: {"a": [1, "é"]}\n---\nx'
    )
    default = BlockSpec(label="system/human", value="x", description="Facts")
    assert render_block(None, PATH, default) == b"---\ndescription: Facts\n---\nx"


def test_a_value_that_looks_like_front_matter_gets_front_matter_of_its_own():
    written = render(read(b"Likes maps."), path=PATH, body="---\nread_only: true\n---\nHa.")
    assert written == b"---\ndescription: null\n---\n---\nread_only: true\n---\nHa."
    assert read(written).body == "---\nread_only: true\n---\nHa."
    assert read(written).read_only is False


@pytest.mark.parametrize("body", ["a\rb", "a\x00b", "a\x1bb"])
def test_a_body_that_no_block_may_have_is_not_written(body: str):
    with pytest.raises(InvalidInput, match="cannot be stored"):
        render(None, path=PATH, body=body)


def test_a_body_with_conflict_marks_is_not_written():
    with pytest.raises(InvalidInput, match="merge conflict"):
        render(None, path=PATH, body="<<<<<<< a\n=======\n>>>>>>> b\n")


def test_metadata_that_is_no_json_is_refused():
    with pytest.raises(InvalidInput, match="JSON") as caught:
        render(None, path=PATH, body="", metadata={"a": float("nan")})
    assert caught.value.field == "metadata"


@pytest.mark.parametrize(
    "description",
    [
        "Notes: private",
        "a: b: c",
        "- item",
        "# no comment",
        "yes",
        "null",
        "1.0",
        "2024-01-01",
        "a\nb",
        "'q' \"q\"",
        "@x",
    ],
)
@pytest.mark.parametrize("version", [(1, 1), (1, 2)])
def test_G06_strict_yaml_readers_read_every_description_as_it_is(description: str, version: tuple[int, int]):
    data = render(None, path=PATH, body="", description=description)
    assert loaded(data, version) == {"description": description}


def test_G06_a_description_with_a_colon_is_quoted():
    assert render(None, path=PATH, body="x", description="Notes: private") == (
        b'---\ndescription: "Notes: private"\n---\nx'
    )


@given(values.filter(bool), st.sampled_from([(1, 1), (1, 2)]))
def test_G06_any_description_reads_the_same_in_yaml_1_1_and_1_2(description: str, version: tuple[int, int]):
    data = render(None, path=PATH, body="", name=description, description=description)
    assert loaded(data, version) == {"name": description, "description": description}


def loaded(data: bytes, version: tuple[int, int]) -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = version
    return yaml.load(data.decode().removeprefix("---\n").removesuffix("---\n"))


def test_G11_metadata_survives_export_delete_and_import():
    spec = BlockSpec(
        label="system/human", value="Likes maps.", description="Facts", limit=77, read_only=True, metadata={"a": 1}
    )
    exported = render_block(None, PATH, spec)
    assert spec_from(read(exported), "system/human") == spec


def test_G11_absent_keys_reset_nothing():
    block = as_block(
        BlockSpec(
            label="system/human", value="Likes maps.", description="Facts", limit=77, read_only=True, metadata={"a": 1}
        )
    )
    assert changes_from(read(b"Likes maps."), block) == BlockChanges()
    assert changes_from(read(b"---\nowner: me\n---\nLikes stars."), block) == BlockChanges(value="Likes stars.")
    said = changes_from(read(b"---\nread_only: false\nlimit: 77\ndescription: null\n---\nLikes maps."), block)
    assert said == BlockChanges(read_only=False, description=None)
    assert said.limit is UNSET


def test_a_blank_description_and_none_are_one_thing_to_a_file():
    block = as_block(BlockSpec(label="system/human", value="x", description=""))
    data = render_block(None, PATH, block)
    assert data == b"---\ndescription: null\n---\nx"
    assert changes_from(read(data), block) == BlockChanges()
    assert render_block(read(b"---\ndescription:\n---\nx"), PATH, structs.replace(block, description=None)) == (
        b"---\ndescription:\n---\nx"
    )
