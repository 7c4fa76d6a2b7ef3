"""What an agent hears of its mirror: once that a person must act, and once that it is mended."""

from datetime import datetime
from typing import Final

from msgspec import structs

from eunoe.state.agents import AgentState
from eunoe.state.ids import new_id
from eunoe.state.messages import Message, TextPart
from eunoe.state.mirrors import MirrorFault
from eunoe.store import memory_mirrors
from eunoe.store.database import Transaction

_WHY: Final[dict[MirrorFault, str]] = {
    "access": "it does not accept the credentials",
    "missing": "there is no repository at its address any more",
    "diverged": "it has commits that are not in memory, and nothing is overwritten",
    "rejected": "a rule there refuses them",
    "program": "the git program is missing on this machine",
}
_OTHER: Final = "git cannot push to it"
# The words of the remote are left out on purpose: whoever runs it must not speak to the model.


def mirror_notice(
    tx: Transaction, state: AgentState, conversation_id: str, *, run_id: str, now: datetime
) -> Message | None:
    """Return the message that tells an agent of its mirror, and record it as told; ``None`` when there is no news."""
    if state.memory is None:
        return None
    mirror = memory_mirrors.get(tx, state.agent.id)
    if mirror is None:
        return None
    failure = mirror.failure
    if failure is not None and failure.needs_person and not mirror.told:
        said = _failed(failure.fault, state.agent.id)
    elif failure is None and mirror.pushed_refs is not None and mirror.told:
        said = "The mirror of memory has every commit again."
    else:
        return None
    memory_mirrors.put(tx, structs.replace(mirror, told=not mirror.told))
    return Message(
        id=new_id("message"),
        agent_id=state.agent.id,
        conversation_id=conversation_id,
        role="system",
        parts=(TextPart(text=f"<memory_mirror>\n{said}\n</memory_mirror>"),),
        run_id=run_id,
        created_at=now,
        meta={"memory_mirror": "works" if failure is None else failure.fault},
    )


def _failed(fault: MirrorFault, agent_id: str) -> str:
    return (
        f"New commits of memory no longer reach its mirror: {_WHY.get(fault, _OTHER)}. Memory itself works as before "
        f"and nothing is lost, but there is no newer copy elsewhere until a person acts. "
        f"`eunoe memory mirror show {agent_id}` tells them what to do. This is said once."
    )
