"""Checks of memory repositories for ``eunoe doctor``. They change nothing."""

from collections.abc import Iterator
from typing import Final

from eunoe.cli.checks import Check, failed, ok, warning
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.status import status
from eunoe.runtime.following import standing
from eunoe.runtime.memory_status import CONFLICTS, told
from eunoe.runtime.mirrors import mirror_shown
from eunoe.runtime.settings import Settings
from eunoe.state.errors import EunoeError
from eunoe.state.memory import MemoryHead
from eunoe.state.mirrors import Mirror
from eunoe.store import agents, memory_heads, memory_mirrors
from eunoe.store.database import Transaction

_NAMED: Final = 20
"""Agents that are told one by one; of more, only how many there are."""


def memory_checks(tx: Transaction, settings: Settings) -> Iterator[Check]:
    """Check the repository of each agent whose memory is files: readable, published, committed, nothing unread."""
    yield from _of_nobody(tx, settings)
    heads = memory_heads.everyone(tx)
    if not heads:
        return
    mirrors = {mirror.agent_id: mirror for mirror in memory_mirrors.everyone(tx)}
    looked = [_look(settings, head, mirrors.get(head.agent_id)) for head in heads]
    wrong = [check for check in looked if check is not None]
    yield from wrong[:_NAMED]
    if len(wrong) > _NAMED:
        found = f"{len(wrong) - _NAMED} more agents"
        yield warning("memory files", found, "Ask for each with `eunoe memory status`.")
    if not wrong:
        yield ok("memory files", f"{len(heads)} repositories, everything committed")


def _of_nobody(tx: Transaction, settings: Settings) -> Iterator[Check]:
    """Tell folders of agents that the store does not know: it is an older copy, or died while it made an agent."""
    folder = settings.memory_folder
    found = sorted(path.name for path in folder.glob("agent-*") if path.is_dir()) if folder.exists() else []
    known = agents.known(tx, found)
    lost = [name for name in found if name not in known]
    if lost:
        named = ", ".join(lost[:_NAMED])
        advice = f"Move them out of {folder} if they are nobody's, or bring back the store that they belong to."
        yield warning("memory of nobody", f"{len(lost)} folders of agents that are not in the store: {named}", advice)


def _look(settings: Settings, head: MemoryHead, mirror: Mirror | None) -> Check | None:
    name = f"memory of {head.agent_id}"
    try:
        repository = MemoryRepository.open(settings.memory_folder / head.agent_id)
        _, how = standing(repository, head.revision)
        tree = status(repository)
        shown = mirror_shown(repository, mirror) if mirror else None
        conflicts = tuple(entry.path for entry in repository.snapshot(head.revision).below(CONFLICTS))
    except EunoeError as error:
        return failed(name, error.message)
    said = [*told(head, conflicts, shown, unpublished=how == "behind"), *tree.sentences()]
    if shown is not None and shown.state == "retrying" and shown.said is not None:
        said.append(shown.said)
    return warning(name, " ".join(said), f"See `eunoe memory status {head.agent_id}`.") if said else None
