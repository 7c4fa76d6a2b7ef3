"""A merge in which somebody has said what becomes of each path on which the two sides disagree."""

from datetime import datetime

from eunoe.memory.commits import Changes, rewrite_tree, write_object
from eunoe.memory.git_library import Author
from eunoe.memory.repository import MemoryRepository


def merge_settled(
    repository: MemoryRepository,
    ours: str,
    theirs: str,
    settled: Changes,
    *,
    author: Author,
    message: str,
    when: datetime,
) -> str:
    """Write the merge of two commits, ours first, with each disputed path as ``settled`` has it; no reference moves.

    ``settled`` may hold further paths. Raises ``NotFound`` for an unknown commit, and ``InvalidInput`` for a path
    that cannot be.
    """
    handle = repository.handle()
    index = handle.merge_commits(ours, theirs)
    disputed = {entry.path for sides in index.conflicts or () for entry in sides if entry is not None}
    for path in disputed:
        if index.conflicts is not None and path in index.conflicts:
            del index.conflicts[path]
    tree_id = rewrite_tree(handle, str(index.write_tree(handle)), settled)
    return write_object(handle, tree_id, (ours, theirs), author=author, message=message, when=when)
