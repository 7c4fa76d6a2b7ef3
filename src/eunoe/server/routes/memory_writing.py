"""What a person changes in memory files: each change is a commit, and history stays."""

from typing import Final

from eunoe.runtime.memory_branches import (
    create_memory_branch,
    create_memory_tag,
    delete_memory_branch,
    merge_memory,
)
from eunoe.runtime.memory_edits import restore_files, write_files
from eunoe.runtime.memory_transfer import import_bytes
from eunoe.server.reading import body_bytes
from eunoe.server.routes.memory_reading import MEMORY
from eunoe.server.routing import Call, Route, route
from eunoe.server.wire.memory_requests import (
    BranchBody,
    ChangeQuery,
    FileBody,
    ImportQuery,
    MergeBody,
    RestoreBody,
    TagBody,
)
from eunoe.server.wire.queries import NoQuery
from eunoe.server.wire.requests import Nothing


async def write_file(call: Call[NoQuery, FileBody]) -> object:
    """Write a file as one commit."""
    body = call.body
    changes = {call.path["path"]: body.text.encode()}
    return await write_files(call.runtime, call.path["agent_id"], changes, expected=body.expected, why=body.why)


async def delete_file(call: Call[ChangeQuery, Nothing]) -> object:
    """Delete a file as one commit; it stays in the history."""
    changes = {call.path["path"]: None}
    query = call.query
    return await write_files(call.runtime, call.path["agent_id"], changes, expected=query.expected, why=query.why)


async def restore(call: Call[NoQuery, RestoreBody]) -> object:
    """Make files as they were at a revision, in a new commit."""
    body = call.body
    agent_id = call.path["agent_id"]
    paths = body.paths or ()
    return await restore_files(call.runtime, agent_id, body.revision, paths, expected=body.expected, why=body.why)


async def create_tag(call: Call[NoQuery, TagBody]) -> object:
    """Give a revision a lasting name."""
    body = call.body
    agent_id = call.path["agent_id"]
    return await create_memory_tag(call.runtime, agent_id, body.name, body.revision, message=body.message)


async def create_branch(call: Call[NoQuery, BranchBody]) -> object:
    """Begin a branch at a revision."""
    return await create_memory_branch(call.runtime, call.path["agent_id"], call.body.name, call.body.revision)


async def delete_branch(call: Call[NoQuery, Nothing]) -> object:
    """Delete a branch; what was merged stays."""
    name = call.path["name"].rstrip("/")
    await delete_memory_branch(call.runtime, call.path["agent_id"], name)
    return {"message": f"Branch {name} deleted"}


async def merge(call: Call[NoQuery, MergeBody]) -> object:
    """Merge a branch into memory, and tell the paths that both sides changed."""
    body = call.body
    return await merge_memory(call.runtime, call.path["agent_id"], body.revision, policy=body.policy, why=body.why)


async def take_in(call: Call[ImportQuery, Nothing]) -> object:
    """Merge a git bundle, or a tar archive of plain files, into memory; nothing is written over."""
    data = await body_bytes(call.request, call.limits.body_bytes)
    query = call.query
    return await import_bytes(call.runtime, call.path["agent_id"], data, policy=query.policy, why=query.why)


_CHANGED: Final = "The commit that memory is at now, and the files that changed."
_FILE: Final = f"{MEMORY}/files/{{path:path}}"

ROUTES: Final[tuple[Route, ...]] = (
    route("PUT", _FILE, "Write a memory file (Eunoe)", write_file, query=NoQuery, body=FileBody, answer=_CHANGED),
    route(
        "DELETE", _FILE, "Delete a memory file (Eunoe)", delete_file, query=ChangeQuery, body=Nothing, answer=_CHANGED
    ),
    route(
        "POST",
        f"{MEMORY}/restore",
        "Restore memory files to a revision (Eunoe)",
        restore,
        query=NoQuery,
        body=RestoreBody,
        answer=_CHANGED,
    ),
    route(
        "POST",
        f"{MEMORY}/tags",
        "Tag a revision of memory (Eunoe)",
        create_tag,
        query=NoQuery,
        body=TagBody,
        answer="The name and the commit.",
    ),
    route(
        "POST",
        f"{MEMORY}/branches",
        "Begin a branch of memory (Eunoe)",
        create_branch,
        query=NoQuery,
        body=BranchBody,
        answer="The name and the commit.",
    ),
    route(
        "DELETE",
        f"{MEMORY}/branches/{{name:path}}",
        "Delete a branch of memory (Eunoe)",
        delete_branch,
        query=NoQuery,
        body=Nothing,
        answer="A message.",
    ),
    route(
        "POST",
        f"{MEMORY}/merge",
        "Merge a branch into memory (Eunoe)",
        merge,
        query=NoQuery,
        body=MergeBody,
        answer="What became of it, and the paths that both sides changed.",
    ),
    route(
        "POST",
        f"{MEMORY}/import",
        "Merge files from outside into memory (Eunoe)",
        take_in,
        query=ImportQuery,
        body=Nothing,
        answer="What became of it, and the paths that both sides have.",
    ),
)
