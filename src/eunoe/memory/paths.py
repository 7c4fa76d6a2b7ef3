"""Where a block's file stands in the repository of memory files, and which paths may stand there.

Mapping: label ``a/b`` is the file ``a/b.md``, and ``skills/x`` is ``skills/x/SKILL.md`` (Letta v1). Paths are kept as
they are given: composed and decomposed letters are not turned into each other.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import Final, Literal

from eunoe.memory.verdict import check_label
from eunoe.state.errors import InvalidInput

Layout = Literal[1, 2]
"""1: ``system/`` is in the prompt. 2: the root is in the prompt, and ``MEMORY.md`` is its index."""

INDEX: Final = "MEMORY.md"
"""The index of a folder in layout 2; at the root it makes the layout."""

MAX_SEGMENT: Final = 255
"""Bytes (UTF-8) of the longest name of a file or folder."""

MAX_PATH: Final = 1000
"""Bytes (UTF-8) of the longest path."""

_SKILLS: Final = "skills/"
_SKILL_FILE: Final = "SKILL.md"
_UNPRINTABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_RESERVED: Final = re.compile(r"(?:\.git|git~1)[ .]*(?::.*)?", re.IGNORECASE | re.DOTALL)


def path_of(label: str) -> str:
    """Return the path of a block's file. Raises ``InvalidInput`` for a label that cannot be a path."""
    check_label(label)
    path = f"{label}/{_SKILL_FILE}" if label.startswith(_SKILLS) else f"{label}.md"
    try:
        check_path(path)
    except InvalidInput as error:
        raise InvalidInput(
            f"The label {label!r} cannot be kept as a memory file. {error.message}", field="label", path=path
        ) from error
    return path


def label_of(path: str) -> str | None:
    """Return the label of the block that a file is, ``None`` for a file that is none (not ``.md``, or of a skill)."""
    if path.startswith(_SKILLS):
        label = path.removesuffix(f"/{_SKILL_FILE}")
        return label if label != path and len(label) > len(_SKILLS) else None
    label = path.removesuffix(".md")
    return label if label != path and label and not label.endswith("/") else None


def check_path(path: str) -> None:
    """Raise ``InvalidInput`` unless a memory file may stand at this path, on any file system."""
    for reason in (_shape_fault(path), *map(_segment_fault, path.split("/"))):
        if reason:
            raise InvalidInput(f"The path {path!r} {reason}", field="path", path=path)


def _shape_fault(path: str) -> str:
    for offset, character in enumerate(path):
        if unicodedata.category(character) in _UNPRINTABLE:
            return f"has the character U+{ord(character):04X} at offset {offset}. A path is one line of printable text."
    if not path:
        return "is empty. Name a file."
    if path.startswith("/"):
        return "starts with '/'. Paths are relative to the root of memory."
    if path.startswith("~"):
        return "starts with '~'. Paths are relative to the root of memory."
    if "\\" in path:
        return "has a backslash. Folders are separated by '/'."
    size = len(path.encode())
    return f"has {size} bytes; at most {MAX_PATH} are allowed." if size > MAX_PATH else ""


def _segment_fault(segment: str) -> str:
    if segment in {"", ".", ".."}:
        return f"has the part {segment!r}. Name each folder and the file plainly, without '.', '..' or '//'."
    if segment == ".md":
        return "has the part '.md', which has no name before its ending."
    # File systems ignore some invisible characters in names, and git guards its folder on all of them.
    bare = "".join(character for character in segment if unicodedata.category(character) != "Cf")
    if _RESERVED.fullmatch(bare):
        return f"has the part {segment!r}, which is reserved for git."
    size = len(segment.encode(errors="replace"))
    return f"has a part of {size} bytes; at most {MAX_SEGMENT} are allowed." if size > MAX_SEGMENT else ""


def clashes(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Return each path that some file systems cannot tell from another file or folder here, with that other one.

    Names that differ only in case or in how accents are composed are one name there. A file ``a.md`` beside a folder
    ``a`` is no clash.
    """
    seen: dict[str, str] = {}
    folders: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    ordered = sorted(set(paths))
    looked_at: set[str] = set()
    for path in ordered:
        above = path.rpartition("/")[0]
        if above in looked_at:
            continue
        looked_at.add(above)
        parts = path.split("/")
        for end in range(1, len(parts)):
            folder = "/".join(parts[:end])
            folders.setdefault(_folded(folder), f"{folder}/")
    for path in ordered:
        key = _folded(path)
        other = seen.setdefault(key, path)
        if other != path:
            found.append((path, other))
        elif key in folders:
            found.append((path, folders[key]))
    return found


def layout_of(paths: Iterable[str]) -> Layout:
    """Return the layout of a repository with these files: 2 when its root has ``MEMORY.md``."""
    return 2 if INDEX in paths else 1


def in_prompt(path: str, layout: Layout) -> bool:
    """Say whether the text of the file at this path is part of the prompt."""
    return path.endswith(".md") and (path.startswith("system/") if layout == 1 else "/" not in path)


def is_index(path: str, layout: Layout) -> bool:
    """Say whether this file is the index of its folder, which is all text and has no front matter."""
    return layout == 2 and not path.startswith(_SKILLS) and path.rpartition("/")[2] == INDEX


def memory_folders(paths: Collection[str]) -> tuple[str, ...]:
    """Return the folders that belong to memory in layout 2, each with a ``/`` at its end, in code point order.

    A folder belongs to memory if it and every folder above it has a ``MEMORY.md``; ``skills/`` does not.
    """
    indexed = {path.removesuffix(INDEX) for path in paths if is_index(path, 2)}
    return tuple(sorted(folder for folder in indexed if folder and _above(folder) <= indexed))


def _above(folder: str) -> set[str]:
    parts = folder.split("/")[:-2]
    return {"", *("/".join(parts[:end]) + "/" for end in range(1, len(parts) + 1))}


def _folded(path: str) -> str:
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
