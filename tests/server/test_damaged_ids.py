"""Ids in the store that something else than Eunoe has changed."""

import pytest

from eunoe.server.wire.envelope import otid_for
from eunoe.state.errors import StoreError


@pytest.mark.parametrize("message_id", ["", "message", "message-", "message-nonsense", "7"])
def test_a_damaged_id_is_told_in_a_sentence(message_id: str) -> None:
    with pytest.raises(
        StoreError, match=r"id of a message in the store is damaged: .* Restore the store from a backup"
    ):
        otid_for(message_id, 0)
