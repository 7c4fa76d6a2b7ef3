"""Patches: diffs that fit apply exactly, those that do not change nothing, and operations are done as a whole."""

import datetime as dt
import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from eunoe.memory.draft import Changed, Created, Detached
from eunoe.memory.hunks import apply_hunks, parse_hunks
from eunoe.memory.tools import MemoryEdit, edit
from eunoe.state.blocks import Block, BlockChanges, BlockSpec
from eunoe.state.errors import Conflict, InvalidInput, NotFound

MOMENT = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)


def block(label: str, value: str = "") -> Block:
    return Block(id=f"block-{label}", label=label, value=value, created_at=MOMENT, updated_at=MOMENT)


def apply(value: str, patch: str) -> str:
    return edit("memory_apply_patch", {"label": "human", "patch": patch}, [block("human", value)]).content


def operate(patch: str, *blocks: Block) -> MemoryEdit:
    return edit("memory_apply_patch", {"label": "human", "patch": patch}, blocks)


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        ("a\nb\nc", "-b\n+x", "a\nx\nc"),
        ("a\nb\nc", " a\n-b\n c", "a\nc"),
        ("a\nb\nc", "@@\n a\n+x", "a\nx\nb\nc"),
        ("a\nb\nc", "--- human\n+++ human\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n", "a\nx\nc"),
        ("a\nb\nc\nd", "-a\n+x\n@@\n-d\n+y", "x\nb\nc\ny"),
        ("a", "+x\n+y", "a\nx\ny"),
        ("", "+x", "x"),
        ("", "@@ -0,0 +1 @@\n+x", "x"),
        ("a\n\nb", " a\n\n-b\n+x", "a\n\nx"),
        ("a\nb", "-a\n+x\n\n\n", "x\nb"),
        ("-- a\nb", "@@\n--- a\n b", "b"),
        ("a\nb\na\nb", "@@ -3,2 +3,2 @@\n a\n-b\n+x", "a\nb\na\nx"),
        ("\ta\n  b", " \ta\n-  b\n+\tb", "\ta\n\tb"),
        ("a", "*** Begin Patch\n-a\n+b\n*** End Patch", "b"),
        ("a", "@@\n-a\n\\ No newline at end of file\n+b", "b"),
    ],
)
def test_a_diff_that_fits_applies(before: str, patch: str, after: str):
    assert apply(before, patch) == after


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("", "No applicable hunks found in patch"),
        (" a\n b", "No applicable hunks found in patch"),
        ("-x\n+y", "expected hunk context not found in the memory block. Expected start:\nx"),
        ("-a\n+y", r"matched multiple places in the memory block, at lines \[1, 3\]"),
        ("-b\n+y\n@@\n-b\n+z", "expected hunk context not found"),
        ("b\n+y", "line 1 of the patch, 'b', begins with none of"),
        ("@@ -9,0 +10 @@\n+y", "there is no line 9"),
    ],
)
def test_a_diff_that_does_not_fit_says_why(patch: str, message: str):
    with pytest.raises(InvalidInput, match=message):
        apply("a\nb\na", patch)


def test_a_diff_needs_the_label_of_its_block():
    with pytest.raises(InvalidInput, match="label is required for a patch that names no block"):
        edit("memory_apply_patch", {"patch": "+x"}, [block("human")])


texts = st.lists(
    st.sampled_from(["a", "b", "", "-- x", "++ y", "@@", " c", "*** d", "\\"]) | st.text(max_size=4), max_size=12
)
texts = texts.map("\n".join)


@given(texts, texts, st.integers(0, 3))
def test_a_diff_made_by_difflib_leads_to_its_target(before: str, after: str, context: int):
    old, new = [text.split("\n") if text else [] for text in (before, after)]
    patch = list(difflib.unified_diff(old, new, "human", "human", lineterm="", n=context))
    if patch:
        assert apply_hunks(before, parse_hunks(patch)) == after


def test_operations_on_several_blocks_are_done_in_order_and_told():
    result = operate(
        "*** Begin Patch\n"
        "*** Add Block: projects/alpha\n"
        "Description: What is afoot\n"
        "+Ships in May.\n"
        "+\n"
        "+Then rest.\n"
        "\n"
        "*** Update Block: human\n"
        "-Likes tea.\n"
        "+Likes coffee.\n"
        "*** Delete Block: old\n"
        "*** End Patch\n",
        block("human", "Likes tea."),
        block("old"),
    )
    assert result.changes == (
        Created(
            spec=BlockSpec(label="projects/alpha", description="What is afoot", value="Ships in May.\n\nThen rest.")
        ),
        Changed(block_id="block-human", changes=BlockChanges(value="Likes coffee.")),
        Detached(block_id="block-old"),
    )
    assert result.content == (
        "Successfully applied memory patch operations.\n\nOperations completed:\n"
        "- Created memory block 'projects/alpha'\n- Updated memory block 'human'\n- Deleted memory block 'old'"
    )


def test_a_move_after_an_update_changes_the_value_and_then_the_label():
    result = operate("*** Update Block: human\n-a\n+b\n*** Move to: person", block("human", "a"))
    assert result.changes == (
        Changed(block_id="block-human", changes=BlockChanges(value="b")),
        Changed(block_id="block-human", changes=BlockChanges(label="person")),
    )


def test_a_move_alone_renames():
    result = operate("*** Update Block: human\n*** Move to: person", block("human", "a"))
    assert result.changes == (Changed(block_id="block-human", changes=BlockChanges(label="person")),)
    assert result.content.endswith("\n- Renamed memory block 'human' to 'person'")


def test_a_move_after_an_add_creates_the_block_under_its_last_label():
    result = operate("*** Add Block: draft\n+a\n*** Move to: final\n*** Update Block: final\n-a\n+b")
    assert result.changes == (Created(spec=BlockSpec(label="final", value="b")),)


def test_two_blocks_can_change_labels_with_each_other():
    result = operate(
        "*** Update Block: a\n*** Move to: c\n*** Update Block: b\n*** Move to: a\n*** Update Block: c\n*** Move to: b",
        block("a"),
        block("b"),
    )
    moves = [
        (change.block_id, change.changes.label)
        for change in result.changes
        if isinstance(change, Changed) and change.changes.label is not UNSET
    ]
    assert moves == [("block-a", "c"), ("block-b", "a"), ("block-a", "b")]


def test_a_block_made_and_deleted_in_one_patch_leaves_nothing():
    assert operate("*** Add Block: x\n+a\n*** Delete Block: x").changes == ()


@pytest.mark.parametrize(
    ("patch", "error", "message"),
    [
        ("*** Add Block:\n+x", InvalidInput, "names an empty label"),
        ("*** Add Block: human\n+x", Conflict, "'human' already exists"),
        (
            "*** Update Block: nobody\n-a\n+b",
            NotFound,
            "'nobody' does not exist. The blocks of this agent are: 'human'",
        ),
        ("*** Delete Block: nobody", NotFound, "'nobody' does not exist"),
        ("*** Move to: person", InvalidInput, "follows no block that it could rename"),
        ("*** Delete Block: human\n*** Move to: person", InvalidInput, "follows no block"),
        ("*** Rename Block: human", InvalidInput, "No operations found"),
        ("*** Update Block: human", InvalidInput, "No applicable hunks found"),
        ("*** Add Block: x\ny", InvalidInput, "'y' in '\\*\\*\\* Add Block: x' does not begin with '\\+'"),
        ("*** Add Block: x\n+1\n*** Update Block: human\n-none\n+b", InvalidInput, "hunk context not found"),
        ("*** Delete Block: human\n*** Update Block: human\n-a\n+b", NotFound, "This agent has no blocks"),
    ],
)
def test_a_patch_with_one_bad_operation_fails_whole(patch: str, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        operate(patch, block("human", "a"))
