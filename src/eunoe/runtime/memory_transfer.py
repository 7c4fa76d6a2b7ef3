"""Memory out of a store and into one: as plain files or with its history. What comes in is merged, never put over.

A plain folder comes in as a history of one commit, so the same folder twice is nothing to do the second time. Where
both sides have a file with different text, memory's form stays, and the other is put under ``conflicts/<short id>/``.
"""

import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct

from eunoe.memory.bundles import fetch_history, forget_fetched, write_bundle
from eunoe.memory.file_rules import MAX_FILE
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.trailers import commit_message
from eunoe.memory.tree import EXECUTABLE, FILE, TreeEntry
from eunoe.memory.working_files import WorkingFiles
from eunoe.runtime.homes import USER
from eunoe.runtime.memory_branches import MergeOutcome, MergePolicy, merge_into
from eunoe.runtime.memory_history import in_repository, revision_or_head
from eunoe.runtime.runtime import Runtime
from eunoe.state.errors import Conflict, InvalidInput
from eunoe.state.memory import MemoryHead

MOST_FILES: Final = 20_000
"""Files that one import takes at most."""

MOST_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all files of an import, or of a folder that is exported as an archive."""

BUNDLE_SIGNATURE: Final = b"# v2 git bundle"
BUNDLE_SIGNATURE_3: Final = b"# v3 git bundle"
"""How a git bundle begins (gitformat-bundle)."""


class PlainFiles(Struct, frozen=True, kw_only=True):
    """Files without a history; ``newest`` is when the last of them was changed."""

    files: Mapping[str, bytes]
    newest: datetime


async def export_folder(runtime: Runtime, agent_id: str, target: Path, revision: str | None = None) -> int:
    """Write the files of a revision (or of memory as it is) into a new or empty folder, and return how many.

    Raises ``Conflict`` when something is in the folder.
    """

    def work(repository: MemoryRepository, head: MemoryHead) -> int:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise Conflict(f"{target} is not an empty folder. Name another, so that nothing is written over.")
        target.mkdir(parents=True, exist_ok=True)
        written = 0
        for entry in _plain(repository, revision_or_head(repository, head, revision)):
            executable = entry.mode == EXECUTABLE
            WorkingFiles(target).write(entry.path, repository.read(entry.blob_id), executable=executable)
            written += 1
        return written

    return await in_repository(runtime, agent_id, work)


async def export_tar(runtime: Runtime, agent_id: str, revision: str | None = None) -> bytes:
    """Return the files of a revision (or of memory as it is) as a tar archive. Raises ``InvalidInput`` over 256 MiB."""

    def work(repository: MemoryRepository, head: MemoryHead) -> bytes:
        entries = repository.with_sizes(_plain(repository, revision_or_head(repository, head, revision)))
        if sum(entry.size or 0 for entry in entries) > MOST_BYTES:
            raise InvalidInput(f"The files have more than {MOST_BYTES} bytes together. Clone the repository instead.")
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for entry in entries:
                member = tarfile.TarInfo(entry.path)
                data = repository.read(entry.blob_id)
                member.size, member.mode = len(data), entry.mode & 0o777
                archive.addfile(member, io.BytesIO(data))
        return out.getvalue()

    return await in_repository(runtime, agent_id, work)


async def export_bundle(runtime: Runtime, agent_id: str, target: Path) -> None:
    """Write all branches and tags with their history to a git bundle. Raises ``Conflict`` when the file is there."""

    def work(repository: MemoryRepository, head: MemoryHead) -> None:
        del head
        if target.exists():
            raise Conflict(f"{target} is there already. Name another file, so that nothing is written over.")
        write_bundle(repository, target.absolute())

    await in_repository(runtime, agent_id, work)


async def bundle_bytes(runtime: Runtime, agent_id: str) -> bytes:
    """Return what ``export_bundle`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "memory.bundle"
        await export_bundle(runtime, agent_id, target)
        return await anyio.to_thread.run_sync(target.read_bytes)


async def import_memory(
    runtime: Runtime, agent_id: str, source: Path, *, policy: MergePolicy = "both", why: str = ""
) -> MergeOutcome:
    """Merge a plain folder, a clone, or a git bundle into memory.

    Raises ``NotFound``, ``Conflict`` for an agent whose memory is blocks, ``InvalidInput`` for a source that cannot be
    read or has more than 20,000 files or 256 MiB, and the verdict on a file that may not be so: then nothing changed.
    """
    has_history = await anyio.to_thread.run_sync(lambda: source.is_file() or (source / ".git").exists())
    subject = f"Import {source.name}, merging"
    if not has_history:
        plain = await anyio.to_thread.run_sync(read_folder, source)
        return await _import_plain(runtime, agent_id, plain, policy, why, subject)
    fetched = await in_repository(runtime, agent_id, lambda repository, _: fetch_history(repository, source))
    try:
        return await merge_into(runtime, agent_id, lambda _: fetched.commit, policy, why, subject=subject)
    finally:
        with anyio.CancelScope(shield=True):
            await in_repository(runtime, agent_id, lambda repository, _: forget_fetched(repository, fetched))


async def import_bytes(
    runtime: Runtime, agent_id: str, data: bytes, *, policy: MergePolicy = "both", why: str = ""
) -> MergeOutcome:
    """Merge a git bundle or a tar archive of plain files into memory; as ``import_memory``."""
    if data.startswith((BUNDLE_SIGNATURE, BUNDLE_SIGNATURE_3)):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "memory.bundle"
            await anyio.to_thread.run_sync(source.write_bytes, data)
            return await import_memory(runtime, agent_id, source, policy=policy, why=why)
    plain = await anyio.to_thread.run_sync(read_tar, data)
    return await _import_plain(runtime, agent_id, plain, policy, why, "Import an archive, merging")


async def _import_plain(
    runtime: Runtime, agent_id: str, plain: PlainFiles, policy: MergePolicy, why: str, subject: str
) -> MergeOutcome:
    def begin(repository: MemoryRepository) -> str:
        message = commit_message("Files from outside", "", {})
        return repository.write_commit(None, plain.files, author=USER, message=message, when=plain.newest)

    return await merge_into(runtime, agent_id, begin, policy, why, subject=subject)


def _plain(repository: MemoryRepository, commit: str) -> tuple[TreeEntry, ...]:
    return tuple(entry for entry in repository.snapshot(commit).entries if entry.mode in (FILE, EXECUTABLE))


class _Collected:
    """Files as they are gathered, within the bounds of an import."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.newest = 0.0
        self._bytes = 0

    def add(self, path: str, data: bytes, changed: float) -> None:
        self._bytes += len(data)
        if len(data) > MAX_FILE:
            raise InvalidInput(f"{path!r} has {len(data)} bytes; a file of memory may have {MAX_FILE}.", field="source")
        if self._bytes > MOST_BYTES or len(self.files) >= MOST_FILES:
            raise InvalidInput(f"An import takes at most {MOST_FILES} files and {MOST_BYTES} bytes.", field="source")
        self.files[path] = data
        self.newest = max(self.newest, changed)

    def done(self, source: str) -> PlainFiles:
        if not self.files:
            raise InvalidInput(f"{source} holds no files, so there is nothing to import.", field="source")
        return PlainFiles(files=self.files, newest=datetime.fromtimestamp(int(self.newest), UTC))


def read_folder(source: Path) -> PlainFiles:
    """Read the plain files below a folder. Raises ``InvalidInput`` for a link in it, or too much."""
    if not source.is_dir():
        raise InvalidInput(f"{source} is not there. Name a folder, a clone or a git bundle.", field="source")
    found = _Collected()
    files = WorkingFiles(source)
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*names, *(name for name in folders if (Path(folder) / name).is_symlink())):
            place = Path(folder) / name
            path = place.relative_to(source).as_posix()
            told = place.lstat()
            if not stat.S_ISREG(told.st_mode):
                raise InvalidInput(f"{path!r} is no plain file. Memory holds plain files only.", field="source")
            data = files.read(path, at_most=MAX_FILE)
            if data is not None:
                found.add(path, data, told.st_mtime)
    return found.done(str(source))


def read_tar(data: bytes) -> PlainFiles:
    """Read the plain files of a tar archive. Raises ``InvalidInput`` for what is no archive, a link, or too much."""
    found = _Collected()
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                if member.isdir():
                    continue
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise InvalidInput(
                        f"{member.name!r} is no plain file. Memory holds plain files only.", field="source"
                    )
                found.add(member.name.removeprefix("./"), content.read(), float(member.mtime))
    except tarfile.TarError as error:
        raise InvalidInput(
            f"The body is neither a git bundle nor an uncompressed tar archive: {error}.", field="source"
        ) from error
    return found.done("The archive")
