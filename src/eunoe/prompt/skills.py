"""How the skills that a request brings are listed: after the stored prompt, never stored with it."""

from collections.abc import Sequence

from msgspec import Struct

from eunoe.prompt.escape import escape_line


class Skill(Struct, frozen=True, kw_only=True):
    """A skill that the client offers. ``location`` is the path of its file, usually ``…/<name>/SKILL.md``."""

    name: str
    description: str
    location: str


def with_skills(system_text: str, skills: Sequence[Skill]) -> str:
    """Return the system text followed by the list of skills; unchanged when there are none.

    Of several skills with one name the first counts. They are grouped by the directory that holds the skill's own,
    with directories and entries in code point order.
    """
    section = _section(skills)
    return f"{system_text}\n\n{section}" if section else system_text


def _section(skills: Sequence[Skill]) -> str:
    roots: dict[str, dict[str, tuple[str, ...]]] = {}
    seen: set[str] = set()
    for skill in skills:
        if skill.name in seen:
            continue
        seen.add(skill.name)
        root, entry, lines = _place(skill)
        roots.setdefault(root, {}).setdefault(entry, lines)
    if not roots:
        return ""
    trees = ["\n".join([root, *_tree(entries)]) for root, entries in sorted(roots.items())]
    return "\n".join(["<available_skills>", "\n\n".join(trees), "</available_skills>"])


def _place(skill: Skill) -> tuple[str, str, tuple[str, ...]]:
    # Returns the root directory, the entry under it, and what stands one level further in.
    parts = escape_line(skill.location).replace("\\", "/").split("/")
    summary = escape_line(skill.description.strip().partition("\n")[0])
    note = f" ({summary})" if summary else ""
    if len(parts) >= 2 and parts[-1] == "SKILL.md":
        return _directory(parts[:-2]), f"{parts[-2]}/", (f"SKILL.md{note}",)
    return _directory(parts[:-1]), f"{parts[-1] or escape_line(skill.name)}{note}", ()


def _directory(parts: list[str]) -> str:
    if not parts:
        return "."
    return "/".join(parts) or "/"


def _tree(entries: dict[str, tuple[str, ...]]) -> list[str]:
    lines: list[str] = []
    ordered = sorted(entries.items())
    for entry, children in ordered:
        last = entry == ordered[-1][0]
        lines.append(f"{'└── ' if last else '├── '}{entry}")
        lines += [f"{'    ' if last else '│   '}└── {child}" for child in children]
    return lines
