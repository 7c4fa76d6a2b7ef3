"""How files of a working tree are read and written so that no symbolic link leads out of it."""

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eunoe.state.errors import Conflict

TEMPORARY_PREFIX: Final = ".eunoe-"
"""How the names of files that are being written begin; they are in ``.git/info/exclude``."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_WAY: Final = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)


class WorkingFiles:
    """The files below one folder, by relative path with ``/``. Each step below it is opened without following links."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str, *, at_most: int) -> bytes | None:
        """Return a file's bytes, but no more than one over ``at_most``; ``None`` when there is no such file.

        Raises ``Conflict`` when a link, a folder or something else stands in the place of the file or of its folder.
        """
        with self._folder(path) as (folder, name):
            if folder is None:
                return None
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise _in_the_way(path, error) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _in_the_way(path)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(at_most + 1)

    def write(self, path: str, data: bytes, *, executable: bool) -> None:
        """Put a file in place at once, whole, and make its folders. Raises ``Conflict`` as ``read`` does."""
        temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}.tmp"
        with self._folder(path, create=True) as (folder, name):
            if folder is None:
                raise _in_the_way(path)
            mode = 0o777 if executable else 0o666
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                os.unlink(temporary, dir_fd=folder)
                if error.errno == errno.EISDIR:
                    raise _in_the_way(path, error) from error
                raise

    def delete(self, path: str) -> None:
        """Delete a file, and its folders as far as they are empty then. Raises ``Conflict`` as ``read`` does."""
        with self._folder(path) as (folder, name):
            if folder is None:
                return
            try:
                os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                return
            except IsADirectoryError as error:
                raise _in_the_way(path, error) from error
        parent = path.rpartition("/")[0]
        while parent:
            with self._folder(parent) as (folder, name):
                if folder is None:
                    return
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError as error:
                    if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                        return
                    raise
            parent = parent.rpartition("/")[0]

    @contextmanager
    def _folder(self, path: str, *, create: bool = False) -> Generator[tuple[int | None, str]]:
        """Yield a descriptor of the folder that a path lies in (``None``: there is none), and the path's last part."""
        *parts, name = path.split("/")
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                inner = _enter(folder, part, path, create=create)
                if inner is None:
                    yield None, name
                    return
                os.close(folder)
                folder = inner
            yield folder, name
        finally:
            os.close(folder)


def _enter(folder: int, part: str, path: str, *, create: bool) -> int | None:
    while True:
        try:
            return os.open(part, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            if not create:
                return None
        except OSError as error:
            raise _in_the_way(path, error) from error
        try:
            os.mkdir(part, dir_fd=folder)
        except FileExistsError:
            continue


def _in_the_way(path: str, error: OSError | None = None) -> Exception:
    if error is not None and error.errno not in (*_NO_WAY, errno.EISDIR, errno.ENXIO):
        return error
    return Conflict(f"A link, a folder or a device stands where the memory file {path!r} or its folder should be.")
