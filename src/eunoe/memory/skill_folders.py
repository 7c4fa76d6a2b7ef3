"""Skills in a folder on the disk: the global ones and a project's, found and read without leaving the folder.

Links between folders are followed, each real folder once. ``within`` bounds where they may lead: a project that was
fetched from elsewhere must not show other files of this machine.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import structs

from eunoe.memory.skills import (
    LARGEST_SKILL_FILE,
    FoundSkill,
    Skills,
    SkillSource,
    UnreadSkill,
    discover,
    name_of_skill,
)
from eunoe.state.errors import InvalidInput, NotFound

PROJECT_SKILLS: Final = Path(".agents") / "skills"
"""Where a working folder has its skills."""

DEEPEST: Final = 6
"""Folders above a skill's own, below the root, that are looked into."""

MOST_ENTRIES: Final = 20_000
"""Files and folders that one look for skills goes through; what comes after is not looked at, which is told."""

LARGEST_FILE: Final = 10 * 1024 * 1024
"""Bytes of the largest file of a skill."""


def skills_in(root: Path, source: SkillSource, within: Path | None = None, *, most: int = MOST_ENTRIES) -> Skills:
    """Return the skills below a folder, which need not exist. ``within`` is the folder that links may not leave.

    What cannot be read, or was not looked at because there are more than ``most`` files, is told in the result.
    """
    if not is_there(root):
        return Skills()
    bound = within.resolve() if within is not None else None

    def read(path: str) -> bytes:
        if not _is_utf8(f"{root}/{path}"):
            raise InvalidInput("its folder has a name that is no UTF-8; rename it")
        try:
            return _read(root / path, bound, LARGEST_SKILL_FILE)
        except FileNotFoundError:
            raise InvalidInput("it is a link that leads nowhere, or it went while skills were looked for") from None

    looked = _Look(most)
    found = discover(_skill_files(root, bound, looked), read, source, str(root))
    unread = [structs.replace(one, name=_shown(one.name), path=_shown(one.path)) for one in found.unread]
    for folder, reason in looked.failed:
        name = folder.relative_to(root).as_posix() if folder != root else root.name
        unread.append(UnreadSkill(name=_shown(name), source=source, path=_shown(str(folder)), reason=reason))
    return Skills(skills=found.skills, unread=tuple(unread))


def is_there(root: Path) -> bool:
    """Say whether there is a folder of skills, which may be one that cannot be looked into."""
    try:
        return root.is_dir()
    except OSError:
        return True


def files_of(skill: FoundSkill) -> tuple[str, ...]:
    """Return the paths of a skill's files but its ``SKILL.md``, relative to its folder; links are left out."""
    folder = Path(skill.folder)
    found: list[str] = []
    for entry in _walk(folder, folder.resolve(), _Look(MOST_ENTRIES)):
        path = entry.relative_to(folder).as_posix()
        if path != Path(skill.path).name and entry.is_file():
            found.append(_shown(path))
    return tuple(sorted(found))


def read_file_of(skill: FoundSkill, path: str) -> bytes:
    """Return a file of a skill. Raises ``NotFound``, and ``InvalidInput`` for a path that leads out of its folder."""
    folder = Path(skill.folder)
    try:
        return _read(folder / path, folder.resolve(), LARGEST_FILE)
    except (FileNotFoundError, ValueError):  # ValueError: no file system has such a name
        raise NotFound("file", path, f"The skill {skill.name!r} has no file {path!r}.") from None


class _Look:
    """One look through a folder: how much it has gone through, and the folders that it could not look into, and why."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.entries = 0
        self.failed: list[tuple[Path, str]] = []


def _skill_files(root: Path, bound: Path | None, looked: _Look) -> Iterator[str]:
    for entry in _walk(root, bound, looked):
        path = entry.relative_to(root).as_posix()
        if name_of_skill(path) is not None:
            yield path


def _walk(root: Path, bound: Path | None, looked: _Look) -> Iterator[Path]:
    """Yield what is below a folder, each real folder once, as far as the bounds go."""
    seen: set[str] = set()
    folders = [(root, 0)]
    while folders:
        folder, depth = folders.pop()
        real = os.path.realpath(folder)
        if real in seen or depth > DEEPEST or (bound is not None and not Path(real).is_relative_to(bound)):
            continue
        seen.add(real)
        try:
            inner = [(entry, entry.is_dir()) for entry in sorted(folder.iterdir())]
        except (FileNotFoundError, NotADirectoryError):
            continue  # it went meanwhile
        except OSError as error:
            looked.failed.append((folder, f"it cannot be looked into: {error.strerror}"))
            continue
        for entry, is_folder in inner:
            looked.entries += 1
            if looked.entries > looked.most:
                looked.failed.append((root, f"it holds more than {looked.most} files, and no more are looked at"))
                return
            if is_folder and entry.name != ".git":
                folders.append((entry, depth + 1))
            elif not is_folder:
                yield entry


def _read(path: Path, bound: Path | None, most: int) -> bytes:
    """Return a file's bytes. Raises ``FileNotFoundError``, ``ValueError`` (no such name) and ``InvalidInput``."""
    real = os.path.realpath(path)  # of links in a circle it is one of them, which is then not followed
    if bound is not None and not Path(real).is_relative_to(bound):
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


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: str) -> str:
    """Return a name of the file system as it can be stored and sent: bytes that are no UTF-8 become question marks."""
    return os.fsencode(name).decode("utf-8", "replace")
