"""How memory files are rendered in layout 2: the files of the root in full, the folders of memory by name.

Format: Letta Code's root-marker layout, with escaping of our own.
"""

from typing import Final

from eunoe.prompt.escape import escape_body, section_tags
from eunoe.prompt.files import FileView, MemoryText, attribute_text, element, value_lines

_INDEX: Final = "MEMORY.md"


def render_layout2(view: FileView) -> MemoryText:
    """Return the memory section of layout 2: a section for each file, then the index with what can be opened."""
    shown = sorted(view.files, key=lambda file: file.path)
    tags = section_tags(_name(file.path) for file in shown)
    texts: list[tuple[str, str]] = []
    index: list[str] = []
    for file in shown:
        if file.path == _INDEX:
            index = value_lines(file.value, tags)
            continue
        opening, closing = element("file", _name(file.path))
        lines = [opening]
        if file.description:
            lines.append(f"<description>{escape_body(file.description, tags)}</description>")
        texts.append((file.path, "\n".join([*lines, *value_lines(file.value, tags), closing])))
    memory = [*index, *_deferred(view.folders)]
    sections = [text for _, text in texts]
    if memory:
        sections.append("\n".join(["<memory>", *memory, "</memory>"]))
    if index:
        texts.append((_INDEX, "\n".join(index)))
    return MemoryText(section="\n\n".join(sections), files=tuple(texts))


def _name(path: str) -> str:
    return path.removesuffix(".md")


def _deferred(folders: tuple[str, ...]) -> list[str]:
    if not folders:
        return []
    entries = [
        f'<directory path="{attribute_text(folder)}" index="{attribute_text(folder + _INDEX)}" />'
        for folder in sorted(folders)
    ]
    return ["<deferred-memory>", *entries, "</deferred-memory>"]
