"""What every message of the wire has: ids, time, type."""

import re
from typing import Any, Final

from eunoe.server.wire.dates import second
from eunoe.state.errors import StoreError
from eunoe.state.messages import Message

_UUID: Final = re.compile(r"[a-z_]+-(?P<high>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{10})(?P<low>[0-9a-f]{2})")


def otid_for(message_id: str, part: int) -> str:
    """Return the id that tells apart what one stored message is shown as.

    The low seven bits of the stored message's uuid give way to the index of the first part that is shown.
    """
    found = _UUID.fullmatch(message_id)
    if found is None:
        raise StoreError(
            f"The id of a message in the store is damaged: {message_id!r}. Nothing was changed. Restore the store from "
            f"a backup."
        )
    return f"{found['high']}{(int(found['low'], 16) & ~0x7F) | (part & 0x7F):02x}"


def envelope(message: Message, kind: str, part: int = 0, *, name: str | None = None) -> dict[str, Any]:
    """Return the fields that every message of the wire has, in the wire's order."""
    return {
        "id": message.id,
        "date": second(message.created_at),
        "name": name if name is not None else message.name,
        "message_type": kind,
        "otid": message.otid if message.otid and part == 0 else otid_for(message.id, part),
        "sender_id": message.sender_id,
        "step_id": message.step_id,
        "is_err": message.meta.get("is_err"),
        "seq_id": None,
        "run_id": message.run_id,
    }
