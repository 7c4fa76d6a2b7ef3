"""Skills in a folder on the disk: the global ones and a project's, found and read without leaving the folder.

Links between folders are followed, each real folder once. ``within`` bounds where they may lead: a project that was
fetched from elsewhere must not show other files of this machine.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from eunoe.memory.skills import (
    LARGEST_SKILL_FILE,
    SKILL_FILE,
    FoundSkill,
    Skills,
    SkillSource,
    discover,
    name_of_skill,
)
from eunoe.state.errors import InvalidInput, NotFound

PROJECT_SKILLS: Final = Path(".agents") / "skills"
"""Where a working folder has its skills."""

DEEPEST: Final = 6
"""Folders above a skill's own, below the root, that are looked into."""

MOST_ENTRIES: Final = 20_000
"""Files and folders that one look for skills goes through; what comes after is not found."""

LARGEST_FILE: Final = 10 * 1024 * 1024
"""Bytes of the largest file of a skill."""


def skills_in(root: Path, source: SkillSource, within: Path | None = None) -> Skills:
    """Return the skills below a folder, which need not exist. ``within`` is the folder that links may not leave.

    What cannot be read is told in the result.
    """
    if not root.is_dir():
        return Skills()
    bound = within.resolve() if within is not None else None

    def read(path: str) -> bytes:
        return _read(root / path, bound, LARGEST_SKILL_FILE)

    return discover(_skill_files(root, bound), read, source, str(root))


def files_of(skill: FoundSkill) -> tuple[str, ...]:
    """Return the paths of a skill's files but its ``SKILL.md``, relative to its folder; links are left out."""
    folder = Path(skill.folder)
    found: list[str] = []
    for entry in _walk(folder, folder.resolve()):
        path = entry.relative_to(folder).as_posix()
        if path != Path(skill.path).name and entry.is_file():
            found.append(path)
    return tuple(sorted(found))


def read_file_of(skill: FoundSkill, path: str) -> bytes:
    """Return a file of a skill. Raises ``NotFound``, and ``InvalidInput`` for a path that leads out of its folder."""
    folder = Path(skill.folder)
    try:
        return _read(folder / path, folder.resolve(), LARGEST_FILE)
    except FileNotFoundError:
        raise NotFound("file", path, f"The skill {skill.name!r} has no file {path!r}.") from None


def _skill_files(root: Path, bound: Path | None) -> Iterator[str]:
    for entry in _walk(root, bound):
        path = entry.relative_to(root).as_posix()
        if name_of_skill(path) is not None:
            yield path


def _walk(root: Path, bound: Path | None) -> Iterator[Path]:
    """Yield what is below a folder, each real folder once, as far as the bounds go."""
    seen: set[str] = set()
    entries = 0
    folders = [(root, 0)]
    while folders:
        folder, depth = folders.pop()
        real = os.path.realpath(folder)
        if real in seen or depth > DEEPEST or (bound is not None and not Path(real).is_relative_to(bound)):
            continue
        seen.add(real)
        try:
            inner = [(entry, entry.is_dir()) for entry in sorted(folder.iterdir())]
        except PermissionError:
            yield folder / SKILL_FILE  # whoever reads it is told why it cannot
            continue
        for entry, is_folder in inner:
            entries += 1
            if entries > MOST_ENTRIES:
                return
            if is_folder and entry.name != ".git":
                folders.append((entry, depth + 1))
            elif not is_folder:
                yield entry


def _read(path: Path, bound: Path | None, most: int) -> bytes:
    real = path.resolve()
    if bound is not None and not real.is_relative_to(bound):
        raise InvalidInput(f"{path} leads out of {bound}", field="file")
    try:
        # Not following a link any more: what was resolved is what is read.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InvalidInput(f"{path} cannot be opened: {error.strerror}", field="file") from error
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise InvalidInput(f"{path} is no plain file", field="file")
        if about.st_size > most:
            raise InvalidInput(f"{path} has {about.st_size} bytes; at most {most} are read", field="file")
        return file.read(most)
