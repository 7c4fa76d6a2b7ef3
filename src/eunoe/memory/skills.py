"""Skills: folders with a ``SKILL.md`` that says when to use them and how (pure).

Source of the format and of the precedence: Letta Code. A skill's name is its folder's path below the root that it was
found in (``pdf``, ``office/pdf``). Of several with one name, that of the narrower place counts: the project's before
the agent's own before the global ones.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, cast

from msgspec import Struct

from eunoe.memory.file_problems import FileProblem
from eunoe.memory.front_matter import BOM, decode, find_front
from eunoe.memory.yaml_mapping import MalformedYaml, read_mapping
from eunoe.state.errors import InvalidInput

SkillSource = Literal["project", "agent", "global"]
"""Where a skill is: in the caller's working folder, in the agent's memory, or in the store's home."""

SOURCES: Final[tuple[SkillSource, ...]] = ("project", "agent", "global")
"""The sources, those first that win."""

SKILL_FILE: Final = "SKILL.md"
LARGEST_SKILL_FILE: Final = 1024 * 1024
"""Bytes of the largest ``SKILL.md``."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_MARKS: Final = ("<SKILL_DIR>", "${CLAUDE_SKILL_DIR}")
"""What a skill's text calls its own folder."""


class SkillText(Struct, frozen=True, kw_only=True):
    """What a ``SKILL.md`` says. ``description`` is what the model is shown, with when to use the skill after it."""

    body: str
    title: str | None = None
    description: str = ""
    disabled: bool = False
    """``disable-model-invocation``: people may use it, the model may not."""
    user_invocable: bool = True
    category: str | None = None
    tags: tuple[str, ...] = ()


class FoundSkill(Struct, frozen=True, kw_only=True):
    """A skill by its name. ``folder`` is where it is, as the model and people are told; ``path`` that of its file."""

    name: str
    source: SkillSource
    folder: str
    path: str
    text: SkillText


class UnreadSkill(Struct, frozen=True, kw_only=True):
    """A skill that cannot be used, and why."""

    name: str
    source: SkillSource
    path: str
    reason: str


class Skills(Struct, frozen=True, kw_only=True):
    """The skills of a place, or of all: by name in code point order, and those that cannot be read."""

    skills: tuple[FoundSkill, ...] = ()
    unread: tuple[UnreadSkill, ...] = ()


def check_skill_name(name: str) -> None:
    """Raise ``InvalidInput`` unless a skill can be installed under this name."""
    if not _NAME.fullmatch(name) or len(name) > 64:
        raise InvalidInput(
            f"{name!r} is no name for a skill. Take up to 64 letters (a-z), digits, '-', '_' and '.'.", field="name"
        )


def name_of_skill(path: str) -> str | None:
    """Return the name of the skill whose file this is, by its path below the root of skills; ``None`` for others."""
    folder, _, name = path.rpartition("/")
    return folder if folder and name.lower() == SKILL_FILE.lower() else None


@lru_cache(maxsize=512)
def read_skill(data: bytes, path: str) -> SkillText:
    """Read a ``SKILL.md``; what has no description is described by its first paragraph.

    Raises ``InvalidInput`` with what is wrong with it.
    """
    if len(data) > LARGEST_SKILL_FILE:
        raise InvalidInput(f"has {len(data)} bytes; a {SKILL_FILE} may have {LARGEST_SKILL_FILE}")
    text = decode(data, path)
    if isinstance(text, FileProblem):
        raise InvalidInput(text.message)
    content = text.removeprefix(BOM).replace("\r\n", "\n")
    spans = find_front(content)
    keys: dict[str, Any] = {}
    if spans is not None:
        try:
            keys = {entry.key: entry.value for entry in read_mapping(content[spans.front_start : spans.front_end])}
        except MalformedYaml as error:
            raise InvalidInput(f"the front matter {error.message} (line {error.line + 2})") from error
    body = content[spans.body_start :] if spans is not None else content
    when = _text(keys, "when_to_use")
    about = _text(keys, "description") or _first_paragraph(body)
    return SkillText(
        body=body.strip("\n"),
        title=_text(keys, "title") or _text(keys, "name") or _text(keys, "id"),
        description=f"{about}\n\nWhen to use: {when}" if when else about,
        disabled=_truth(keys, "disable-model-invocation", default=False),
        user_invocable=_truth(keys, "user-invocable", default=True),
        category=_text(keys, "category"),
        tags=_texts(keys, "tags"),
    )


def discover(paths: Iterable[str], read: Callable[[str], bytes], source: SkillSource, root: str) -> Skills:
    """Return the skills among paths below a root of skills. ``root`` is how the root is told; ``read`` gives bytes.

    What cannot be read is told with its reason: also when ``read`` raises ``InvalidInput``.
    """
    found: dict[str, FoundSkill] = {}
    unread: list[UnreadSkill] = []
    for path in sorted(paths):
        name = name_of_skill(path)
        if name is None:
            continue
        where = f"{root}/{path}"
        try:
            text = read_skill(read(path), path)
        except InvalidInput as error:
            unread.append(UnreadSkill(name=name, source=source, path=where, reason=error.message))
            continue
        skill = FoundSkill(name=name, source=source, folder=f"{root}/{name}", path=where, text=text)
        other = found.setdefault(name, skill)
        if other is not skill:
            unread.append(UnreadSkill(name=name, source=source, path=where, reason=f"{other.path} is there already"))
    return Skills(skills=tuple(found.values()), unread=tuple(unread))


def merged(places: Sequence[Skills]) -> Skills:
    """Return the skills of several places, those first that win; what cannot be read stays told."""
    found: dict[str, FoundSkill] = {}
    for place in places:
        for skill in place.skills:
            found.setdefault(skill.name, skill)
    unread = tuple(one for place in places for one in place.unread)
    return Skills(skills=tuple(found[name] for name in sorted(found)), unread=unread)


def loaded(skill: FoundSkill, others: Sequence[str]) -> str:
    """Return what a model reads of a skill: its text, where its folder is, and the other files in it.

    Raises ``InvalidInput`` for a skill that is not for the model.
    """
    if skill.text.disabled:
        raise InvalidInput(
            f"The skill {skill.name!r} may be used by people only (disable-model-invocation). Ask the user.",
            field="name",
        )
    body = skill.text.body
    for mark in _MARKS:
        body = body.replace(mark, skill.folder)
    if not others:
        return body
    listing = "\n".join(f"- {path}" for path in others)
    return f"# Skill Directory: {skill.folder}\n{listing}\n\n{body}"


def _first_paragraph(body: str) -> str:
    for paragraph in re.split(r"\n\s*\n", body.strip()):
        text = " ".join(line for line in paragraph.split("\n") if not line.startswith("#")).strip()
        if text:
            return text
    return ""


def _text(keys: dict[str, Any], key: str) -> str | None:
    value = keys.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, list | dict):
        raise InvalidInput(f"the value of {key} must be text")
    return str(value).strip()


def _texts(keys: dict[str, Any], key: str) -> tuple[str, ...]:
    value = keys.get(key)
    if isinstance(value, list):
        return tuple(str(item) for item in cast("list[object]", value))
    return tuple(part.strip() for part in str(value).split(",") if part.strip()) if value is not None else ()


def _truth(keys: dict[str, Any], key: str, *, default: bool) -> bool:
    value = keys.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidInput(f"the value of {key} must be true or false")
    return value
