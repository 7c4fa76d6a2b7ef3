"""Where skills are installed from: a folder of this machine, or a repository that git fetches. No code of theirs runs.

Git fetches with no settings of this machine, so that no filter, hook or helper is run for what comes: only the newest
commit, within bounds of time and size, over https, ssh or from a file.
"""

import os
import re
import signal
import stat
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteReceiveStream
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

MOST_ENTRIES: Final = 20_000
"""Files that one look for the skill of a source goes through."""

_SSH: Final = re.compile(r"[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:(?!//)[^\s]+")
"""An address as ssh writes it: ``git@host:path``."""


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
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise InvalidInput(f"The address of the skill is none: {error}.", field="source") from error
    if not address.isprintable():
        raise InvalidInput("The address of the skill holds characters that no address has.", field="source")
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


async def clone(
    address: str,
    target: Path,
    revision: str | None = None,
    *,
    seconds: float = CLONE_SECONDS,
    largest: int = LARGEST_FETCH,
) -> tuple[str, ...]:
    """Fetch the newest commit of a repository (or of a branch or tag) into a new folder, within so many seconds.

    Returns the paths of its submodules, which are not fetched. ``largest`` bounds, in bytes, what git writes to one
    file, and all files together. Raises ``InvalidInput`` for an address or a repository that cannot be fetched, and
    ``StoreError`` without git.
    """
    check_address(address)
    if revision is not None and (revision.startswith("-") or not revision.isprintable()):
        raise InvalidInput(f"{revision!r} is no branch or tag.", field="revision")
    words = ["clone", "--quiet", "--depth=1", "--no-tags", "--single-branch", "--no-checkout"]
    words += ["--no-recurse-submodules", "--template=", *(["--branch", revision] if revision else [])]
    advice = f"at most {largest} are taken. Clone it yourself, and install from the skill's folder."
    try:
        with anyio.fail_after(seconds):
            await _git([*words, "--", address, str(target)], address, largest, advice)
            # What is a small pack can be any size on the disk, so it is looked at before it is written there.
            listed = await _git(["-C", str(target), "ls-tree", "-r", "-l", "-z", "HEAD"], address, largest, advice)
            entries = [_entry(line) for line in listed.decode("utf-8", "surrogateescape").split("\0") if line]
            size = sum(entry.size for entry in entries)
            if size > largest:
                raise InvalidInput(f"{address} has {size} bytes of files; {advice}", field="source")
            await _git(["-C", str(target), "checkout", "--quiet"], address, largest, advice)
    except TimeoutError as error:
        raise InvalidInput(f"{address} was not fetched within {seconds:g} seconds.", field="source") from error
    return tuple(entry.path for entry in entries if entry.kind == "commit")


class _Entry(Struct, frozen=True):
    kind: str
    size: int
    path: str


def _entry(line: str) -> _Entry:
    """Read what ``git ls-tree -l`` says of one file: mode, kind, id and size, a tab, and the path."""
    about, _, path = line.partition("\t")
    _, kind, _, size = about.split()
    return _Entry(kind, int(size) if size.isdigit() else 0, path)


async def _git(words: Sequence[str], address: str, largest: int, advice: str) -> bytes:
    """Run git, and return what it writes. Whatever it has started ends with it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "LC_ALL": "C",
    }
    # The shell sets the bound and becomes git; nothing from outside is part of its words.
    bounded = ["sh", "-c", f'ulimit -f {largest // 512} && exec git "$@"', "git", "-c", "core.hooksPath=/dev/null"]
    out, err = bytearray(), bytearray()
    async with await anyio.open_process(
        [*bounded, *words], stdin=subprocess.DEVNULL, env=environment, start_new_session=True
    ) as process:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drain, process.stdout, out)
                tasks.start_soon(_drain, process.stderr, err)
                await process.wait()
        except BaseException:
            # Git leaves its helpers behind when it is killed alone.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    code = process.returncode
    if code == 127:
        raise StoreError("There is no git on the PATH, which fetches skills. Install git.")
    if code == -signal.SIGXFSZ or b"index-pack" in err:  # git's name for its part that writes what comes
        raise InvalidInput(f"{address} has too many bytes to fetch, or is damaged; {advice}", field="source")
    if code != 0:
        said = err.decode("utf-8", "replace").strip().splitlines()
        raise InvalidInput(f"{address} cannot be fetched; git says: {' '.join(said[-3:])}", field="source")
    return bytes(out)


async def _drain(stream: ByteReceiveStream | None, into: bytearray) -> None:
    if stream is None:
        raise AssertionError("both outputs of git are pipes")
    async for piece in stream:
        into += piece


def skill_from(
    folder: Path, *, below: str | None = None, name: str | None = None, called: str = "", without: Collection[str] = ()
) -> SkillFiles:
    """Read the one skill that is in a folder, or in the folder ``below`` it. ``name`` is what it shall be called.

    By itself it is called as its folder, or ``called`` when it is the whole source. ``without`` are the paths of
    submodules. Raises ``InvalidInput`` when there is no skill or several, for links, submodules and other special
    files, for what cannot be read, and over 500 files or 10 MiB.
    """
    try:
        root = folder.expanduser().resolve()
        start = (root / below).resolve() if below else root
    except (RuntimeError, ValueError) as error:  # links in a circle, no such user, a name that cannot be
        raise InvalidInput(f"{str(folder)!r} is no folder: {error}", field="source") from error
    if not start.is_relative_to(root):
        raise InvalidInput(f"{below!r} leads out of the source.", field="path")
    try:
        if not start.is_dir():
            raise InvalidInput(f"There is no folder {below or folder}.", field="path" if below else "source")
        place = _skill_folder(start, root)
        for path in without:
            if (root / path).is_relative_to(place):
                raise InvalidInput(
                    f"{path!r} is a submodule, which is not fetched. Put its files there.", field="source"
                )
        files = _files(place)
    except OSError as error:
        raise InvalidInput(f"{error.filename or folder} cannot be read: {error.strerror}", field="source") from error
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
    if any(_is_skill_file(entry.name) and entry.is_file() for entry in start.iterdir()):
        return start
    found = sorted({path.parent for path in _walk(start) if _is_skill_file(path.name)})
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidInput(f"There is no {SKILL_FILE} in it, so it holds no skill.", field="source")
    names = ", ".join(one.relative_to(root).as_posix() for one in found[:20])
    raise InvalidInput(f"It holds {len(found)} skills: {names}. Name the path of one.", field="path")


def _is_skill_file(name: str) -> bool:
    return name.lower() == SKILL_FILE.lower()


def _walk(start: Path) -> Iterator[Path]:
    """Yield all that is below a folder and no folder itself; links are not followed, and git's folder is left out."""
    count = 0
    for at, folders, names in os.walk(start, onerror=_refuse):
        links = [name for name in folders if (Path(at) / name).is_symlink()]
        folders[:] = [name for name in folders if name != ".git" and name not in links]
        count += len(folders) + len(links) + len(names)
        if count > MOST_ENTRIES:
            raise InvalidInput(f"It holds more than {MOST_ENTRIES} files. Name the skill's own folder.", field="source")
        yield from (Path(at) / name for name in (*links, *names) if name != ".git")


def _refuse(error: OSError) -> None:
    raise error


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
        if _is_skill_file(told) and not (place / SKILL_FILE).exists():
            told = SKILL_FILE
        found[told] = path.read_bytes()
    return found


def _check_bounds(count: int, size: int) -> None:
    if count > MOST_FILES or size > MOST_BYTES:
        raise InvalidInput(f"A skill has at most {MOST_FILES} files and {MOST_BYTES} bytes together.", field="source")
