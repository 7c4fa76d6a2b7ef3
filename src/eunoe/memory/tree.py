"""What a commit of memory files holds: one entry for each path, without its bytes."""

from typing import Final

from msgspec import Struct

FILE: Final = 0o100644
EXECUTABLE: Final = 0o100755
SYMLINK: Final = 0o120000
SUBMODULE: Final = 0o160000


class TreeEntry(Struct, frozen=True, kw_only=True, gc=False):
    """One path of a commit, as ``git ls-tree -r`` tells it; folders are no entries.

    ``path`` is relative, with ``/`` between its parts, and is kept as git has it: no normalisation of Unicode; bytes
    that are no UTF-8 come as surrogate escapes. ``blob_id`` is the object's id in 40 hex digits (of a commit, for a
    submodule). ``mode`` is git's: one of ``FILE``, ``EXECUTABLE``, ``SYMLINK``, ``SUBMODULE``. ``size`` is that of the
    blob in bytes, 0 for a submodule; ``None`` says that it was not looked up.
    """

    path: str
    blob_id: str
    mode: int
    size: int | None
