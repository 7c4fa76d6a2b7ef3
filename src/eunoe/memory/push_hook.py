"""Where the hooks are that run when a client pushes over HTTP: beside the repositories, not in them.

What stands in ``.git/hooks`` of a repository is the agent's and its user's, and does not run in the server.
"""

import os
import secrets
from pathlib import Path

from eunoe.memory.receive import SCRIPT


def push_hooks(memory_folder: Path) -> Path:
    """Return the folder of the hooks, which is made or renewed if need be."""
    folder = memory_folder / "push-hooks"
    hook = folder / "pre-receive"
    if hook.exists() and hook.read_text("utf-8") == SCRIPT and os.access(hook, os.X_OK):
        return folder
    folder.mkdir(exist_ok=True)
    temporary = folder / f"pre-receive.{secrets.token_hex(4)}"
    temporary.write_text(SCRIPT, "utf-8")
    temporary.chmod(0o755)
    temporary.replace(hook)
    return folder
