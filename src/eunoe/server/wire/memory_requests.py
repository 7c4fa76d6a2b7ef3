"""The queries and bodies of the routes about memory files, all Eunoe's own."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from eunoe.runtime.memory_branches import MergePolicy

Name = Annotated[str, Meta(min_length=1, max_length=255)]


class RevisionQuery(Struct, kw_only=True):
    """Which revision: an id (at least 4 digits), a tag, a branch or ``HEAD~1``; memory as it is when none is named."""

    revision: str | None = None


class LogQuery(RevisionQuery, kw_only=True):
    """Which commits: of these paths, at most so many, after ``before`` in the order newest first."""

    path: list[str] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    before: str | None = None


class DiffQuery(Struct, kw_only=True):
    """Which two revisions. ``old`` may be ``nothing``; ``new`` is memory as it is when it is not named."""

    old: str
    new: str | None = None
    path: list[str] | None = None


class BlameQuery(RevisionQuery, kw_only=True):
    """Which file."""

    path: str


class ExportQuery(RevisionQuery, kw_only=True):
    """In which form: plain files (``tar``), or everything with its history (``bundle``)."""

    format: Literal["tar", "bundle"] = "bundle"


class ImportQuery(Struct, kw_only=True):
    """What becomes of files that both sides have with different text, and why it is done."""

    policy: MergePolicy = "both"
    why: str = ""


class ChangeQuery(Struct, kw_only=True):
    """The commit that a change is based on, and why it is made."""

    expected: str | None = None
    why: str = ""


class FileBody(Struct, kw_only=True):
    """A file's new text; ``expected`` is the commit that it is based on."""

    text: str
    expected: str | None = None
    why: str = ""


class RestoreBody(Struct, kw_only=True):
    """What to make as it was at a revision; all files when no paths are named."""

    revision: Name
    paths: list[str] | None = None
    expected: str | None = None
    why: str = ""


class TagBody(Struct, kw_only=True):
    """A name for a revision, or for memory as it is."""

    name: Name
    revision: str | None = None
    message: str = ""


class BranchBody(Struct, kw_only=True):
    """A branch that begins at a revision, or at memory as it is."""

    name: Name
    revision: str | None = None


class MirrorBody(Struct, kw_only=True):
    """The address of the git remote that memory is mirrored to: https, http, ssh, or an absolute path."""

    url: str


class MergeBody(Struct, kw_only=True):
    """What to merge into memory, and what becomes of files that both sides changed."""

    revision: Name
    policy: MergePolicy = "abort"
    why: str = ""
