"""How git is made to check a commit before it makes it: a hook that runs our own check, beside what a person has."""

import sys
from pathlib import Path
from typing import Final

from eunoe.memory.repository import MemoryRepository

_MARK: Final = "# made by eunoe"

BEFORE_OURS: Final = "pre-commit.before-eunoe"
"""Where a hook goes that was there first; ours runs it first."""

_SCRIPT: Final = f"""#!/bin/sh
{_MARK}: it checks the files of memory before they are committed
first="$(dirname "$0")/{BEFORE_OURS}"
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
    """Install or renew the hook ``pre-commit``, and note in the repository's configuration which Python it runs.

    A hook that is not ours is moved aside and run first. ``python`` is absolute, and by default the one that runs now.
    """
    repository.handle().config["eunoe.python"] = str(python or Path(sys.executable))
    hooks = repository.git_folder / "hooks"
    hooks.mkdir(exist_ok=True)
    ours = hooks / "pre-commit"
    if ours.exists():
        text = ours.read_bytes()
        if text == _SCRIPT.encode():
            return
        if _MARK.encode() not in text:
            ours.replace(hooks / BEFORE_OURS)
    temporary = hooks / "pre-commit.eunoe-new"
    temporary.write_text(_SCRIPT, "utf-8")
    temporary.chmod(0o755)
    temporary.replace(ours)
