"""How git is made to check a commit before it makes it: a hook that runs our own check, beside what a person has."""

import os
import sys
from pathlib import Path
from typing import Final

from eunoe.memory.git_library import set_config
from eunoe.memory.repository import MemoryRepository

_MARK: Final = "# made by eunoe"

HOOKS: Final = ("pre-commit", "pre-merge-commit")
"""The hooks that git runs before a commit, and before a merge that it commits by itself (githooks)."""

BEFORE_OURS: Final = ".before-eunoe"
"""How the name of a hook ends that was there first; ours runs it first."""

_SCRIPT: Final = f"""#!/bin/sh
{_MARK}: it checks the files of memory before they are committed
first="$0{BEFORE_OURS}"
if [ -x "$first" ]; then
    "$first" "$@" || exit $?
fi
python="$(git config --local --get eunoe.python)"
if [ ! -x "$python" ]; then
    echo "The commit was not checked, so it was not made: '$python' is gone, the Python that Eunoe ran with." >&2
    echo "Start Eunoe once to repair this, or set: git config eunoe.python /path/to/python" >&2
    exit 1
fi
exec "$python" -P -m eunoe.memory.hook "$(git rev-parse --show-toplevel)"
"""
"""``-P`` keeps Python from importing modules out of the working tree, which the agent writes."""


def install_hook(repository: MemoryRepository, python: Path | None = None) -> None:
    """Install or renew the hooks, and note in the repository's configuration which Python they run.

    A hook that is not ours is moved aside and run first. ``python`` is absolute, and by default the one that runs now.
    Raises ``StoreError`` or ``OSError`` when the repository cannot be written.
    """
    named = str(python or Path(sys.executable))
    if _named_python(repository) != named:
        set_config(repository.handle(), "eunoe.python", named)
    folder = repository.git_folder / "hooks"
    folder.mkdir(exist_ok=True)
    for name in HOOKS:
        _install(folder, name)


def renew_hook(repository: MemoryRepository) -> None:
    """Install or renew the hooks of a repository that is opened, and keep the Python that they run if it is there.

    A clone that was put in the place of a lost repository has none.
    """
    named = _named_python(repository)
    install_hook(repository, Path(named) if named and os.access(named, os.X_OK) else None)


def _named_python(repository: MemoryRepository) -> str | None:
    try:
        return repository.handle().config["eunoe.python"]
    except KeyError:
        return None


def _install(folder: Path, name: str) -> None:
    ours = folder / name
    if ours.exists():
        text = ours.read_bytes()
        if text == _SCRIPT.encode():
            return
        if _MARK.encode() not in text:
            ours.replace(folder / f"{name}{BEFORE_OURS}")
    temporary = folder / f"{name}.eunoe-new"
    temporary.write_text(_SCRIPT, "utf-8")
    temporary.chmod(0o755)
    temporary.replace(ours)
