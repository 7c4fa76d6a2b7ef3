"""What is wrong with a memory file, in a form that every door can tell."""

from typing import Literal

from msgspec import Struct

from eunoe.memory.paths import label_of
from eunoe.state.errors import BlockLimitExceeded, EunoeError, InvalidInput, ReadOnlyBlock

FileRule = Literal[
    "path",
    "clash",
    "mode",
    "size",
    "encoding",
    "conflict",
    "front matter",
    "name",
    "description",
    "index",
    "skill",
    "value",
    "limit",
    "limits",
    "depth",
    "empty",
    "read only",
]
"""The rules that a memory file can break."""


class FileProblem(Struct, frozen=True, kw_only=True):
    """One rule that one file breaks. ``message`` says what happened and what to do.

    ``line`` counts from 1 in the file. ``error`` is the verdict on the block that the file stands for, where the rule
    is one of blocks too: the same that the API and the tools give.
    """

    path: str
    rule: FileRule
    message: str
    line: int | None = None
    error: InvalidInput | None = None

    @property
    def sentence(self) -> str:
        """The problem on one line, with the file and the rule."""
        place = repr(self.path) if self.line is None else f"{self.path!r}, line {self.line}"
        return f"{place}: {self.message} (rule: {self.rule})"

    def as_error(self) -> InvalidInput:
        """Return the error to raise: the verdict on the block, or one that names the file and the rule."""
        if self.error is not None:
            return self.error
        return InvalidInput(self.sentence, field="path", path=self.path, rule=self.rule, line=self.line)


def from_verdict(path: str, error: InvalidInput) -> FileProblem:
    """Return a verdict on a block as a problem of its file."""
    return FileProblem(path=path, rule=_rule_of(error), message=error.message, error=error)


def read_only_problem(path: str) -> FileProblem:
    """Return the problem of a change to a read-only file."""
    return from_verdict(path, ReadOnlyBlock(label_of(path) or path))


def _rule_of(error: EunoeError) -> FileRule:
    match error:
        case ReadOnlyBlock():
            return "read only"
        case BlockLimitExceeded():
            return "value"
        case InvalidInput(field="label"):
            return "path"
        case InvalidInput(field="limit"):
            return "limit"
        case InvalidInput(field="description"):
            return "description"
        case _:
            return "value"
