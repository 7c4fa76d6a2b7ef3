"""What each memory tool does to blocks and tells the model; all or nothing."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs

from eunoe.memory.draft import Changed, Created, Detached
from eunoe.memory.guard import SHOWN_WARNING
from eunoe.memory.schemas import TOOL_SCHEMAS
from eunoe.memory.tools import MEMORY_TOOLS, MemoryEdit, edit
from eunoe.prompt.blocks import LINE_NUMBER_WARNING
from eunoe.state.blocks import Block, BlockChanges, BlockSpec
from eunoe.state.errors import BlockLimitExceeded, Conflict, InvalidInput, NotFound

MOMENT = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)


def block(label: str, value: str = "", *, limit: int = 1000, read_only: bool = False, hidden: bool = False) -> Block:
    return Block(
        id=f"block-{label}",
        label=label,
        value=value,
        limit=limit,
        read_only=read_only,
        hidden=hidden,
        created_at=MOMENT,
        updated_at=MOMENT,
    )


def call(name: str, value: str = "", /, **arguments: Any) -> MemoryEdit:
    return edit(name, {"label": "human", **arguments}, [block("human", value)])


def outcome(blocks: Sequence[Block], result: MemoryEdit) -> dict[str, str]:
    """Make the edits one by one, as a store would, and return the values by label; labels must stay unique."""
    by_id = {one.id: (one.label, one.value) for one in blocks}
    for number, change in enumerate(result.changes):
        match change:
            case Created(spec=spec):
                by_id[f"new-{number}"] = (spec.label, spec.value)
            case Changed(block_id=block_id, changes=changes):
                label, value = by_id[block_id]
                by_id[block_id] = (
                    label if changes.label is UNSET else changes.label,
                    value if changes.value is UNSET else changes.value,
                )
            case Detached(block_id=block_id):
                del by_id[block_id]
        labels = [label for label, _ in by_id.values()]
        assert len(labels) == len(set(labels))
    return dict(by_id.values())


@pytest.mark.parametrize(
    ("name", "before", "arguments", "after"),
    [
        ("core_memory_append", "a", {"content": "b"}, "a\nb"),
        ("core_memory_append", "", {"content": "b"}, "b"),
        ("core_memory_replace", "tea, tea", {"old_content": "tea", "new_content": "milk"}, "milk, milk"),
        ("core_memory_replace", "tea", {"old_content": "tea", "new_content": ""}, ""),
        ("memory_replace", "Likes tea.", {"old_string": "tea", "new_string": "coffee"}, "Likes coffee."),
        ("memory_replace", "a\tb", {"old_string": "\tb", "new_string": "\tc"}, "a\tc"),
        ("memory_replace", "a.c abc", {"old_string": "a.c", "new_string": "\\1"}, "\\1 abc"),
        ("memory_insert", "a\nb", {"new_string": "x"}, "a\nb\nx"),
        ("memory_insert", "a\nb", {"new_string": "x", "insert_line": -1}, "a\nb\nx"),
        ("memory_insert", "a\nb", {"new_string": "x", "insert_line": 0}, "x\na\nb"),
        ("memory_insert", "a\nb", {"new_string": "x\ny", "insert_line": 1}, "a\nx\ny\nb"),
        ("memory_insert", "a\nb", {"new_string": "x", "insert_line": 2}, "a\nb\nx"),
        ("memory_insert", "", {"new_string": "x"}, "x"),
        ("memory_insert", "", {"new_string": "x", "insert_line": 0}, "x"),
        ("memory_rethink", "a", {"new_memory": "b\nc"}, "b\nc"),
    ],
)
def test_an_edit_returns_the_new_value_and_changes_it(name: str, before: str, arguments: dict[str, Any], after: str):
    result = call(name, before, **arguments)
    assert result.content == after
    assert result.changes == (Changed(block_id="block-human", changes=BlockChanges(value=after)),)


def test_b04_old_text_of_two_lines_is_found_and_replaced():
    assert call("memory_replace", "a\nb\nc", old_string="a\nb", new_string="x").content == "x\nc"


@pytest.mark.parametrize("arguments", [{}, {"new_string": None}, {"new_string": ""}])
def test_b04_new_text_left_out_deletes(arguments: dict[str, Any]):
    assert call("memory_replace", "Likes tea.", old_string=" tea", **arguments).content == "Likes."
    command = {"command": "str_replace", "path": "/memories/human", "old_string": " tea", **arguments}
    assert edit("memory", command, [block("human", "Likes tea.")]).content == "Likes."


def test_b04_places_of_old_text_of_two_lines_are_reported_by_line():
    with pytest.raises(InvalidInput, match=r"in lines \[1, 4\]\. Please ensure it is unique"):
        call("memory_replace", "a\nb\nc\na\nb", old_string="a\nb", new_string="x")


def test_overlapping_occurrences_are_not_unique():
    with pytest.raises(InvalidInput, match=r"in lines \[1, 1\]"):
        call("memory_replace", "aaa", old_string="aa", new_string="b")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "memory_replace",
            {"old_string": "not there", "new_string": "x"},
            (
                "No replacement was performed, old_string `not there` did not appear verbatim in memory block with "
                "label `human`."
            ),
        ),
        (
            "core_memory_replace",
            {"old_content": "not there", "new_content": "x"},
            "Old content 'not there' not found in memory block 'human'",
        ),
        (
            "memory_insert",
            {"new_string": "x", "insert_line": 3},
            (
                "Invalid `insert_line` parameter: 3. It should be within the range of lines of the memory block: "
                "[0, 2], or -1 to append to the end of the memory block."
            ),
        ),
        ("memory_replace", {"old_string": "", "new_string": "x"}, "old_string is empty. Give the text to replace."),
        (
            "core_memory_replace",
            {"old_content": "", "new_content": "x"},
            "old_content is empty. Give the text to replace.",
        ),
        ("memory_rethink", {}, "new_memory is required for memory_rethink."),
        ("memory_rethink", {"new_memory": 7}, "new_memory must be a string for memory_rethink, not int."),
        (
            "memory_insert",
            {"new_string": "x", "insert_line": "2"},
            "insert_line must be an integer for memory_insert, not str.",
        ),
        (
            "memory_replace",
            {"old_string": "a", "new_str": "x"},
            "memory_replace takes no argument new_str. Its arguments are: label, new_string, old_string.",
        ),
    ],
)
def test_an_edit_that_does_not_fit_says_why(name: str, arguments: dict[str, Any], message: str):
    with pytest.raises(InvalidInput) as caught:
        call(name, "a\nb", **arguments)
    assert caught.value.message == message


def test_arguments_that_older_agents_add_are_let_pass():
    assert call("memory_rethink", "a", new_memory="b", request_heartbeat=True, thinking="hm").content == "b"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_rethink", {"new_memory": "x"}),
        ("memory_replace", {"old_string": "a", "new_string": "x"}),
        ("core_memory_append", {"content": "x"}),
    ],
)
def test_b09_an_unknown_label_is_answered_with_the_labels_that_exist(name: str, arguments: dict[str, Any]):
    blocks = [block("persona"), block("human"), block("kept back", hidden=True)]
    with pytest.raises(NotFound) as caught:
        edit(name, {"label": "humans", **arguments}, blocks)
    assert (
        caught.value.message
        == "Memory block 'humans' does not exist. The blocks of this agent are: 'human', 'persona'."
    )
    with pytest.raises(NotFound, match="This agent has no blocks"):
        edit(name, {"label": "humans", **arguments}, [])


@pytest.mark.parametrize("text", ["1→ Likes maps.", "a\n  12→b", "\t3→"])
def test_line_numbers_copied_from_the_prompt_are_refused(text: str):
    for name, arguments in [
        ("memory_replace", {"old_string": text, "new_string": "x"}),
        ("memory_replace", {"old_string": "a", "new_string": text}),
        ("memory_insert", {"new_string": text}),
        ("memory_rethink", {"new_memory": text}),
        ("memory_apply_patch", {"patch": "\n".join(f"+{line}" for line in text.split("\n"))}),
    ]:
        with pytest.raises(InvalidInput, match="contains a line number prefix, which is not allowed"):
            call(name, "a", **arguments)


def test_an_arrow_within_a_line_is_just_text():
    assert call("memory_rethink", "a", new_memory="step 1→ step 2").content == "step 1→ step 2"


def test_the_warning_copied_from_the_prompt_is_refused():
    assert SHOWN_WARNING in LINE_NUMBER_WARNING
    with pytest.raises(InvalidInput, match="contains a line number warning"):
        call("memory_rethink", "a", new_memory=f"<warning>\n{LINE_NUMBER_WARNING}\n</warning>\nb")


def test_an_edit_that_changes_nothing_has_no_changes():
    assert call("memory_rethink", "a", new_memory="a") == MemoryEdit(content="a")


def test_c04_the_short_diff_shows_only_what_changed():
    lines = [f"line {number}" for number in range(1, 101)]
    result = call("memory_replace", "\n".join(lines), old_string="line 50\n", new_string="fifty\n")
    assert result.diff == ("--- human\n+++ human\n@@ -49,3 +49,3 @@\n line 49\n-line 50\n+fifty\n line 51")


def test_the_short_diff_stays_short():
    result = call("memory_rethink", "", new_memory="\n".join(str(number) for number in range(100)))
    assert result.diff.startswith("--- human\n+++ human\n@@ -0,0 +1,100 @@\n+0\n+1\n")
    assert result.diff.endswith("+39\n… 60 more lines")


PATHS = ["/memories/projects/alpha", "/projects/alpha", "projects/alpha"]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_names_the_same_label_in_every_command(path: str):
    blocks = [block("projects/alpha", "Ships in May.")]
    inserted = edit("memory", {"command": "insert", "path": path, "insert_text": "x"}, blocks)
    assert inserted.content == "Ships in May.\nx"
    replaced = edit(
        "memory", {"command": "str_replace", "path": path, "old_string": "May", "new_string": "June"}, blocks
    )
    assert replaced.content == "Ships in June."
    described = edit("memory", {"command": "rename", "path": path, "description": "A plan"}, blocks)
    assert described.changes == (Changed(block_id="block-projects/alpha", changes=BlockChanges(description="A plan")),)
    renamed = edit("memory", {"command": "rename", "old_path": path, "new_path": "/memories/a/b"}, blocks)
    assert outcome(blocks, renamed) == {"a/b": "Ships in May."}
    deleted = edit("memory", {"command": "delete", "path": path}, blocks)
    assert deleted.changes == (Detached(block_id="block-projects/alpha"),)
    assert deleted.content == "Successfully deleted memory block 'projects/alpha'."
    created = edit("memory", {"command": "create", "path": path, "description": "d", "file_text": "v"}, [])
    assert created.changes == (Created(spec=BlockSpec(label="projects/alpha", description="d", value="v")),)
    assert created.content == "Successfully created memory block 'projects/alpha'."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"command": "create"}, "Error: path is required for create command"),
        ({"command": "create", "path": "/memories/x"}, "Error: description is required for create command"),
        ({"command": "insert", "path": "/memories/human"}, "Error: insert_text is required for insert command"),
        ({"command": "rename", "path": "/memories/human"}, "Error: old_path is required for rename command"),
        (
            {"command": "view"},
            "Error: Unknown command 'view'. Supported commands: create, str_replace, insert, delete, rename",
        ),
        (
            {"command": "delete", "path": "/memories/"},
            "Error: path '/memories/' names no memory block. Use '/memories/<label>'.",
        ),
    ],
)
def test_a_command_that_lacks_something_says_what(arguments: dict[str, Any], message: str):
    with pytest.raises(InvalidInput) as caught:
        edit("memory", arguments, [block("human")])
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory", {"command": "create", "path": "human", "description": "d"}),
        ("memory", {"command": "rename", "old_path": "persona", "new_path": "human"}),
        ("memory_apply_patch", {"patch": "*** Add Block: human\n+x"}),
        ("memory_apply_patch", {"patch": "*** Update Block: persona\n*** Move to: human"}),
    ],
)
def test_a_block_takes_no_label_that_the_agent_has(name: str, arguments: dict[str, Any]):
    with pytest.raises(Conflict, match="Memory block 'human' already exists"):
        edit(name, arguments, [block("human", hidden=True), block("persona")])


def test_finishing_edits_changes_nothing():
    assert edit("memory_finish_edits", {}, []) == MemoryEdit(content="None")


def test_an_unknown_tool_is_answered_with_the_tools_that_exist():
    with pytest.raises(
        InvalidInput, match=r"'memory_forget' is no memory tool\. The memory tools are: core_memory_append,"
    ):
        edit("memory_forget", {}, [])


def test_every_tool_has_a_schema_of_its_name():
    assert list(TOOL_SCHEMAS) == list(MEMORY_TOOLS)
    for name, schema in TOOL_SCHEMAS.items():
        assert schema.name == name
        assert schema.parameters["type"] == "object"
        assert set(schema.parameters["required"]) <= set(schema.parameters["properties"])
        assert all(one["type"] and one["description"] for one in schema.parameters["properties"].values())


words = st.sampled_from(["a", "b", "aa", "a\nb", "\n", "", "x" * 12, "\x00", "1→ a"]) | st.text(max_size=6)
names = st.sampled_from(["human", "persona", "locked", "new", "a/b"])
calls = st.one_of(
    st.tuples(st.just("core_memory_append"), st.fixed_dictionaries({"label": names, "content": words})),
    st.tuples(
        st.just("core_memory_replace"),
        st.fixed_dictionaries({"label": names, "old_content": words, "new_content": words}),
    ),
    st.tuples(
        st.just("memory_replace"),
        st.fixed_dictionaries({"label": names, "old_string": words}, optional={"new_string": st.none() | words}),
    ),
    st.tuples(
        st.just("memory_insert"),
        st.fixed_dictionaries({"label": names, "new_string": words}, optional={"insert_line": st.integers(-2, 4)}),
    ),
    st.tuples(st.just("memory_rethink"), st.fixed_dictionaries({"label": names, "new_memory": words})),
    st.tuples(
        st.just("memory"),
        st.fixed_dictionaries(
            {"command": st.sampled_from(["create", "str_replace", "insert", "delete", "rename"])},
            optional={
                "path": names,
                "description": words,
                "file_text": words,
                "old_string": words,
                "new_string": words,
                "insert_text": words,
                "old_path": names,
                "new_path": names,
            },
        ),
    ),
    st.tuples(
        st.just("memory_apply_patch"),
        st.fixed_dictionaries(
            {
                "patch": st.lists(
                    st.one_of(
                        st.sampled_from(["-a", "+b", " a", "+", "@@", "@@ -1,1 +1,2 @@", ""]),
                        names.map("*** Add Block: {}".format),
                        names.map("*** Update Block: {}".format),
                        names.map("*** Delete Block: {}".format),
                        names.map("*** Move to: {}".format),
                    ),
                    max_size=8,
                ).map("\n".join)
            },
            optional={"label": names},
        ),
    ),
)


@settings(max_examples=400)
@given(calls, words.filter(lambda text: "\x00" not in text), st.integers(12, 20))
def test_no_call_exceeds_a_limit_touches_a_read_only_block_or_does_half(
    called: tuple[str, dict[str, Any]], value: str, limit: int
):
    name, arguments = called
    blocks = [
        block("human", value[:12], limit=limit),
        block("persona", "a\nb\na", limit=limit),
        block("locked", "a\nb", read_only=True),
    ]
    before = structs.asdict(block("locked", "a\nb", read_only=True))
    try:
        result = edit(name, arguments, blocks)
    except (InvalidInput, NotFound, Conflict):
        return
    after = outcome(blocks, result)
    assert after["locked"] == "a\nb"
    assert structs.asdict(blocks[2]) == before
    assert all(len(after[label]) <= limit for label in ("human", "persona") if label in after)
    for change in result.changes:
        assert not isinstance(change, Created) or len(change.spec.value) <= change.spec.limit
    assert edit(name, arguments, blocks) == result


def test_a_limit_is_kept_by_a_tool():
    with pytest.raises(BlockLimitExceeded, match="takes at most 5 characters, and the new value has 6"):
        edit("core_memory_append", {"label": "human", "content": "cdef"}, [block("human", "a", limit=5)])
