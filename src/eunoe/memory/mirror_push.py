"""Pushing main and the tags of a memory repository elsewhere, by the ``git`` program, bounded in time.

Git works from an empty repository made for it, which borrows the objects and has copies of the references: so no
setting and no hook of the memory repository, which others may have written, can run a program or lead elsewhere. The
settings of the user are read, for they know proxies and credentials. Nobody is asked anything, and nothing is forced.
"""

import hashlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, Process

from eunoe.memory.git_library import MAIN, references
from eunoe.memory.mirror_address import SCHEMES
from eunoe.memory.mirror_answer import PushOutcome, read_answer
from eunoe.memory.repository import MemoryRepository

PUSH_SECONDS: Final = 300.0
"""How long one push may take; then git and all that it has started are killed."""

_LAST_WORDS: Final = 2.0
"""Seconds for what git said last to come in, once it has ended: a helper that stays may keep the pipes open."""

_MOST_SAID: Final = 64 * 1024
_TAGS: Final = "refs/tags/"

_KEPT: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
    *("SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)
"""Variables that git needs to find its way and its credentials. The rest, keys of models among them, it never sees."""

_SSH: Final = (
    "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 -o ControlPath=none"
)
"""Asks nobody, gives up on a host that is gone, and leaves no connection behind that others would share."""

_SETTINGS: Final = (
    *("core.hooksPath=/dev/null", "core.askPass=", "gc.auto=0", "push.gpgSign=false"),
    *("push.followTags=false", "http.lowSpeedLimit=100", "http.lowSpeedTime=60"),
)

Refs = Mapping[str, str]
"""Full names of references with the ids of what they name."""


def mirrored_refs(repository: MemoryRepository) -> Refs:
    """Return what a mirror shall have: main and the tags. Raises ``StoreError`` when they cannot be read."""
    return references(repository.handle(), lambda name: name == MAIN or name.startswith(_TAGS))


def refs_hash(refs: Refs) -> str:
    """Return a hash that is equal for equal references."""
    return hashlib.sha256("".join(f"{refs[name]} {name}\n" for name in sorted(refs)).encode()).hexdigest()


async def push(repository: MemoryRepository, refs: Refs, address: str, *, seconds: float = PUSH_SECONDS) -> PushOutcome:
    """Push references to an address that was checked, and return how it ended; nothing is raised for a failed push.

    One push of a repository at a time. Cancelled, it kills git and leaves nothing that matters.
    """
    folder = await anyio.to_thread.run_sync(_empty_repository, repository.git_folder / "eunoe-mirror", refs)
    words = [word for setting in _SETTINGS for word in ("-c", setting)]
    words += ["push", "--porcelain", "--no-verify", "--recurse-submodules=no", "--", address]
    with anyio.move_on_after(seconds):
        return await _run(["git", *words, f"{MAIN}:{MAIN}", f"{_TAGS}*:{_TAGS}*"], _environment(repository, folder))
    return PushOutcome(main_taken=False, fault="timeout", detail=f"git did not end within {seconds:g} seconds")


def _environment(repository: MemoryRepository, folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        "PATH": os.defpath,
        **kept,
        "LC_ALL": "C.UTF-8",
        "GIT_DIR": str(folder),
        "GIT_OBJECT_DIRECTORY": str(repository.git_folder / "objects"),
        "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES),
        "GIT_TERMINAL_PROMPT": "0",
        "GCM_INTERACTIVE": "never",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_SSH_COMMAND": _SSH,
        "GIT_SSH_VARIANT": "ssh",
    }


def _empty_repository(folder: Path, refs: Refs) -> Path:
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "HEAD").write_text(f"ref: {MAIN}\n", encoding="utf-8")
    lines = "".join(f"{refs[name]} {name}\n" for name in sorted(refs))
    (folder / "packed-refs").write_text(lines, encoding="utf-8")
    return folder


async def _run(command: list[str], environment: Mapping[str, str]) -> PushOutcome:
    try:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except FileNotFoundError:
        return PushOutcome(main_taken=False, fault="program", detail="there is no git on the PATH")
    async with process:
        try:
            return await _talk(process)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # what git has started as well


async def _talk(process: Process) -> PushOutcome:
    if process.stdout is None or process.stderr is None:
        raise AssertionError("the program was started with pipes")
    out, err = _Said(), _Said()
    async with anyio.create_task_group() as reading:
        reading.start_soon(out.take, process.stdout)
        reading.start_soon(err.take, process.stderr)
        await process.wait()
        with anyio.move_on_after(_LAST_WORDS):
            await out.whole.wait()
            await err.whole.wait()
        reading.cancel_scope.cancel()
    return read_answer(process.returncode or 0, out.text(), err.text())


class _Said:
    """The last of what a program wrote. ``whole`` is set at its end."""

    def __init__(self) -> None:
        self._data = b""
        self.whole = anyio.Event()

    async def take(self, stream: ByteReceiveStream) -> None:
        async for chunk in stream:
            self._data = (self._data + chunk)[-_MOST_SAID:]
        self.whole.set()

    def text(self) -> str:
        return self._data.decode("utf-8", "replace")
