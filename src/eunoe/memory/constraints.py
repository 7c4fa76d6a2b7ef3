"""Which limits does a repository set for itself? ``.memfs.config.json`` at the root of layout 2 (Letta Code 0.34).

What the format leaves open is decided here. Characters are those of a whole ``.md`` file. A path is as deep as it has
folders. Of several ``fileCharacterLimits`` the first that matches a path counts, before ``maxFileCharacters``.
``skills/`` is outside memory. A key that is absent limits nothing, and keys that are not known are left to others.

Lists of files are in the order of their paths.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from eunoe.memory.file_problems import FileProblem, FileRule, read_only_problem
from eunoe.memory.file_rules import Read
from eunoe.memory.paths import INDEX
from eunoe.memory.tree import EXECUTABLE, FILE, TreeEntry

CONFIG: Final = ".memfs.config.json"
"""Where the limits are."""

Actor = Literal["agent", "user"]
"""Who makes a change. A person may change the limits, and with them which files are read-only."""

_SKILLS: Final = "skills/"
_KEEP_LIMIT: Final = "Shorten it, or move a part to another file; do not raise the limit."
_Count = Annotated[int, Meta(ge=0)]


ConfigChange = tuple[TreeEntry | None, TreeEntry | None]
"""The file of limits before and after a change."""


class PatternLimit(Struct, frozen=True, rename="camel"):
    """How many characters a file may have whose path matches a pattern; ``None``: as many as it likes."""

    pattern: str
    max_characters: _Count | None


class Constraints(Struct, frozen=True, kw_only=True, rename="camel"):
    """The limits of a repository; ``None`` stands for no limit."""

    version: Literal[1]
    max_depth: _Count | None = None
    max_file_characters: _Count | None = None
    max_core_memory_characters: _Count | None = None
    file_character_limits: tuple[PatternLimit, ...] = ()
    read_only_files: tuple[str, ...] = ()

    def characters_of(self, path: str) -> int | None:
        """Return how many characters a file may have."""
        for limit in self.file_character_limits:
            if matches(path, limit.pattern):
                return limit.max_characters
        return self.max_file_characters

    def read_only(self, path: str) -> bool:
        """Say whether a file is protected from edits."""
        return any(matches(path, pattern) for pattern in self.read_only_files)


def matches(path: str, pattern: str) -> bool:
    """Say whether a path matches a pattern: ``*`` and ``?`` stay within a name, ``**`` goes across folders."""
    return _expression(pattern).fullmatch(path) is not None


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    tokens = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removeprefix("/"))
    return re.compile("".join(parts.get(token, re.escape(token)) for token in tokens), re.DOTALL)


def check_constraints(
    entries: Sequence[TreeEntry], read: Read, *, since: Sequence[TreeEntry] = ()
) -> list[FileProblem]:
    """Return which limits of its own a commit breaks, in order of paths; none without a file of limits, or in layout 1.

    Files that stand unchanged in ``since``, a commit that is accepted already with the same limits, are not judged
    again. Raises what ``read`` raises.
    """
    config = config_of(entries)
    if config is None:
        return []
    limits = _read_limits(config, read)
    if isinstance(limits, FileProblem):
        return [limits]
    known = {_key(entry) for entry in since}
    if _key(config) not in known:
        known = set[tuple[str, str, int]]()
    new = [entry for entry in entries if _key(entry) not in known and not entry.path.startswith(_SKILLS)]
    problems = [problem for entry in new for problem in _check_entry(entry, limits, read)]
    if any(_is_core(entry.path) for entry in new):
        problems += _check_core([entry for entry in entries if _is_core(entry.path)], limits, read)
    return sorted(problems, key=lambda problem: problem.path)


def check_constrained_change(
    before: Sequence[TreeEntry], after: Sequence[TreeEntry], read: Read, actor: Actor, config: ConfigChange
) -> list[FileProblem]:
    """Return which files this actor may not change so from those before to those after, in order of paths.

    An agent changes neither the limits nor a file that they name read-only. A person changes such a file once the
    limits do not name it any more; one commit may do both. Raises what ``read`` raises.
    """
    if config[0] is None:
        return []
    changed = sorted({path for path, _, _ in {*map(_key, before)} ^ {*map(_key, after)}})
    limits = _read_limits(config[0], read)
    if isinstance(limits, FileProblem) or not changed:
        return []  # limits that cannot be understood protect nothing: anyone may repair them
    now = _read_limits(config[1], read) if config[1] is not None else None
    problems: list[FileProblem] = []
    for path in changed:
        if path == CONFIG and actor == "agent":
            message = "Holds the limits of memory, which a person sets. Ask the user to change it."
            problems.append(_problem(path, "read only", message))
        elif limits.read_only(path):
            freed = actor == "user" and not (isinstance(now, Constraints) and now.read_only(path))
            problems += [] if freed else [read_only_problem(path)]
    return problems


def config_of(entries: Sequence[TreeEntry]) -> TreeEntry | None:
    """Return the file of limits among all files, if the layout knows it; a bisection, for there may be many files."""
    config = _entry(entries, CONFIG)
    if config is None or config.mode not in (FILE, EXECUTABLE) or _entry(entries, INDEX) is None:
        return None
    return config


def _entry(entries: Sequence[TreeEntry], path: str) -> TreeEntry | None:
    at = bisect_left(entries, path, key=attrgetter("path"))
    return entries[at] if at < len(entries) and entries[at].path == path else None


def _key(entry: TreeEntry) -> tuple[str, str, int]:
    return entry.path, entry.blob_id, entry.mode


def _read_limits(config: TreeEntry, read: Read) -> Constraints | FileProblem:
    try:
        return msgspec.json.decode(read(config), type=Constraints)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _problem(CONFIG, "limits", f"Holds the limits of memory, and cannot be understood: {error}. Correct it.")


def _check_entry(entry: TreeEntry, limits: Constraints, read: Read) -> Iterator[FileProblem]:
    depth = entry.path.count("/")
    if limits.max_depth is not None and depth > limits.max_depth:
        message = f"Lies {depth} folders deep; at most {limits.max_depth} are allowed. Move it up."
        yield _problem(entry.path, "depth", message)
    most = limits.characters_of(entry.path) if entry.path.endswith(".md") else None
    if most is not None and entry.mode in (FILE, EXECUTABLE):
        characters = _characters(entry, read)
        if characters > most:
            message = f"Has {characters} characters; {CONFIG} allows {most}. {_KEEP_LIMIT}"
            yield _problem(entry.path, "size", message)


def _check_core(core: Sequence[TreeEntry], limits: Constraints, read: Read) -> Iterator[FileProblem]:
    most = limits.max_core_memory_characters
    if most is None:
        return
    sizes = sorted(((_characters(entry, read), entry.path) for entry in core), reverse=True)
    together = sum(characters for characters, _ in sizes)
    if together > most:
        largest = ", ".join(f"{path!r} {characters}" for characters, path in sizes[:3])
        message = (
            f"The files in the prompt have {together} characters together; at most {most} are allowed. The largest: "
            f"{largest}. Shorten one, or move it to a folder; do not raise the limit."
        )
        yield _problem(CONFIG, "size", message)


def _is_core(path: str) -> bool:
    return path.endswith(".md") and "/" not in path


def _characters(entry: TreeEntry, read: Read) -> int:
    return len(read(entry).decode("utf-8", "ignore"))  # what is no text is told by another rule


def _problem(path: str, rule: FileRule, message: str) -> FileProblem:
    return FileProblem(path=path, rule=rule, message=message)
