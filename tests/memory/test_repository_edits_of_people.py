"""Whatever a person and an agent do in turn, nobody's work is lost."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repository_rig import contents, git, make, write

from eunoe.memory.status import status
from eunoe.memory.working_tree import fast_forward_working_tree

NAMES = ("a.md", "b.md", "c/d.md")

by_agent = st.tuples(st.just("agent"), st.sampled_from(NAMES), st.sampled_from([b"A1", b"A2", None]))
by_person = st.tuples(st.just("person"), st.sampled_from(NAMES), st.sampled_from([b"P1", b"P2", None]))
steps = st.lists(st.one_of(by_agent, by_person, st.just(("commit", "", None))), max_size=10)


def put(root: Path, name: str, data: bytes | None) -> None:
    if data is None:
        (root / name).unlink(missing_ok=True)
    else:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)


@settings(max_examples=15)
@given(steps=steps)
def test_working_tree_is_memory_with_the_uncommitted_edits_of_a_person(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, bytes | None]]
):
    repository = make(tmp_path_factory.mktemp("people"), {"a.md": b"0", "c/d.md": b"0"})
    head = repository.head()
    assert head is not None
    edited: dict[str, bytes | None] = {}
    for actor, name, data in steps:
        memory = contents(repository, head)
        if actor == "person":
            put(repository.path, name, data)
            edited[name] = data
        elif actor == "commit":
            git(repository.path, "add", "-A")
            git(repository.path, "commit", "-qm", "by hand", "--allow-empty")
            wanted = {path: edited.get(path, memory.get(path)) for path in NAMES}
            edited = {}
            head = repository.head()
            assert head is not None
            assert contents(repository, head) == {path: data for path, data in wanted.items() if data is not None}
        elif data is not None or name in memory:
            new = write(repository, {name: data}, parent=head)
            repository.move_head(head, new)
            fast_forward_working_tree(repository, head, new)
            head = new
        memory = contents(repository, head)
        for path in NAMES:
            file = repository.path / path
            assert (file.read_bytes() if file.exists() else None) == edited.get(path, memory.get(path))
        edited = {path: data for path, data in edited.items() if data != memory.get(path)}
        told = status(repository)
        assert set(told.modified) | set(told.untracked) == edited.keys()
        assert told.staged == told.conflicted == ()
