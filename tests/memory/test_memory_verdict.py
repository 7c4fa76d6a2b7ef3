"""What a block may be, and that the answer does not depend on who asks (I9)."""

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.memory.tools import edit
from eunoe.memory.verdict import MAX_DESCRIPTION, MAX_LIMIT, check_change, check_label, check_new, check_text
from eunoe.state.blocks import Block, BlockChanges, BlockSpec
from eunoe.state.errors import BlockLimitExceeded, EunoeError, InvalidInput, ReadOnlyBlock

MOMENT = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)


def block(value: str = "Likes maps.", *, limit: int = 100, read_only: bool = False, label: str = "human") -> Block:
    return Block(
        id="block-1", label=label, value=value, limit=limit, read_only=read_only, created_at=MOMENT, updated_at=MOMENT
    )


def refusal(attempt: Callable[[], object]) -> tuple[type[EunoeError], str, dict[str, Any]]:
    with pytest.raises(EunoeError) as caught:
        attempt()
    return type(caught.value), caught.value.message, caught.value.details


@pytest.mark.parametrize(
    "label", ["human", "a", "x" * 255, "projects/alpha", "my notes", "地図", "<value>", "{CORE_MEMORY}"]
)
def test_a_label_is_any_short_line_of_text(label: str):
    check_label(label)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("", "blank"),
        (" \n", "blank"),
        ("x" * 256, "256 characters"),
        (" human", "white space"),
        ("human\n", "white space"),
        ("a\nb", "offset 1"),
        ("a\tb", "offset 1"),
        ("a\u2028b", "offset 1"),
        ("a\x00b", "U\\+0000"),
        ("a\x85b", "U\\+0085"),
        ("ab\ud800", "U\\+D800"),
    ],
)
def test_a_bad_label_is_refused_with_the_reason(label: str, reason: str):
    with pytest.raises(InvalidInput, match=reason) as caught:
        check_label(label)
    assert caught.value.field == "label"


@pytest.mark.parametrize("code", [0x00, 0x08, 0x0B, 0x0C, 0x0D, 0x1B, 0x1F, 0x7F, 0x80, 0x9F, 0xD800, 0xDFFF])
def test_a_control_character_is_named_with_its_place(code: int):
    with pytest.raises(InvalidInput, match=f"U\\+{code:04X} at offset 3") as caught:
        check_text(f"a\t\n{chr(code)}b", "value")
    assert caught.value.field == "value"
    assert caught.value.details == {"code_point": f"U+{code:04X}", "offset": 3}


def test_all_other_characters_are_taken():
    check_text("tab\tnewline\nemoji 🗺 cjk 地図 nbsp\u00a0 zero\u200bwidth \u2028 </value> {CORE_MEMORY}", "value")


@pytest.mark.parametrize("limit", [0, -1, MAX_LIMIT + 1])
def test_a_limit_out_of_range_is_refused(limit: int):
    with pytest.raises(InvalidInput, match=str(limit)) as caught:
        check_new(BlockSpec(label="human", limit=limit))
    assert caught.value.field == "limit"
    with pytest.raises(InvalidInput, match=str(limit)):
        check_change(block(), BlockChanges(limit=limit))


def test_a_description_has_a_longest_length():
    check_new(BlockSpec(label="human", description="x" * MAX_DESCRIPTION))
    with pytest.raises(InvalidInput, match="20001 characters") as caught:
        check_new(BlockSpec(label="human", description="x" * (MAX_DESCRIPTION + 1)))
    assert caught.value.field == "description"


def test_a_limit_counts_characters_not_bytes():
    check_new(BlockSpec(label="human", value="地" * 100, limit=100))
    with pytest.raises(BlockLimitExceeded):
        check_new(BlockSpec(label="human", value="地" * 101, limit=100))


def test_b01_api_and_tools_give_one_verdict_on_a_value_that_is_too_long():
    long = "x" * 500
    by_api = refusal(lambda: check_change(block(""), BlockChanges(value=long)))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_rethink", {"label": "human", "new_memory": long}),
        ("memory_insert", {"label": "human", "new_string": long}),
        ("core_memory_append", {"label": "human", "content": long}),
        ("memory_apply_patch", {"label": "human", "patch": f"+{long}"}),
        ("memory", {"command": "insert", "path": "/memories/human", "insert_text": long}),
    ]
    for name, arguments in calls:
        assert refusal(partial(edit, name, arguments, [block("")])) == by_api
    assert refusal(lambda: check_new(BlockSpec(label="human", value=long, limit=100))) == by_api
    assert by_api[0] is BlockLimitExceeded


def test_b01_api_and_tools_give_one_verdict_on_a_read_only_block():
    locked = block(read_only=True)
    by_api = refusal(lambda: check_change(locked, BlockChanges(value="new")))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_rethink", {"label": "human", "new_memory": "new"}),
        ("memory_replace", {"label": "human", "old_string": "maps", "new_string": "new"}),
        ("core_memory_replace", {"label": "human", "old_content": "maps", "new_content": "new"}),
        ("memory_apply_patch", {"label": "human", "patch": "-Likes maps.\n+new"}),
        ("memory_apply_patch", {"patch": "*** Delete Block: human"}),
        ("memory_apply_patch", {"patch": "*** Update Block: human\n*** Move to: other"}),
        ("memory", {"command": "delete", "path": "/memories/human"}),
        ("memory", {"command": "rename", "old_path": "/memories/human", "new_path": "/memories/other"}),
        ("memory", {"command": "rename", "path": "/memories/human", "description": "new"}),
    ]
    for name, arguments in calls:
        assert refusal(partial(edit, name, arguments, [locked])) == by_api
    assert by_api[0] is ReadOnlyBlock


def test_b01_api_and_tools_give_one_verdict_on_a_control_character():
    by_api = refusal(lambda: check_change(block(), BlockChanges(value="a\x00b")))
    by_tool = refusal(lambda: edit("memory_rethink", {"label": "human", "new_memory": "a\x00b"}, [block()]))
    assert by_tool == by_api


def test_b02_a_value_over_the_limit_is_refused_with_the_figures():
    with pytest.raises(BlockLimitExceeded) as caught:
        check_change(block(limit=4000), BlockChanges(value="x" * 6538))
    assert caught.value.code == "BLOCK_LIMIT_EXCEEDED"
    assert caught.value.details == {"label": "human", "limit": 4000, "actual": 6538}


def test_a_limit_below_the_value_is_refused():
    with pytest.raises(BlockLimitExceeded) as caught:
        check_change(block("0123456789"), BlockChanges(limit=9))
    assert caught.value.details == {"label": "human", "limit": 9, "actual": 10}
    assert check_change(block("0123456789"), BlockChanges(limit=10)).limit == 10


def test_value_and_limit_may_grow_together():
    changed = check_change(block(), BlockChanges(value="x" * 200, limit=200))
    assert (changed.limit, len(changed.value)) == (200, 200)


def test_a_block_already_over_its_limit_can_still_be_described():
    changed = check_change(block("x" * 200), BlockChanges(description="long", value="x" * 200))
    assert changed.description == "long"


@pytest.mark.parametrize(
    "changes",
    [
        BlockChanges(value="new"),
        BlockChanges(label="new"),
        BlockChanges(description="new"),
        BlockChanges(limit=50),
        BlockChanges(value="new", read_only=True),
    ],
)
def test_a_read_only_block_keeps_what_it_shows(changes: BlockChanges):
    with pytest.raises(ReadOnlyBlock):
        check_change(block(read_only=True), changes)


def test_a_read_only_block_takes_changes_that_make_it_writable_or_are_not_shown():
    locked = block(read_only=True)
    assert check_change(locked, BlockChanges(value="new", read_only=False)).value == "new"
    assert check_change(locked, BlockChanges(tags=("a",), metadata={"k": 1}, hidden=True)).tags == ("a",)
    assert check_change(locked, BlockChanges(value=locked.value, limit=locked.limit)) == locked


def test_only_named_fields_change_and_the_revision_stays():
    before = block()
    after = check_change(before, BlockChanges(description=None, value="new"))
    assert (after.value, after.limit, after.label, after.revision) == ("new", 100, "human", before.revision)


@given(st.text(max_size=20), st.integers(1, 15), st.booleans())
def test_what_passes_is_within_its_limit_and_leaves_a_read_only_block_alone(value: str, limit: int, read_only: bool):
    before = block("abc", limit=10, read_only=read_only)
    try:
        after = check_change(before, BlockChanges(value=value, limit=limit))
    except InvalidInput:
        return
    assert len(after.value) <= after.limit
    assert not read_only or after == before


@pytest.mark.parametrize("label", [".", "..", "a/", "/a", "a//b", "a/../b", "system/."])
def test_a_label_whose_parts_are_no_names_is_refused(label: str) -> None:
    with pytest.raises(InvalidInput, match="between its slashes"):
        check_label(label)
