"""May a commit hold these files? One answer for the API, the tools, the commit hook and a push (I9)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, Literal

from eunoe.memory.file_blocks import spec_from
from eunoe.memory.file_problems import FileProblem, FileRule, from_verdict
from eunoe.memory.front_matter import MemoryFile, find_front, parse
from eunoe.memory.paths import (
    Layout,
    check_path,
    clashes,
    in_prompt,
    is_index,
    label_of,
    layout_of,
    memory_folders,
)
from eunoe.memory.tree import SUBMODULE, SYMLINK, TreeEntry
from eunoe.memory.verdict import check_new
from eunoe.state.errors import InvalidInput

Read = Callable[[TreeEntry], bytes]
"""Reads the bytes of an entry; what it raises is passed on."""

MEGABYTE: Final = 1024 * 1024

MAX_PROMPT_FILE: Final = 1 * MEGABYTE
"""Bytes of the largest file whose text is in the prompt."""

MAX_SYSTEM_FILE: Final = 5 * MEGABYTE
"""Bytes of the largest other file under ``system/``."""

MAX_FILE: Final = 10 * MEGABYTE
"""Bytes of the largest file."""

_Kind = Literal["strict", "named", "index", "text", "skill", "other"]
"""What is asked of a file: front matter with a description; exactly a name and a description; none; text that is
judged where it can be read; nothing but UTF-8 (a skill's own format is wider); nothing."""

_SKILLS: Final = "skills/"


def check_tree(entries: Sequence[TreeEntry], read: Read, *, since: Sequence[TreeEntry] = ()) -> list[FileProblem]:
    """Return what is wrong with the files of a commit, in order of their paths; empty when nothing is.

    Files that stand unchanged in ``since``, a commit that is accepted already, are not read again. Raises what
    ``read`` raises, and ``InvalidInput`` when the YAML reader is not installed.
    """
    now, before = _frame(entries), _frame(since)
    accepted = set(since)
    problems: list[FileProblem] = []
    for path, other in clashes(entry.path for entry in entries):
        problems.append(
            _problem(path, "clash", f"Some file systems cannot tell it from {other!r}. Rename one of them.")
        )
    for entry in entries:
        if entry in accepted and (now == before or _kind(entry.path, *now) == _kind(entry.path, *before)):
            continue
        problems += _check_entry(entry, _kind(entry.path, *now), now[0], read)
    return _in_order(problems)


def check_contents(
    entries: Sequence[TreeEntry], layout: Layout, folders: Collection[str], read: Read
) -> list[FileProblem]:
    """Return what is wrong with the files that changed in a commit whose paths are those of an accepted one.

    ``folders`` are those that belong to memory in layout 2. What depends on names alone was judged with that commit,
    and so were the files that stand as they were. Raises as ``check_tree`` does.
    """
    known = {"", *folders} if layout == 2 else set[str]()
    kinds: list[_Kind] = [_kind(entry.path, layout, known) for entry in entries]
    found = [_check_entry(entry, kind, layout, read) for entry, kind in zip(entries, kinds, strict=True)]
    return _in_order([problem for problems in found for problem in problems])


def _in_order(problems: list[FileProblem]) -> list[FileProblem]:
    return sorted(problems, key=lambda problem: (problem.path, problem.line or 0, problem.rule))


def _frame(entries: Sequence[TreeEntry]) -> tuple[Layout, set[str]]:
    """Return what the kind of each file depends on: the layout, and in layout 2 the folders that belong to memory."""
    paths = {entry.path for entry in entries}
    layout = layout_of(paths)
    return layout, {"", *memory_folders(paths)} if layout == 2 else set[str]()


def _kind(path: str, layout: Layout, folders: set[str]) -> _Kind:
    if not path.endswith(".md"):
        return "other"
    if path.startswith(_SKILLS):
        return "skill"
    if layout == 1:
        return "strict" if path.startswith(("system/", "reference/")) else "text"
    folder, slash, _ = path.rpartition("/")
    if folder + slash not in folders:
        return "text"
    return "index" if is_index(path, layout) else "named"


def _check_entry(entry: TreeEntry, kind: _Kind, layout: Layout, read: Read) -> Iterator[FileProblem]:
    path = entry.path
    try:
        check_path(path)
    except InvalidInput as error:
        yield FileProblem(path=path, rule="path", message=error.message, error=error)
        return
    if entry.mode in {SYMLINK, SUBMODULE}:
        what = "a symbolic link" if entry.mode == SYMLINK else "a submodule"
        yield _problem(path, "mode", f"Is {what}. Memory holds plain files only; put the file itself there.")
        return
    if kind == "skill" and path.count("/") == 1:
        name = path.removeprefix(_SKILLS).removesuffix(".md")
        yield _problem(path, "skill", f"A skill is a folder. Move the file to 'skills/{name}/SKILL.md'.")
        return
    too_large = _size_problem(entry, layout, entry.size)
    if too_large is None and kind != "other":
        data = read(entry)
        too_large = _size_problem(entry, layout, len(data))
        if too_large is None:
            yield from _check_text(path, kind, data)
    if too_large is not None:
        yield too_large


def _size_problem(entry: TreeEntry, layout: Layout, size: int | None) -> FileProblem | None:
    if in_prompt(entry.path, layout):
        most, what = MAX_PROMPT_FILE, "a file whose text is in the prompt"
    elif layout == 1 and entry.path.startswith("system/"):
        most, what = MAX_SYSTEM_FILE, "a file under 'system/'"
    else:
        most, what = MAX_FILE, "a file of memory"
    if size is None or size <= most:
        return None
    message = f"Has {size} bytes; {what} may have {most}. Shorten it, or split it into several files."
    return _problem(entry.path, "size", message)


def _check_text(path: str, kind: _Kind, data: bytes) -> Iterator[FileProblem]:
    file = parse(data, path, strict=kind in {"strict", "named"}, index=kind == "index")
    if isinstance(file, FileProblem):
        if kind in {"strict", "named", "index"} or file.rule == "encoding" or (kind, file.rule) == ("text", "conflict"):
            yield file
        return
    yield from _check_front(file, kind)
    label = label_of(path)
    if label is None:
        return
    try:
        check_new(spec_from(file, label))
    except InvalidInput as error:
        yield from_verdict(path, error)


def _check_front(file: MemoryFile, kind: _Kind) -> Iterator[FileProblem]:
    if kind == "index":
        if find_front(file.body):
            message = "Is the index of its folder, which has no front matter. Remove the lines from '---' to '---'."
            yield _problem(file.path, "index", message)
    elif kind == "named":
        yield from _check_named(file)
    elif kind == "strict" and file.had_front and "description" not in file.front:
        yield _problem(file.path, "description", "Has no description. Say what it is for: 'description: …'.")
    elif kind == "strict" and file.description is not None and not file.description.strip():
        yield _problem(file.path, "description", "The description is blank. Say what the file is for.")


def _check_named(file: MemoryFile) -> Iterator[FileProblem]:
    for key in ("name", "description"):
        value: str | None = file.front.get(key)
        if value is None or not value.strip():
            rule: FileRule = "name" if key == "name" else "description"
            yield _problem(file.path, rule, f"Needs a {key} in its front matter: '{key}: …' between two lines '---'.")
    others = [key for key in (*file.front, *file.other_keys) if key not in {"name", "description"}]
    if others:
        message = f"Has {', '.join(map(repr, others))} in its front matter; only name and description may stand there."
        yield _problem(file.path, "front matter", message)


def _problem(path: str, rule: FileRule, message: str) -> FileProblem:
    return FileProblem(path=path, rule=rule, message=message)
