"""Checks of memory repositories for ``eunoe doctor``. They change nothing."""

from collections.abc import Iterator
from typing import Final

from eunoe.cli.checks import Check, failed, ok, warning
from eunoe.memory.repository import MemoryRepository
from eunoe.memory.status import status
from eunoe.runtime.following import standing
from eunoe.runtime.memory_status import CONFLICTS, told
from eunoe.runtime.settings import Settings
from eunoe.state.errors import EunoeError
from eunoe.state.memory import MemoryHead
from eunoe.store import memory_heads
from eunoe.store.database import Transaction

_NAMED: Final = 20
"""Agents that are told one by one; of more, only how many there are."""


def memory_checks(tx: Transaction, settings: Settings) -> Iterator[Check]:
    """Check the repository of each agent whose memory is files: readable, published, committed, nothing unread."""
    heads = memory_heads.everyone(tx)
    if not heads:
        return
    wrong = [check for head in heads if (check := _look(settings, head)) is not None]
    yield from wrong[:_NAMED]
    if len(wrong) > _NAMED:
        found = f"{len(wrong) - _NAMED} more agents"
        yield warning("memory files", found, "Ask for each with `eunoe memory status`.")
    if not wrong:
        yield ok("memory files", f"{len(heads)} repositories, everything committed")


def _look(settings: Settings, head: MemoryHead) -> Check | None:
    name = f"memory of {head.agent_id}"
    try:
        repository = MemoryRepository.open(settings.memory_folder / head.agent_id)
        _, how = standing(repository, head.revision)
        tree = status(repository)
        conflicts = tuple(entry.path for entry in repository.snapshot(head.revision).below(CONFLICTS))
    except EunoeError as error:
        return failed(name, error.message)
    said = (*told(head, conflicts, unpublished=how == "behind"), *tree.sentences())
    return warning(name, " ".join(said), f"See `eunoe memory status {head.agent_id}`.") if said else None
