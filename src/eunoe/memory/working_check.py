"""What would be wrong if everything in the working tree were committed now."""

import hashlib
import os
import stat

from eunoe.memory.file_problems import FileProblem
from eunoe.memory.file_rules import MAX_FILE
from eunoe.memory.judgement import file_problems
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.status import WorkingTree
from eunoe.memory.tree import EXECUTABLE, FILE, SYMLINK, TreeEntry
from eunoe.memory.working_files import WorkingFiles
from eunoe.state.errors import Conflict


def working_tree_problems(repository: MemoryRepository, commit: str, tree: WorkingTree) -> list[FileProblem]:
    """Judge the uncommitted files of a working tree as if they were committed on a commit; nothing is written.

    What is wrong with the commit itself is not told again. Raises ``StoreError`` for objects that are missing.
    """
    committed = repository.snapshot(commit).entries
    entries = {entry.path: entry for entry in committed}
    texts: dict[str, bytes] = {}
    for path in {*tree.staged, *tree.modified, *tree.untracked, *tree.conflicted}:
        entry, data = _working_entry(repository, path)
        if entry is None:
            entries.pop(path, None)
            continue
        entries[path] = entry
        texts[path] = data

    def read(entry: TreeEntry) -> bytes:
        return texts[entry.path] if entry.path in texts else repository.read(entry.blob_id)

    return file_problems([entries[path] for path in sorted(entries)], read, since=committed)


def _working_entry(repository: MemoryRepository, path: str) -> tuple[TreeEntry | None, bytes]:
    try:
        data = WorkingFiles(repository.path).read(path, at_most=MAX_FILE)
    except Conflict:
        # A link, or something else that is no file: the rule on modes tells it.
        return TreeEntry(path=path, blob_id="0" * 40, mode=SYMLINK, size=0), b""
    if data is None:
        return None, b""
    executable = os.lstat(repository.path / path).st_mode & stat.S_IXUSR
    # Git's own id of a blob, so that a file that is as committed is told as the same.
    blob_id = hashlib.sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()
    return TreeEntry(path=path, blob_id=blob_id, mode=EXECUTABLE if executable else FILE, size=len(data)), data
