"""Preview: the exact request that a message would send to the model. Nothing is stored."""

from typing import Final

from msgspec import structs

from eunoe.models.protocol import Payload
from eunoe.runtime.opening import open_turn
from eunoe.runtime.payload_view import fitted
from eunoe.runtime.requests import turn_request
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.runtime.skill_places import find_outside
from eunoe.runtime.turn import Turn, TurnRequest
from eunoe.state.errors import InvalidInput
from eunoe.state.ids import new_id
from eunoe.store.database import Transaction


class _Opened(Exception):
    """Carries an opened turn out of its transaction, which is thereby taken back."""

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn: Final = turn


async def preview(runtime: Runtime, request: TurnRequest) -> Payload:
    """Return the first request of the turn that ``request`` would start now.

    The turn is opened as any other, and the transaction is taken back: what is shown is what would be sent, but for a
    compaction that would come before it. Raises as a turn's start does, and ``InvalidInput`` for an answer to an
    approval request.
    """
    if request.reply is not None:
        raise InvalidInput(
            "A preview takes messages only: what follows an answer to an approval request depends on what the approved "
            "tools return.",
            field="approvals",
        )
    outside = await find_outside(runtime.settings.skills_folder, request.project)
    unsent = tuple(structs.replace(message, otid=None) for message in request.messages)

    def opening(tx: Transaction) -> None:
        raise _Opened(
            open_turn(
                tx,
                structs.replace(request, messages=unsent),
                run_id=new_id("run"),
                owner=runtime.db.owner,
                is_running=runtime.is_running,
                models=runtime.models,
                homes=runtime.homes,
                outside=outside,
                now=utc_now(),
            )
        )

    try:
        await runtime.db.write(opening)
    except _Opened as opened:
        return runtime.models.payload(fitted(turn_request(opened.turn)))
    raise AssertionError("an opening ends with its turn or an error")
