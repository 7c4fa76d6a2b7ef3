"""How memory files are rendered in layout 1: ``system/`` in full, everything else by name.

Format: Letta v1's and Letta Code's, with order, indentation and escaping of our own.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

from eunoe.prompt.escape import escape_attribute, escape_body, escape_line, has_own_tag, section_tags

REMINDER: Final = "Reminder: <projection> contains the local path of the memory file projection."

_SYSTEM: Final = "system/"
_SKILLS: Final = "skills/"
_SELF: Final = "system/persona.md"
_NOT_SHOWN: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})

_TREES: Final = 8
"""Drawn trees that are kept, of the memories that were rendered last."""


class ShownFile(Struct, frozen=True, kw_only=True):
    """A memory file whose text is in the prompt. ``path`` is relative to the root of memory."""

    path: str
    description: str | None
    value: str


class Unread(Struct, frozen=True, kw_only=True):
    """A newer revision that could not be compiled, and why; the prompt shows the last good one (I7)."""

    revision: str
    reason: str


class FileView(Struct, frozen=True, kw_only=True):
    """What of an agent's memory files the prompt can show, read from one commit.

    ``revision`` is the commit's id, empty when there is none. ``files`` are those whose text is shown, ``names`` the
    paths of all others, ``folders`` (layout 2) the folders that belong to memory, each with a ``/`` at its end. The
    order of these means nothing.
    """

    revision: str
    layout: Literal[1, 2]
    files: tuple[ShownFile, ...]
    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    unread: Unread | None = None


class MemoryText(Struct, frozen=True, kw_only=True):
    """The rendered memory section, and the text of each file in it by path. The section is empty without memory."""

    section: str
    files: tuple[tuple[str, str], ...]


def render_files(view: FileView) -> MemoryText:
    """Return the memory section of layout 1. ``<self>`` shows no description, as the agents' prompts expect it."""
    shown = sorted(view.files, key=lambda file: file.path)
    tags = section_tags(part for file in shown for part in _parts(file.path))
    own = [(file.path, _self(file, tags)) for file in shown if file.path == _SELF]
    tree: _Folder = {}
    for file in shown:
        if file.path != _SELF:
            _place(tree, _parts(file.path), file)
    texts: list[tuple[str, str]] = []
    external = _external(tuple(view.names))
    inner = [*_folder(tree, "", tags, texts), *([external] if external else [])]
    sections = [text for _, text in own]
    if inner:
        sections.append("\n".join(["<memory>", *inner, "</memory>"]))
    return MemoryText(section="\n\n".join([REMINDER, *sections]) if sections else "", files=(*own, *texts))


def diagnostics_line(view: FileView) -> str:
    """Return the line on what could not be read; empty when the newest revision is shown."""
    if view.unread is None:
        return ""
    shown = f"revision {escape_line(view.revision)}" if view.revision else "none"
    return (
        f"- Memory shown: {shown}. Revision {escape_line(view.unread.revision)} could not be read: "
        f"{escape_line(view.unread.reason)}"
    )


def element(kind: str, name: str) -> tuple[str, str]:
    """Return opening and closing tag of a section that is named so; ``kind`` is for names that are no tag names."""
    if has_own_tag(name):
        return f"<{name}>", f"</{name}>"
    return f'<{kind} name="{attribute_text(name)}">', f"</{kind}>"


def path_text(path: str) -> str:
    """Return a path as one line without any ``<``; line breaks and the like are written as numbers."""
    if not path.isprintable():  # what is printable has nothing of ``_NOT_SHOWN``
        path = "".join(
            f"&#{ord(character)};" if unicodedata.category(character) in _NOT_SHOWN else character for character in path
        )
    return path.replace("<", "&lt;")


def attribute_text(name: str) -> str:
    """Return a name for use between double quotes in a tag; line breaks and the like are written as numbers."""
    return "".join(
        f"&#{ord(character)};" if unicodedata.category(character) in _NOT_SHOWN else escape_attribute(character)
        for character in name
    )


def value_lines(value: str, tags: re.Pattern[str]) -> list[str]:
    """Return the escaped lines of a value without the line ends at its end; none when it is empty."""
    text = escape_body(value.rstrip("\n"), tags)
    return text.split("\n") if text else []


# A folder's entries by name: a file, a folder, or one of each.
_Folder = dict[tuple[str, Literal["file", "folder"]], "ShownFile | _Folder"]


def _parts(path: str) -> list[str]:
    return path.removeprefix(_SYSTEM).removesuffix(".md").split("/")


def _place(tree: _Folder, parts: Sequence[str], file: ShownFile) -> None:
    for part in parts[:-1]:
        inner = tree.setdefault((part, "folder"), {})
        if isinstance(inner, dict):
            tree = inner
    tree[parts[-1], "file"] = file


def _folder(tree: _Folder, indent: str, tags: re.Pattern[str], texts: list[tuple[str, str]]) -> list[str]:
    lines: list[str] = []
    for (name, _), entry in sorted(tree.items(), key=lambda item: item[0]):
        if isinstance(entry, ShownFile):
            rendered = _file(entry, name, indent, tags)
            texts.append((entry.path, "\n".join(rendered)))
            lines += rendered
        else:
            opening, closing = element("directory", name)
            lines += [f"{indent}{opening}", *_folder(entry, f"{indent}  ", tags, texts), f"{indent}{closing}"]
    return lines


def _file(file: ShownFile, name: str, indent: str, tags: re.Pattern[str]) -> list[str]:
    opening, closing = element("file", name)
    inner = [_projection(file.path)]
    if file.description:
        inner += f"<description>{escape_body(file.description, tags)}</description>".split("\n")
    inner += value_lines(file.value, tags)
    return [f"{indent}{opening}", *(f"{indent}  {line}" for line in inner), f"{indent}{closing}"]


def _self(file: ShownFile, tags: re.Pattern[str]) -> str:
    return "\n".join(["<self>", _projection(file.path), *value_lines(file.value, tags), "</self>"])


def _projection(path: str) -> str:
    return f"<projection>$MEMORY_DIR/{path_text(path)}</projection>"


# An edit seldom adds a file, and to draw the tree of ten thousand costs more than all else that is rendered.
@lru_cache(maxsize=_TREES)
def _external(names: tuple[str, ...]) -> str:
    listed = sorted(name for name in names if not name.startswith((_SYSTEM, _SKILLS)))
    if not listed:
        return ""
    root: _Names = {}
    for name in listed:
        *folders, last = name.split("/")
        inner = root
        for folder in folders:
            inner = inner.setdefault(f"{folder}/", {})
        inner[last] = {}
    return "\n".join(["<external_projection>", "$MEMORY_DIR/", *_branches(root, ""), "</external_projection>"])


# Names with what is below them; a folder's name ends with "/", which no file's can.
_Names = dict[str, "_Names"]


def _branches(names: Mapping[str, "_Names"], indent: str) -> list[str]:
    lines: list[str] = []
    ordered = sorted(names, key=lambda name: (not name.endswith("/"), name.rstrip("/")))
    for name in ordered:
        last = name == ordered[-1]
        lines.append(f"{indent}{'└── ' if last else '├── '}{path_text(name)}")
        lines += _branches(names[name], f"{indent}{'    ' if last else '│   '}")
    return lines
