"""May this person or agent put these files on top of those? The one answer for a commit hook and a push (I9)."""

from collections.abc import Sequence

from eunoe.memory.file_changes import Actor, check_change
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.file_rules import check_tree
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.tree import TreeEntry


def judge(
    repository: MemoryRepository, before: Sequence[TreeEntry], after: Sequence[TreeEntry], actor: Actor
) -> list[FileProblem]:
    """Return what is wrong with the files of a commit, and with what the actor changed in them since one before.

    A file that cannot be memory by itself is told once. Files that are the same before and after are not read. Raises
    ``StoreError`` when an object cannot be read.
    """

    def read(entry: TreeEntry) -> bytes:
        return repository.read(entry.blob_id)

    known = {(entry.path, entry.blob_id, entry.mode) for entry in before}
    new = [entry for entry in after if (entry.path, entry.blob_id, entry.mode) not in known]
    sized = {entry.path: entry for entry in repository.with_sizes(new)}
    problems = check_tree([sized.get(entry.path, entry) for entry in after], read, since=before)
    told = {problem.path for problem in problems}
    same = {entry.path for entry in after} - sized.keys()
    changed = check_change(
        [entry for entry in before if entry.path not in same],
        [entry for entry in new if entry.path not in told],
        read,
        actor,
    )
    return problems + [problem for problem in changed if problem.path not in told]
