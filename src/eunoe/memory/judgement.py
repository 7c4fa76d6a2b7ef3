"""May this person or agent put these files on top of those? The one answer for every way to commit (I9)."""

from collections.abc import Sequence

from eunoe.memory.constraints import ConfigChange, check_constrained_change, check_constraints, config_of
from eunoe.memory.file_changes import Actor, check_change
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.file_rules import Read, check_tree
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
    problems = file_problems([sized.get(entry.path, entry) for entry in after], read, since=before)
    told = {problem.path for problem in problems}
    # What cannot be memory anyway is not read again: it may be large.
    changed = change_problems(before, [entry for entry in after if entry.path not in told], read, actor)
    return problems + [problem for problem in changed if problem.path not in told]


def file_problems(entries: Sequence[TreeEntry], read: Read, *, since: Sequence[TreeEntry] = ()) -> list[FileProblem]:
    """Return what is wrong with the files of a commit, by the rules for all memory and by the limits that it sets.

    Files that stand unchanged in ``since``, a commit that is accepted already, are not judged again. A commit does not
    take all of several files away: that is what a side does that has lost its memory. Raises what ``read`` raises, and
    ``InvalidInput`` when the YAML reader is not installed.
    """
    if not entries and len(since) > 1:
        message = f"All {len(since)} files of memory would be gone. If that is meant, delete them one by one."
        return [FileProblem(path=".", rule="empty", message=message)]
    problems = check_tree(entries, read, since=since)
    told = {problem.path for problem in problems}
    sound = [entry for entry in entries if entry.path not in told] if told else entries
    return problems + check_constraints(sound, read, since=since)


def change_problems(
    before: Sequence[TreeEntry],
    after: Sequence[TreeEntry],
    read: Read,
    actor: Actor,
    config: ConfigChange | None = None,
) -> list[FileProblem]:
    """Return which changes from the files before to those after this actor may not make, each path once.

    Where only files that differ are given, ``config`` is the file of limits before and after (``config_of``).
    """
    config = config if config is not None else (config_of(before), config_of(after))
    problems = check_change(before, after, read, actor)
    told = {problem.path for problem in problems}
    limited = check_constrained_change(before, after, read, actor, config)
    return problems + [problem for problem in limited if problem.path not in told]
