"""Block rows follow memory files: from one commit to the next, whoever made it (I7).

The recorded head H is the commit that the rows show; main is at R. An edit records its commit in the store first and
moves main after; a commit from outside moves main first. So

- R before H: a crash came in between; main is moved on;
- H before R: the rows follow, if the files of R are such as may be; if not, H stays and it is told;
- apart: both are merged; what collides is kept in both forms.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import structs

from eunoe.memory.constraints import config_of
from eunoe.memory.file_blocks import changes_from, spec_from
from eunoe.memory.file_problems import FileProblem
from eunoe.memory.file_rules import check_contents
from eunoe.memory.front_matter import MemoryFile, parse
from eunoe.memory.git_library import Author
from eunoe.memory.judgement import file_problems
from eunoe.memory.locks import writing
from eunoe.memory.merge import MergeConflict, merge
from eunoe.memory.paths import INDEX, in_prompt, is_index, label_of, layout_of, memory_folders
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.settle import merge_settled
from eunoe.memory.snapshot import PathChange, changed_paths
from eunoe.memory.trailers import commit_message
from eunoe.memory.tree import TreeEntry
from eunoe.memory.verdict import check_change
from eunoe.memory.working_tree import INDEX_WAIT, fast_forward_working_tree, followed_commit, heal_working_tree
from eunoe.runtime.homes import MemoryHomes
from eunoe.state.blocks import Block
from eunoe.state.errors import Conflict, NotFound, StaleRevision, StoreError, StoreLocked
from eunoe.state.ids import new_id
from eunoe.state.memory import MemoryHead, UnreadCommit
from eunoe.store import blocks, memory_heads
from eunoe.store.database import Transaction

_log: Final = logging.getLogger(__name__)

HARNESS: Final = Author("Eunoe", "eunoe@eunoe.local")
"""Who signs commits that no person and no agent asked for: merges of what both did."""

PROBLEMS_TOLD: Final = 5

Standing = Literal["same", "behind", "ahead", "apart"]


def standing(repository: MemoryRepository, recorded: str) -> tuple[str | None, Standing]:
    """Return where main is, and how it stands to the recorded head."""
    main = repository.head()
    if main == recorded:
        return main, "same"
    if main is None or repository.is_ancestor(main, recorded):
        return main, "behind"
    return main, "ahead" if repository.is_ancestor(recorded, main) else "apart"


def publish(repository: MemoryRepository, recorded: str, seconds: float = INDEX_WAIT) -> None:
    """Move main to the recorded head and bring the working tree there; uncommitted edits stay as they are.

    Does nothing when main is there already, or elsewhere: then the store follows or merges at the next opportunity.
    Raises ``StoreLocked`` when another git process is at work for so many seconds; main is moved at the next look then.
    """
    with writing(repository.git_folder):
        main, how = standing(repository, recorded)
        if how == "behind":
            # First what a push or a crash left undone: the next step knows of nothing before main.
            heal_working_tree(repository, seconds=seconds)
            try:
                report = fast_forward_working_tree(
                    repository,
                    main,
                    recorded,
                    begin=lambda: repository.move_head(main, recorded, seconds=seconds),
                    seconds=seconds,
                )
            except StaleRevision:
                return  # somebody else's commit came first; the next look merges
            if report.kept:
                _log.warning("uncommitted edits stay in the memory of %s: %s", repository.path.name, report.kept)
        elif how == "same":
            heal_working_tree(repository, seconds=seconds)
        repository.release_recorded()


def keep_and_publish(tx: Transaction, repository: MemoryRepository, recorded: str) -> None:
    """Name a commit that this transaction records, so that nobody's ``git gc`` takes it, and publish it afterwards."""
    repository.keep_recorded(recorded)
    publish_after(tx, repository, recorded)


def publish_after(tx: Transaction, repository: MemoryRepository, recorded: str) -> None:
    """Publish once the transaction is committed; a crash in between is made up for at the next look."""
    tx.after_commit(lambda: _publish_or_later(repository, recorded))


def _publish_or_later(repository: MemoryRepository, recorded: str) -> None:
    # Who waited in vain is not waited for again at each look: a git that crashed leaves its lock for good.
    seconds = 0.0 if repository.publication_waits else INDEX_WAIT
    try:
        publish(repository, recorded, seconds)
        repository.publication_waits = False
    except StoreLocked as error:
        if not repository.publication_waits:
            _log.warning("memory of %s is published later: %s", repository.path.name, error.message)
        repository.publication_waits = True


def problems_of(repository: MemoryRepository, commit: str, since: str | None) -> list[FileProblem]:
    """Return what is wrong with the files of a commit; those that an accepted commit has as well are not read again."""
    before = repository.snapshot(since) if since else None
    after = repository.snapshot(commit)
    changes = changed_paths(before, after)
    sized = repository.with_sizes([change.after for change in changes if change.after])

    def read(entry: TreeEntry) -> bytes:
        return repository.read(entry.blob_id)

    if before is not None and _same_names(changes) and config_of(after.entries) is None:
        layout = 2 if after.entry(INDEX) else 1
        folders = memory_folders([entry.path for entry in after.entries]) if layout == 2 else ()
        return check_contents(sized, layout, folders, read)
    new = {entry.path: entry for entry in sized}
    entries = [new.get(entry.path, entry) for entry in after.entries]
    return file_problems(entries, read, since=before.entries if before else ())


def _same_names(changes: Sequence[PathChange]) -> bool:
    return all(change.before and change.after for change in changes)


def _reason(problems: Sequence[FileProblem]) -> str:
    told = "; ".join(problem.sentence for problem in problems[:PROBLEMS_TOLD])
    more = len(problems) - PROBLEMS_TOLD
    return f"{told}; and {more} more" if more > 0 else told


def head_at(repository: MemoryRepository, agent_id: str, commit: str) -> MemoryHead:
    """Return the head to record for a commit: what is in it beside the files whose text is in the prompt."""
    paths = [entry.path for entry in repository.snapshot(commit).entries]
    layout = layout_of(paths)
    return MemoryHead(
        agent_id=agent_id,
        revision=commit,
        layout=layout,
        names=tuple(path for path in paths if not in_prompt(path, layout)),
        folders=memory_folders(paths) if layout == 2 else (),
    )


def read_file(repository: MemoryRepository, path: str, blob_id: str, layout: Literal[1, 2]) -> MemoryFile:
    """Return a memory file of an accepted commit. Raises ``StoreError`` when it cannot be read after all."""
    file = parse(repository.read(blob_id), path, index=is_index(path, layout))
    if isinstance(file, FileProblem):
        raise StoreError(f"A memory file that was accepted cannot be read: {file.sentence}")
    return file


class _Import:
    """Rows brought from one commit to the next."""

    def __init__(self, tx: Transaction, agent_id: str, actor: str, run_id: str | None, now: datetime, why: str) -> None:
        self._tx = tx
        self._agent_id = agent_id
        self._actor = actor
        self._run_id = run_id
        self._now = now
        self._why = why

    def row(self, label: str) -> Block | None:
        try:
            return blocks.by_label(self._tx, self._agent_id, label)
        except NotFound:
            return None

    def put(self, label: str, file: MemoryFile) -> None:
        row = self.row(label)
        if row is None:
            spec = spec_from(file, label)
            made = Block(id=new_id("block"), created_at=self._now, updated_at=self._now, **structs.asdict(spec))
            blocks.insert(self._tx, made, actor=self._actor, run_id=self._run_id, why=self._why)
            blocks.attach(self._tx, self._agent_id, made.id)
            return
        changes = changes_from(file, row)
        # The verdict was given on the files; here read_only may change together with the rest.
        writable = structs.replace(row, read_only=False)
        changed = structs.replace(check_change(writable, changes), read_only=file.read_only)
        self._update(row, changed)

    def rename(self, old: str, new: str) -> None:
        row = self.row(old)
        if row is not None and self.row(new) is None:
            self._update(row, structs.replace(row, label=new))

    def drop(self, label: str) -> None:
        row = self.row(label)
        if row is not None:
            blocks.delete(self._tx, row.id)

    def _update(self, row: Block, changed: Block) -> None:
        blocks.update(
            self._tx,
            changed,
            expected_revision=row.revision,
            actor=self._actor,
            run_id=self._run_id,
            now=self._now,
            why=self._why,
        )


def _moved(before: MemoryHead | None, commit: str, changes: Sequence[PathChange]) -> MemoryHead | None:
    """Return the head of a commit with the names of the one before, which are then not gathered or stored again."""
    if before is None or not _same_names(changes):
        return None
    return structs.replace(before, revision=commit, unread=None)


def import_commit(
    tx: Transaction,
    repository: MemoryRepository,
    agent_id: str,
    before: MemoryHead | None,
    commit: str,
    *,
    actor: str,
    run_id: str | None,
    now: datetime,
    why: str = "",
) -> MemoryHead:
    """Bring the agent's block rows to a commit whose files are as they may be, and record it as the head.

    A file that was only moved keeps its block. Only files that changed are read.
    """
    old = repository.snapshot(before.revision) if before else None
    new = repository.snapshot(commit)
    moved = _moved(before, commit, changed_paths(old, new))
    head = moved or head_at(repository, agent_id, commit)
    rows = _Import(tx, agent_id, actor, run_id, now, why)
    if before is not None and before.layout != head.layout:
        for entry in repository.snapshot(before.revision).entries:
            if in_prompt(entry.path, before.layout) and not in_prompt(entry.path, head.layout):
                rows.drop(label_of(entry.path) or "")
        old = None
    changes = [change for change in changed_paths(old, new) if in_prompt(change.path, head.layout)]
    _follow_moves(rows, changes)
    for change in changes:
        label = label_of(change.path)
        if label is not None and change.after is None:
            rows.drop(label)
    for change in changes:
        label = label_of(change.path)
        if label is not None and change.after is not None:
            rows.put(label, read_file(repository, change.path, change.after.blob_id, head.layout))
    if moved:
        memory_heads.move(tx, agent_id, commit)
    else:
        memory_heads.put(tx, head)
    return head


def _follow_moves(rows: _Import, changes: Sequence[PathChange]) -> None:
    gone = {change.before.blob_id: change.path for change in changes if change.before and not change.after}
    for change in changes:
        source = gone.get(change.after.blob_id) if change.after and not change.before else None
        old, new = label_of(source) if source else None, label_of(change.path)
        if old is not None and new is not None:
            rows.rename(old, new)


def both_kept(conflicts: Sequence[MergeConflict], theirs: str) -> dict[str, bytes | None]:
    """Return changes that settle a merge: each path as we have it, and theirs beside it under ``conflicts/``."""
    kept: dict[str, bytes | None] = {}
    for conflict in conflicts:
        here = conflict.ours if conflict.ours is not None else conflict.theirs
        if here is not None:
            kept[conflict.path] = here
        if conflict.ours is not None and conflict.theirs is not None:
            kept[f"conflicts/{theirs[:10]}/{conflict.path}"] = conflict.theirs
    return kept


def _merge(repository: MemoryRepository, ours: str, theirs: str, now: datetime) -> str:
    message = commit_message("Merge changes made apart", f"{ours[:10]} and {theirs[:10]} both changed memory.", {})
    result = merge(repository, ours, theirs, author=HARNESS, message=message, when=now)
    if result.commit is not None:
        return result.commit
    paths = ", ".join(conflict.path for conflict in result.conflicts)
    why = (
        f"Both sides changed {paths}. Each file is as {ours[:10]} has it; the form of {theirs[:10]} is kept under "
        f"conflicts/{theirs[:10]}/. Bring the two together, and delete the second."
    )
    return merge_settled(
        repository,
        ours,
        theirs,
        both_kept(result.conflicts, theirs),
        author=HARNESS,
        message=commit_message("Merge changes that collide, and keep both", why, {}),
        when=now,
    )


def follow(tx: Transaction, homes: MemoryHomes, agent_id: str, now: datetime) -> None:
    """Bring the agent's rows to the newest commit of its memory that is good, and heal what a crash left.

    Does nothing for an agent whose memory is no files. While nothing is committed, it costs the same however many files
    there are.
    """
    recorded = memory_heads.standing(tx, agent_id)
    if recorded is None:
        return
    revision, unread = recorded
    repository = homes.repository(agent_id)
    main, how = standing(repository, revision)
    if how == "behind" or main is None:
        publish_after(tx, repository, revision)
    elif how == "same":
        if followed_commit(repository) != main:
            publish_after(tx, repository, revision)  # the working tree was left behind
        if unread:
            memory_heads.tell_unread(tx, agent_id, None)
    else:
        head = require_files(memory_heads.get(tx, agent_id), agent_id)
        if head.unread is None or head.unread.revision != main:
            _take_in(tx, repository, head, main, how, now)


def _take_in(
    tx: Transaction, repository: MemoryRepository, head: MemoryHead, main: str, how: Standing, now: datetime
) -> None:
    """Bring the rows to main, which moved on from the recorded head or apart from it, or tell why it cannot be read."""
    new, apart = main, how == "apart"
    reason = _reason(problems_of(repository, main, head.revision))
    if apart and not reason:
        new = _merge(repository, head.revision, main, now)
        reason = _reason(problems_of(repository, new, head.revision))
        reason = f"merged with {head.revision[:10]}, {reason}" if reason else ""
    if reason:
        memory_heads.tell_unread(tx, head.agent_id, UnreadCommit(revision=main, reason=reason))
        return
    import_commit(tx, repository, head.agent_id, head, new, actor="files", run_id=None, now=now)
    if apart:
        keep_and_publish(tx, repository, new)
    else:
        publish_after(tx, repository, new)


def is_behind(homes: MemoryHomes, recorded: MemoryHead | None) -> bool:
    """Say whether the rows have to follow before they are read: a look at one reference."""
    if recorded is None:
        return False
    main = homes.repository(recorded.agent_id).head()
    return main != recorded.revision and (recorded.unread is None or recorded.unread.revision != main)


def lags(repository: MemoryRepository, recorded: str) -> bool:
    """Say whether rows, main and working tree are at different commits."""
    return not recorded == repository.head() == followed_commit(repository)


def require_files(head: MemoryHead | None, agent_id: str) -> MemoryHead:
    """Return the head of an agent whose memory is files. Raises ``Conflict`` for another."""
    if head is None:
        raise Conflict(
            f"The memory of agent {agent_id} is blocks, not files. Add the tag 'git-memory-enabled' to the agent to "
            f"keep it as files with history (in the terminal: eunoe memory convert {agent_id} --to git).",
            agent_id=agent_id,
        )
    return head
