"""What an agent sees of its memory files: one file, a folder, a search, and what happened to a path.

Everything is read from one commit, never from the disk: there is no way out of memory by ``..``, an absolute path or a
symbolic link, since a commit's paths lead nowhere else and what is no plain file is refused.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from eunoe.memory import history
from eunoe.memory.front_matter import MemoryFile, decode, parse
from eunoe.memory.pages import page_of
from eunoe.memory.paths import INDEX, Layout, check_path, is_index, layout_of
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.tree import SUBMODULE, SYMLINK, TreeEntry
from eunoe.state.errors import InvalidInput, NotFound

MOST_FOUND: Final = 50
"""Lines that one search shows."""

MOST_SEARCHED: Final = 32 * 1024 * 1024
"""Bytes of files that one search looks at."""

LARGEST_SEARCHED: Final = 1024 * 1024
"""Bytes of the largest file that a search looks into."""

LONGEST_LINE: Final = 200
"""Characters of a found line that are shown."""

MOST_DESCRIBED: Final = 200
"""Files of one folder whose descriptions are shown."""

MOST_COMMITS: Final = 20
"""Commits that one look at a path's history shows."""

ROOTS: Final = ("$MEMORY_DIR", "${MEMORY_DIR}")
"""What prompts call the root of memory."""


def path_in_memory(named: str) -> str:
    """Return the path that a model names, relative to the root of memory; ``""`` is the root itself.

    A trailing ``/`` and the name of the root before it are understood. Raises ``InvalidInput`` for a path that leads
    out, is absolute, or cannot be.
    """
    path = named.strip()
    for root in ROOTS:
        if path == root or path.startswith(f"{root}/"):
            path = path.removeprefix(root).removeprefix("/")
    path = path.removesuffix("/") if path != "/" else path
    if path in {"", "."}:
        return ""
    check_path(path)
    return path


class MemoryView:
    """The files of one commit as a model is told of them. ``commit`` is a full id."""

    def __init__(self, repository: MemoryRepository, commit: str) -> None:
        self._repository = repository
        self._commit = commit
        self._files = repository.snapshot(commit)
        self._layout: Layout = layout_of(entry.path for entry in self._files.entries)

    def open(self, named: str, offset: int = 0) -> str:
        """Return the body of a file, or a folder's index and what is in it, from a character on.

        Raises ``NotFound``, and ``InvalidInput`` for a path that cannot be, and for a file that is no text.
        """
        path = path_in_memory(named)
        entry = self._entry(path)
        if entry is not None:
            return page_of(self._body(entry) or "(empty file)", offset, entry.path)
        return page_of("\n".join(self._folder(path)), offset, path or "the root of memory")

    def list(self, named: str = "", offset: int = 0) -> str:
        """Return the paths of all files at and below a path, one a line. Raises as ``open`` does."""
        path = path_in_memory(named)
        entries = self._below(path)
        return page_of("\n".join(entry.path for entry in entries) or "Memory has no files.", offset, "The list")

    def search(self, query: str) -> str:
        """Return lines that hold a text, whatever the case of letters, and files whose paths do; bounded.

        What was not looked at is told. Raises ``InvalidInput`` for an empty text.
        """
        wanted = query.strip().casefold()
        if not wanted:
            raise InvalidInput("query must be some text that stands in the files.", field="query")
        found: list[str] = []
        left_out = 0
        room = MOST_SEARCHED
        for entry in self._repository.with_sizes(self._files.entries):
            if wanted in entry.path.casefold():
                found.append(entry.path)
            size = entry.size or 0
            if entry.mode in {SYMLINK, SUBMODULE}:
                continue
            if size > LARGEST_SEARCHED or size > room:
                left_out += 1
                continue
            room -= size
            found += self._matches(entry, wanted)
            if len(found) > MOST_FOUND:
                break
        return _told(found, query, left_out)

    def history(self, named: str, before: str | None = None) -> str:
        """Return the newest commits that changed a path, also one that is gone: id, day, author and subject.

        ``before`` is the full id of the commit to go on after. Raises ``NotFound`` when no commit did.
        """
        path = path_in_memory(named)
        entry = self._entry(path)
        wanted = entry.path if entry is not None else path
        paths = (wanted,) if wanted else ()
        commits = history.log(self._repository, start=self._commit, paths=paths, limit=MOST_COMMITS + 1, before=before)
        if not commits:
            raise NotFound("file", path, f"No commit changed {path!r}. memory_list shows the paths that there are.")
        lines = [
            f"{commit.id[:10]} {commit.when:%Y-%m-%d %H:%M} {commit.author.name}: {commit.subject}"
            for commit in commits[:MOST_COMMITS]
        ]
        if len(commits) > MOST_COMMITS:
            lines.append(f"[There are older ones; go on with before {commits[MOST_COMMITS - 1].id[:10]}.]")
        return "\n".join(lines)

    def _entry(self, path: str) -> TreeEntry | None:
        """Return the file that a path or a label names."""
        for one in (path, f"{path}.md", f"system/{path}.md"):
            entry = self._files.entry(one) if path else None
            if entry is not None:
                return entry
        return None

    def _below(self, path: str) -> Sequence[TreeEntry]:
        if not path:
            return self._files.entries
        entry = self._entry(path)
        entries = (entry,) if entry is not None else self._files.below(path)
        if not entries:
            raise NotFound(
                "file", path, f"Memory has no file or folder {path!r}. memory_list shows the paths that there are."
            )
        return entries

    def _body(self, entry: TreeEntry) -> str:
        if entry.mode in {SYMLINK, SUBMODULE}:
            raise InvalidInput(f"{entry.path!r} is no plain file and leads out of memory.", field="path")
        data = self._repository.read(entry.blob_id)
        if entry.path.endswith(".md"):
            file = parse(data, entry.path, index=is_index(entry.path, self._layout))
            if isinstance(file, MemoryFile):
                return file.body
        text = decode(data, entry.path)
        if not isinstance(text, str):
            raise InvalidInput(f"{entry.path!r} is no text; it has {len(data)} bytes.", field="path")
        return text

    def _folder(self, path: str) -> Iterator[str]:
        prefix = f"{path}/" if path else ""
        entries = self._below(path)
        index = self._files.entry(prefix + INDEX)
        if index is not None:
            yield self._body(index)
            yield ""
        folders: dict[str, int] = {}
        files: list[TreeEntry] = []
        for entry in entries:
            inner, slash, _ = entry.path.removeprefix(prefix).partition("/")
            if slash:
                folders[inner] = folders.get(inner, 0) + 1
            elif entry is not index:
                files.append(entry)
        yield f"In {path or 'the root of memory'}:"
        for name, count in folders.items():
            yield f"- {prefix}{name}/ ({count} {'file' if count == 1 else 'files'})"
        for number, entry in enumerate(files):
            about = self._description(entry) if number < MOST_DESCRIBED else ""
            yield f"- {entry.path}{f': {about}' if about else ''}"

    def _description(self, entry: TreeEntry) -> str:
        if not entry.path.endswith(".md") or entry.mode in {SYMLINK, SUBMODULE}:
            return ""
        file = parse(self._repository.read(entry.blob_id), entry.path, index=is_index(entry.path, self._layout))
        about = file.description if isinstance(file, MemoryFile) else "cannot be read"
        return (about or "").strip().partition("\n")[0][:LONGEST_LINE]

    def _matches(self, entry: TreeEntry, wanted: str) -> Iterator[str]:
        text = decode(self._repository.read(entry.blob_id), entry.path)
        if not isinstance(text, str) or wanted not in text.casefold():
            return
        for number, line in enumerate(text.split("\n"), start=1):
            folded = line.casefold()
            if wanted in folded:
                start = max(0, folded.index(wanted) - LONGEST_LINE // 2)
                yield f"{entry.path}:{number}: {line[start : start + LONGEST_LINE].strip()}"


def _told(found: Sequence[str], query: str, left_out: int) -> str:
    lines = list(found[:MOST_FOUND])
    if not lines:
        lines.append(f"Nothing in memory holds {query!r}.")
    if len(found) > MOST_FOUND:
        lines.append(f"[More than {MOST_FOUND} places; look for a longer text.]")
    if left_out:
        lines.append(f"[{left_out} large files were not looked into.]")
    return "\n".join(lines)
