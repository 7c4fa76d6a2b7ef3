"""How a repository stays small and fast: git's own packing, in a process of its own, when there is much to pack."""

import os
import subprocess
from typing import Final

from eunoe.memory.repository import MemoryRepository
from eunoe.state.errors import StoreError

UPKEEP_SECONDS: Final = 300.0


def pack_if_needed(repository: MemoryRepository, seconds: float = UPKEEP_SECONDS) -> None:
    """Let git pack loose objects if there are more than its ``gc.auto`` (6,700 by default), and wait for it.

    Nothing is pruned: what an edit is about to record may be named by no reference yet. It can run beside readers and
    writers. Raises ``StoreError`` when the ``git`` program is missing, fails, or needs longer than that.
    """
    command = ["git", "-C", str(repository.path), "-c", "gc.pruneExpire=never", "-c", "gc.autoDetach=false"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - the words are ours, and the path is one argument
            [*command, "gc", "--auto", "--quiet"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise StoreError(
            f"The memory repository {repository.path} cannot be packed: there is no git on the PATH. Install git."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise StoreError(
            f"Packing the memory repository {repository.path} took longer than {seconds:g} seconds and was stopped. "
            f"Run `git gc` in it by hand."
        ) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise StoreError(
            f"Packing the memory repository {repository.path} failed: {said}. Run `git gc` in it to see more."
        )
