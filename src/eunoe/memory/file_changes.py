"""May this actor make this change? What ``read_only`` protects, judged between two commits (I9)."""

import datetime as dt
from collections.abc import Sequence
from typing import Final, Literal

from eunoe.memory.file_blocks import changes_from, spec_from
from eunoe.memory.file_problems import FileProblem, from_verdict, read_only_problem
from eunoe.memory.file_rules import Read
from eunoe.memory.front_matter import MemoryFile, parse
from eunoe.memory.paths import label_of
from eunoe.memory.tree import SUBMODULE, SYMLINK, TreeEntry
from eunoe.memory.verdict import check_change as judge
from eunoe.state.blocks import Block
from eunoe.state.errors import BlockLimitExceeded, InvalidInput, ReadOnlyBlock

Actor = Literal["agent", "user"]

_NEVER: Final = dt.datetime.fromtimestamp(0, dt.UTC)
"""Stands for times that no verdict looks at."""


def check_change(
    before: Sequence[TreeEntry], after: Sequence[TreeEntry], read: Read, actor: Actor
) -> list[FileProblem]:
    """Return which changes from one commit to the next this actor may not make, in order of their paths.

    A read-only file cannot be changed, deleted or renamed, but by a user whose change says ``read_only: false``; taking
    the line away does not say so. An agent cannot make a file read-only or writable. A file whose ``limit`` line is
    taken away is still held to that limit by this change. What the files themselves must be is asked of
    ``check_tree``. Raises what ``read`` raises.
    """
    old = {entry.path: entry for entry in before}
    new = {entry.path: entry for entry in after}
    problems: list[FileProblem] = []
    for path in sorted(path for path in old.keys() | new.keys() if path.endswith(".md")):
        was, is_now = old.get(path), new.get(path)
        if was is None or is_now is None or (was.blob_id, _plain(was)) != (is_now.blob_id, _plain(is_now)):
            problem = _judge(path, _file(was, read), is_now, read, actor)
            if problem is not None:
                problems.append(problem)
    return problems


def _judge(
    path: str, before: MemoryFile | None, entry: TreeEntry | None, read: Read, actor: Actor
) -> FileProblem | None:
    after = _file(entry, read)
    if before is None or not before.read_only:
        if actor == "agent" and after is not None and after.read_only:
            message = "An agent cannot make a file read-only. Leave 'read_only' out, or ask the user to set it."
            return FileProblem(path=path, rule="read only", message=message)
        return None if before is None or after is None else _verdict(path, before, after)
    if after is None or actor == "agent":
        return read_only_problem(path)
    if "read_only" not in after.front:
        return read_only_problem(path)
    return _verdict(path, before, after)


def _verdict(path: str, before: MemoryFile, after: MemoryFile) -> FileProblem | None:
    spec = spec_from(before, label_of(path) or path)
    block = Block(
        id=path,
        label=spec.label,
        value=spec.value,
        created_at=_NEVER,
        updated_at=_NEVER,
        limit=spec.limit,
        description=spec.description,
        read_only=spec.read_only,
        metadata=spec.metadata,
    )
    try:
        judge(block, changes_from(after, block))
    except (ReadOnlyBlock, BlockLimitExceeded) as error:
        # A limit that the file names itself is check_tree's to judge.
        inherited = isinstance(error, ReadOnlyBlock) or "limit" not in after.front
        return from_verdict(path, error) if inherited else None
    except InvalidInput:
        return None  # bad text or a bad limit: wrong with the file whatever it was before, so check_tree tells it
    return None


def _file(entry: TreeEntry | None, read: Read) -> MemoryFile | None:
    # A file that cannot be understood protects nothing: anyone may repair it.
    if entry is None or not _plain(entry):
        return None
    file = parse(read(entry), entry.path)
    return file if isinstance(file, MemoryFile) else None


def _plain(entry: TreeEntry) -> bool:
    return entry.mode not in {SYMLINK, SUBMODULE}
