"""The bodies of the routes about skills and reflections, all Eunoe's own."""

from typing import Annotated

from msgspec import Meta, Struct

from eunoe.runtime.memory_branches import MergePolicy
from eunoe.state.reflections import ReflectionPolicy

SkillName = Annotated[str, Meta(min_length=1, max_length=64)]


class SkillBody(Struct, kw_only=True):
    """A skill to install: from a git address (``source``), or from its ``files`` by path with a ``name``.

    ``path`` is the skill's folder in the repository, ``revision`` a branch or tag of it; ``replace`` puts the skill in
    place of one of that name.
    """

    name: SkillName | None = None
    source: str | None = None
    files: dict[str, str] | None = None
    path: str | None = None
    revision: str | None = None
    replace: bool = False


class ReflectBody(Struct, kw_only=True):
    """How to reflect. ``wait`` answers when it has ended; otherwise it goes on in the background."""

    policy: ReflectionPolicy = "auto"
    instructions: Annotated[str, Meta(max_length=20_000)] = ""
    model: str | None = None
    wait: bool = False


class TriggerBody(Struct, kw_only=True):
    """When an agent is reflected for by itself; the rest is as for one reflection."""

    every_steps: int | None = None
    after_compaction: bool = False
    policy: ReflectionPolicy = "auto"
    instructions: str = ""
    model: str | None = None


class AcceptBody(Struct, kw_only=True):
    """What becomes of files that memory changed in the meantime too."""

    policy: MergePolicy = "abort"
