"""The skills of an agent: its own and the global ones, and installing and removing its own."""

from typing import Final

from eunoe.memory.skill_sources import check_address
from eunoe.runtime.skills import install_files, install_skill, list_skills, remove_skill, show_skill
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.errors import Unprocessable
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import Nothing
from eunoe.server.wire.skill_requests import SkillBody

_SCHEMES: Final = ("https", "ssh")
"""Where a client may have skills fetched from: never the server's own files."""


async def list_all(call: Call[NoQuery, Nothing]) -> object:
    """Return an agent's skills, and those that cannot be read."""
    return await list_skills(call.runtime, call.path["agent_id"])


async def show(call: Call[NoQuery, Nothing]) -> object:
    """Return a skill with its text."""
    return await show_skill(call.runtime, call.path["agent_id"], call.path["name"].rstrip("/"))


async def install(call: Call[NoQuery, SkillBody]) -> object:
    """Install a skill from a repository, or from the files in the body."""
    body, agent_id = call.body, call.path["agent_id"]
    if (body.source is None) == (body.files is None):
        raise Unprocessable("body: give either source or files")
    if body.files is not None:
        if body.name is None:
            raise Unprocessable("body.name: required with files")
        files = {path: text.encode() for path, text in body.files.items()}
        return await install_files(call.runtime, agent_id, body.name, files, replace=body.replace)
    source = body.source or ""
    check_address(source, _SCHEMES)
    return await install_skill(
        call.runtime,
        agent_id,
        source,
        name=body.name,
        path=body.path,
        revision=body.revision,
        replace=body.replace,
    )


async def remove(call: Call[NoQuery, Nothing]) -> object:
    """Remove a skill from the agent's memory; it stays in the history."""
    return await remove_skill(call.runtime, call.path["agent_id"], call.path["name"].rstrip("/"))


_SKILLS: Final = "/v1/agents/{agent_id}/skills"
_ONE: Final = f"{_SKILLS}/{{name:path}}"

ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        _SKILLS,
        "List an agent's skills (Eunoe)",
        list_all,
        query=NoQuery,
        body=Nothing,
        answer="Skills by name, and those that cannot be read, with the reason.",
    ),
    route(
        "POST",
        _SKILLS,
        "Install a skill into an agent's memory (Eunoe)",
        install,
        query=NoQuery,
        body=SkillBody,
        answer="The skill's name, and the commit that it is in.",
    ),
    route(
        "GET",
        _ONE,
        "Read a skill (Eunoe)",
        show,
        query=NoQuery,
        body=Nothing,
        answer="The skill, its text, and the paths of its other files.",
    ),
    route(
        "DELETE",
        _ONE,
        "Remove a skill from an agent's memory (Eunoe)",
        remove,
        query=NoQuery,
        body=Nothing,
        answer="The commit that memory is at now, and the files that went.",
    ),
)
