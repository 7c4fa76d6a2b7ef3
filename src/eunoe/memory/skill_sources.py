"""Where skills are installed from: a folder of this machine, or a repository that git fetches. No code of theirs runs.

Git fetches with no settings of this machine, so that no filter, hook or helper is run for what comes: only the newest
commit, within bounds of time and size, over https, ssh or from a file.
"""

import os
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from eunoe.memory.paths import check_path
from eunoe.memory.skills import SKILL_FILE, check_skill_name
from eunoe.state.errors import InvalidInput, StoreError

CLONE_SECONDS: Final = 120.0
MOST_FILES: Final = 500
"""Files of one skill."""

MOST_BYTES: Final = 10 * 1024 * 1024
"""Bytes of all files of one skill."""

LARGEST_FETCH: Final = 100 * 1024 * 1024
"""Bytes of the largest file, so also of the largest pack, that git may write."""

_SSH: Final = re.compile(r"[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:(?!//)[^\s]+")
"""An address as ssh writes it: ``git@host:path``."""

# The shell sets the bound and becomes git; nothing from outside is part of its words.
_BOUNDED: Final = ("sh", "-c", f'ulimit -f {LARGEST_FETCH // 512} && exec git "$@"', "git")


class SkillFiles(Struct, frozen=True, kw_only=True):
    """A skill as it comes: its name, and its files by path below its folder, ``SKILL.md`` among them."""

    name: str
    files: Mapping[str, bytes]


def is_git_address(source: str) -> bool:
    """Say whether a source is fetched by git, not read as a folder."""
    return "://" in source or _SSH.fullmatch(source) is not None


def check_address(address: str, schemes: tuple[str, ...] = ("https", "ssh", "file")) -> None:
    """Raise ``InvalidInput`` for an address that is not fetched from. It never repeats a password."""
    if _SSH.fullmatch(address) and "ssh" in schemes:
        return
    parts = urlsplit(address)
    if parts.scheme not in schemes:
        raise InvalidInput(
            f"A skill comes from a repository at {', '.join(f'{one}://' for one in schemes)}…, not "
            f"{parts.scheme or 'a path'}.",
            field="source",
        )
    if parts.password is not None or (parts.scheme == "https" and parts.username is not None):
        raise InvalidInput(
            "The address holds a name or a password, which would stay in the history. Clone the repository yourself "
            "and install from its folder.",
            field="source",
        )


def clone(address: str, target: Path, revision: str | None = None, seconds: float = CLONE_SECONDS) -> None:
    """Fetch the newest commit of a repository (or of a branch or tag) into a new folder. Blocks for so many seconds.

    Raises ``InvalidInput`` for an address or a repository that cannot be fetched, and ``StoreError`` without git.
    """
    check_address(address)
    words = ["-c", "core.hooksPath=/dev/null", "clone", "--quiet", "--depth=1", "--no-tags", "--single-branch"]
    words += ["--no-recurse-submodules", "--template=", *(["--branch", revision] if revision else [])]
    if revision is not None and revision.startswith("-"):
        raise InvalidInput(f"{revision!r} is no branch or tag.", field="revision")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours; address and target are single arguments after --
            [*_BOUNDED, *words, "--", address, str(target)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InvalidInput(f"{address} was not fetched within {seconds:g} seconds.", field="source") from error
    if done.returncode == 127:
        raise StoreError("There is no git on the PATH, which fetches skills. Install git.")
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InvalidInput(f"{address} cannot be fetched; git says: {' '.join(said[-3:])}", field="source")


def skill_from(folder: Path, *, below: str | None = None, name: str | None = None, called: str = "") -> SkillFiles:
    """Read the one skill that is in a folder, or in the folder ``below`` it. ``name`` is what it shall be called.

    By itself it is called as its folder, or ``called`` when it is the whole source. Raises ``InvalidInput`` when there
    is none or several, for links and other special files, and over 500 files or 10 MiB.
    """
    root = folder.resolve()
    start = (folder / below).resolve() if below else root
    if not start.is_relative_to(root):
        raise InvalidInput(f"{below!r} leads out of the source.", field="path")
    if not start.is_dir():
        raise InvalidInput(f"There is no folder {below or folder}.", field="path" if below else "source")
    place = _skill_folder(start, root)
    files = _files(place)
    wanted = name or (place.name if place != root else called or place.name)
    check_skill_name(wanted)
    return SkillFiles(name=wanted, files=files)


def checked_files(name: str, files: Mapping[str, bytes]) -> SkillFiles:
    """Return files that were given as a skill. Raises ``InvalidInput`` as ``skill_from`` does."""
    check_skill_name(name)
    _check_bounds(len(files), sum(map(len, files.values())))
    for path in files:
        check_path(path)
    if SKILL_FILE not in files:
        raise InvalidInput(f"A skill needs a file {SKILL_FILE}.", field="files")
    return SkillFiles(name=name, files=dict(files))


def _skill_folder(start: Path, root: Path) -> Path:
    if (start / SKILL_FILE).is_file():
        return start
    found = [path.parent for path in _walk(start) if path.name == SKILL_FILE]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput(f"There is no {SKILL_FILE} in it, so it holds no skill.", field="source")
    names = ", ".join(sorted(one.relative_to(root).as_posix() for one in found)[:20])
    raise InvalidInput(f"It holds {len(found)} skills: {names}. Name the path of one.", field="path")


def _walk(start: Path) -> Iterator[Path]:
    """Yield all that is below a folder and no folder itself; links are not followed, and git's folder is left out."""
    for at, folders, names in os.walk(start):
        links = [name for name in folders if (Path(at) / name).is_symlink()]
        folders[:] = [name for name in folders if name != ".git" and name not in links]
        yield from (Path(at) / name for name in (*links, *names) if name != ".git")


def _files(place: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    size = 0
    for path in _walk(place):
        told = path.relative_to(place).as_posix()
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode):
            raise InvalidInput(f"{told!r} is a link or no plain file. Put the file itself there.", field="source")
        check_path(told)
        size += about.st_size
        _check_bounds(len(found) + 1, size)
        found[told] = path.read_bytes()
    return found


def _check_bounds(count: int, size: int) -> None:
    if count > MOST_FILES or size > MOST_BYTES:
        raise InvalidInput(f"A skill has at most {MOST_FILES} files and {MOST_BYTES} bytes together.", field="source")
