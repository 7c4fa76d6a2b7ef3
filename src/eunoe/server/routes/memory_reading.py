"""Memory files and their history, to look at."""

from typing import Final

from starlette.responses import Response

from eunoe.runtime.memory_at import memory_at
from eunoe.runtime.memory_branches import memory_branches, memory_tags
from eunoe.runtime.memory_history import (
    memory_blame,
    memory_diff,
    memory_file,
    memory_files,
    memory_log,
    memory_show,
)
from eunoe.runtime.memory_status import memory_check, memory_status
from eunoe.runtime.memory_transfer import bundle_bytes, export_tar
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.memory import memory_file as file_shown
from eunoe.server.wire.memory_requests import BlameQuery, DiffQuery, ExportQuery, LogQuery, RevisionQuery
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import Nothing

MEMORY: Final = "/v1/agents/{agent_id}/memory"


async def status(call: Call[NoQuery, Nothing]) -> object:
    """Return which commit memory is at, and everything that somebody should know, in words."""
    return await memory_status(call.runtime, call.path["agent_id"])


async def check(call: Call[NoQuery, Nothing]) -> object:
    """Judge every file of main and of the working tree."""
    return await memory_check(call.runtime, call.path["agent_id"])


async def log(call: Call[LogQuery, Nothing]) -> object:
    """Return commits, newest first."""
    query = call.query
    return await memory_log(
        call.runtime,
        call.path["agent_id"],
        paths=query.path or (),
        limit=query.limit,
        before=query.before,
        revision=query.revision,
    )


async def show(call: Call[NoQuery, Nothing]) -> object:
    """Return one commit and what it changed."""
    return await memory_show(call.runtime, call.path["agent_id"], call.path["revision"].rstrip("/"))


async def diff(call: Call[DiffQuery, Nothing]) -> object:
    """Return what differs between two revisions."""
    query = call.query
    return await memory_diff(call.runtime, call.path["agent_id"], query.old, query.new, paths=query.path or ())


async def blame(call: Call[BlameQuery, Nothing]) -> object:
    """Return the lines of a file, each with the commit, run, message and model that wrote it."""
    return await memory_blame(call.runtime, call.path["agent_id"], call.query.path, call.query.revision)


async def list_files(call: Call[RevisionQuery, Nothing]) -> object:
    """Return the files of a revision."""
    return await memory_files(call.runtime, call.path["agent_id"], call.query.revision)


async def read_file(call: Call[RevisionQuery, Nothing]) -> object:
    """Return a file as it is, or as it was at a revision."""
    return file_shown(await memory_file(call.runtime, call.path["agent_id"], call.path["path"], call.query.revision))


async def list_tags(call: Call[NoQuery, Nothing]) -> object:
    """Return the tags by name."""
    return await memory_tags(call.runtime, call.path["agent_id"])


async def list_branches(call: Call[NoQuery, Nothing]) -> object:
    """Return the branches by name."""
    return await memory_branches(call.runtime, call.path["agent_id"])


async def at_step(call: Call[NoQuery, Nothing]) -> object:
    """Return what the agent knew at a past step."""
    return await memory_at(call.runtime, call.path["step_id"], call.path["agent_id"])


async def export(call: Call[ExportQuery, Nothing]) -> Response:
    """Return memory as an archive of plain files, or as a git bundle with its history."""
    agent_id, kind = call.path["agent_id"], call.query.format
    if kind == "tar":
        data, media = await export_tar(call.runtime, agent_id, call.query.revision), "application/x-tar"
    else:
        data, media = await bundle_bytes(call.runtime, agent_id), "application/x-git-bundle"
    return Response(
        data, headers={"content-disposition": f'attachment; filename="{agent_id}.{kind}"'}, media_type=media
    )


ROUTES: Final[tuple[Route, ...]] = (
    route(
        "GET",
        f"{MEMORY}/status",
        "How an agent's memory files stand (Eunoe)",
        status,
        query=NoQuery,
        body=Nothing,
        answer="The commit that memory is at, and what somebody should know.",
    ),
    route(
        "GET",
        f"{MEMORY}/check",
        "Judge every memory file (Eunoe)",
        check,
        query=NoQuery,
        body=Nothing,
        answer="Whether all is well, and every problem with path, rule and line.",
    ),
    route(
        "GET",
        f"{MEMORY}/log",
        "List the commits of memory (Eunoe)",
        log,
        query=LogQuery,
        body=Nothing,
        answer="Commits, newest first.",
    ),
    route(
        "GET",
        f"{MEMORY}/commits/{{revision:path}}",
        "Show a commit of memory (Eunoe)",
        show,
        query=NoQuery,
        body=Nothing,
        answer="The commit, its files and their differences.",
    ),
    route(
        "GET",
        f"{MEMORY}/diff",
        "Compare two revisions of memory (Eunoe)",
        diff,
        query=DiffQuery,
        body=Nothing,
        answer="The files that differ, and how.",
    ),
    route(
        "GET",
        f"{MEMORY}/blame",
        "Say who wrote each line of a memory file (Eunoe)",
        blame,
        query=BlameQuery,
        body=Nothing,
        answer="Lines with their commits.",
    ),
    route(
        "GET",
        f"{MEMORY}/files",
        "List memory files (Eunoe)",
        list_files,
        query=RevisionQuery,
        body=Nothing,
        answer="The files, and the commit that they are of.",
    ),
    route(
        "GET",
        f"{MEMORY}/files/{{path:path}}",
        "Read a memory file (Eunoe)",
        read_file,
        query=RevisionQuery,
        body=Nothing,
        answer="The file, and the commit that it is of.",
    ),
    route(
        "GET",
        f"{MEMORY}/tags",
        "List the tags of memory (Eunoe)",
        list_tags,
        query=NoQuery,
        body=Nothing,
        answer="Names and commits.",
    ),
    route(
        "GET",
        f"{MEMORY}/branches",
        "List the branches of memory (Eunoe)",
        list_branches,
        query=NoQuery,
        body=Nothing,
        answer="Names and commits.",
    ),
    route(
        "GET",
        f"{MEMORY}/steps/{{step_id}}",
        "What an agent knew at a step (Eunoe)",
        at_step,
        query=NoQuery,
        body=Nothing,
        answer="The system text that was sent, and the memory files behind it.",
    ),
    route(
        "GET",
        f"{MEMORY}/export",
        "Export memory files (Eunoe)",
        export,
        query=ExportQuery,
        body=Nothing,
        answer="A tar archive or a git bundle.",
    ),
)
