"""Memory tools on files: the same edits as on blocks, by label or path, one commit for each call."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import structs

from eunoe.memory.draft import Changed, Created
from eunoe.memory.file_blocks import spec_from
from eunoe.memory.tools import MemoryEdit, edit
from eunoe.memory.verdict import check_change
from eunoe.runtime.branch_edits import BranchStore
from eunoe.runtime.calls import parse_arguments
from eunoe.runtime.file_edits import Commit, FileStore, agent_commit
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.turn import Turn
from eunoe.state.blocks import Block, BlockSpec
from eunoe.state.messages import ToolCallPart
from eunoe.store import blocks, isolated
from eunoe.store.database import Transaction

LABELS = ("label", "path", "old_path", "new_path")
"""The arguments of the memory tools that name a block."""


def as_label(named: str, known: set[str]) -> str:
    """Return the label that a model means by a label, a path of a file, or a name under ``/memories/``.

    A bare name means the file in the prompt, if there is one of that name.
    """
    text = named.removeprefix("$MEMORY_DIR/").lstrip("/").removeprefix("memories/").removeprefix("memory/")
    text = text.removesuffix("/SKILL.md") if text.startswith("skills/") else text.removesuffix(".md")
    return f"system/{text}" if text not in known and f"system/{text}" in known else text


def _named(arguments: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    return {
        key: as_label(value, known) if key in LABELS and isinstance(value, str) else value
        for key, value in arguments.items()
    }


def _blocks(tx: Transaction, files: FileStore, turn: Turn, now: datetime) -> dict[str, Block]:
    """Return the files as blocks by label: those in the prompt by their rows, the others as they are read."""
    shown = {block.label: block for block in files.rows()}
    for label in files.labels():
        if label in shown:
            continue
        file = files.file(files.path_of(label))
        if file is not None:
            spec = structs.asdict(spec_from(file, label))
            shown[label] = Block(id=f"file:{label}", created_at=now, updated_at=now, **spec)
    if not turn.conversation.is_default:
        shown.update({block.label: block for block in isolated.of_conversation(tx, turn.conversation.id)})
    return shown


def _trailers(turn: Turn) -> dict[str, str]:
    told = {"Run": turn.run.id, "Model": turn.model.handle}
    if turn.asked is not None:
        told["Message"] = turn.asked.id
        if turn.asked.step_id is not None:
            told["Step"] = turn.asked.step_id
    return told


def _commit(tx: Transaction, turn: Turn, call: ToolCallPart, labels: list[str]) -> Commit:
    subject = f"{call.name}: {', '.join(labels)}" if labels else call.name
    return agent_commit(tx, turn.state.agent.id, subject, trailers=_trailers(turn), run_id=turn.run.id)


def edit_files(tx: Transaction, homes: MemoryHomes, turn: Turn, call: ToolCallPart, now: datetime) -> MemoryEdit:
    """Make the edit of one memory tool as one commit, on the files as they are now.

    A turn that works on a branch commits there. A conversation's own blocks are no files; edits of these change their
    rows. Raises what ``edit`` raises, and the verdict on files.
    """
    branch = turn.request.memory_branch
    files = BranchStore(tx, homes, branch, now) if branch else FileStore(tx, homes, turn.state.agent.id, now)
    known = _blocks(tx, files, turn, now)
    made = edit(call.name, _named(parse_arguments(call), set(known)), tuple(known.values()))
    by_id = {block.id: block for block in known.values()}
    own = {block.id for block in isolated.of_conversation(tx, turn.conversation.id)}
    edits: list[tuple[str | None, Block | BlockSpec | None]] = []
    for change in made.changes:
        if isinstance(change, Created):
            edits.append((None, change.spec))
            continue
        block = by_id[change.block_id]
        if isinstance(change, Changed):
            changed = check_change(block, change.changes)
            if block.id in own:
                actor = f"agent:{files.agent_id}"
                blocks.update(tx, changed, expected_revision=block.revision, actor=actor, run_id=turn.run.id, now=now)
                continue
            edits.append((block.label, changed))
            by_id[block.id] = changed
        else:
            edits.append((block.label, None))
    if edits:
        labels = list(dict.fromkeys(old or (block.label if block else "") for old, block in edits))
        files.change_blocks(edits, _commit(tx, turn, call, labels))
    return made
