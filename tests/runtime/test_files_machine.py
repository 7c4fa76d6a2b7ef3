"""Whoever writes to memory files in whatever order: blocks and files are one, and nothing acknowledged is lost."""

import tempfile
from pathlib import Path
from typing import Final

import anyio
import pytest
from files_house import LABELS, FilesHouse, git
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_rig import open_home

pytestmark = pytest.mark.slow

_LABEL: Final = st.sampled_from(LABELS)
_EDITS: Final = st.sampled_from(("edit", "use_tool", "commit_by_hand", "push", "merge", "dirty"))
_ACTIONS: Final = st.one_of(
    st.tuples(_EDITS, _LABEL),
    st.tuples(_EDITS, _LABEL),
    st.tuples(st.just("restore"), st.integers(0, 5)),
    st.tuples(st.just("together"), st.none()),
    st.tuples(st.just("reopen"), st.none()),
)


async def _play(folder: Path, actions: list[tuple[str, str | int | None]]) -> None:
    left = list(actions)
    house: FilesHouse | None = None
    while left or house is None:
        async with open_home(folder / "home") as home:
            if house is None:
                house = await FilesHouse.build(home, folder)
            house.home, house.agent = home, await home.agent(house.agent.id)
            await house.check()
            while left:
                name, given_value = left.pop(0)
                if name == "reopen":
                    break
                action = getattr(house, name)
                await (action() if given_value is None else action(given_value))
                await house.check()
                assert git(house.tree, "for-each-ref", "refs/eunoe") == "", "what kept a recorded commit outlived it"


@settings(max_examples=25)
@given(actions=st.lists(_ACTIONS, min_size=4, max_size=12))
def test_blocks_and_files_are_one_whoever_writes(actions: list[tuple[str, str | int | None]]):
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(_play, Path(folder), actions)
