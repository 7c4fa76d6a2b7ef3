"""A memory file as a block, and a block's changes as a file's: what a file does not say is not reset."""

from typing import Any

from eunoe.memory.file_text import render
from eunoe.memory.front_matter import MemoryFile
from eunoe.state.blocks import Block, BlockChanges, BlockSpec


def spec_from(file: MemoryFile, label: str) -> BlockSpec:
    """Return the block that a new file stands for; absent keys are the defaults. It is not judged yet."""
    known = {key: value for key, value in file.front.items() if key != "name"}
    return BlockSpec(label=label, value=file.body, **known)


def changes_from(file: MemoryFile, block: Block | BlockSpec) -> BlockChanges:
    """Return how a file changes the block that it stands for; keys that it has not, change nothing.

    An empty description and none are one thing to a file, and so no change. The result is not judged yet.
    """
    said: dict[str, Any] = {key: value for key, value in file.front.items() if key != "name"}
    said["value"] = file.body
    if not said.get("description") and not block.description:
        said.pop("description", None)
    return BlockChanges(**{key: value for key, value in said.items() if getattr(block, key) != value})


def render_block(before: MemoryFile | None, path: str, block: Block | BlockSpec, *, name: str | None = None) -> bytes:
    """Return the bytes of the file of a block: the file as it was with what differs, or a new one.

    ``name`` is for new files of layout 2. Raises as ``render`` does.
    """
    fields = {key: getattr(block, key) for key in ("description", "read_only", "limit", "metadata")}
    if name is not None:
        fields["name"] = name
    return render(before, path=path, body=block.value, **fields)
