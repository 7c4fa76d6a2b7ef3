"""What the loop reaches the world by."""

from collections.abc import Awaitable, Callable, Container, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from eunoe.models.protocol import Models
from eunoe.runtime.homes import MemoryHomes
from eunoe.runtime.turn import Turn
from eunoe.state.events import Event, RunEnded
from eunoe.state.messages import Message
from eunoe.store.database import Database
from eunoe.tools.protocol import ToolResult


class Ports(Struct, frozen=True, kw_only=True):
    """What the loop reaches the world by.

    ``act`` runs those calls of a message that have effects and are not settled, in parallel, and returns their results
    by call id. ``patience`` says how long the calls of a message may wait for an answer (``None``: for ever).
    ``foresee`` is shown what will be told, and the end, if the commit that is being made succeeds.
    """

    database: Database
    models: Models
    homes: MemoryHomes
    act: Callable[[Turn, Message, Container[str]], Awaitable[dict[str, ToolResult]]]
    patience: Callable[[Turn, Message], timedelta | None]
    now: Callable[[], datetime]
    emit: Callable[[Event], None]
    foresee: Callable[[Sequence[Event], RunEnded], None]
