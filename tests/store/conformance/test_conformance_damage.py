"""Rows that something else than Eunoe has changed: they are refused with a sentence, and never half read."""

import pytest
from store_examples import NOW, Store, a_message, stored_conversation

from eunoe.state.errors import StoreError
from eunoe.store import conversations, messages, texts


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("role = 'nobody'", "role is 'nobody'"),
        ("role = x'00'", "role holds a value of type bytes"),
        ("created_at = 'yesterday'", "created_at holds a value of type str"),
        ("created_at = 9e300", "created_at holds a value of type float"),
        ("created_at = 9223372036854775807", "the table messages is damaged"),
        ("parts = x'00'", "parts holds a value of type bytes"),
        ("parts = '[{'", "the table messages is damaged"),
        ('parts = \'[{"type": "song"}]\'', "the table messages is damaged"),
        ("run_id = x'00'", "run_id holds a value of type bytes"),
        ("parts = CAST(x'5bff5d' AS TEXT)", "a column parts"),
    ],
)
def test_a_garbled_message_is_refused_by_what_is_wrong_with_it(store: Store, damage: str, told: str) -> None:
    conversation = store.write(stored_conversation)
    message = a_message(conversation, "one")
    store.write(messages.append, conversation.id, [message], NOW)
    store.write(lambda tx: tx.execute(f"UPDATE messages SET {damage} WHERE id = ?", (message.id,)))  # noqa: S608
    with pytest.raises(StoreError, match=told) as refused:
        store.read(conversations.window, conversation)
    assert "Restore the store from a backup" in refused.value.message


@pytest.mark.parametrize("damage", ["next_position = 'last'", "is_default = 'yes'", "compiled = '{}'"])
def test_a_garbled_conversation_is_refused(store: Store, damage: str) -> None:
    conversation = store.write(stored_conversation)
    store.write(lambda tx: tx.execute(f"UPDATE conversations SET {damage} WHERE id = ?", (conversation.id,)))  # noqa: S608
    with pytest.raises(StoreError, match="the table conversations is damaged"):
        store.read(conversations.get, conversation.id)


@pytest.mark.parametrize("damage", ["'other'", "x'00'", "7"])
def test_a_garbled_text_is_refused(store: Store, damage: str) -> None:
    key = store.write(texts.put, "You are kind.")
    store.write(lambda tx: tx.execute(f"UPDATE texts SET text = {damage}"))  # noqa: S608
    with pytest.raises(StoreError, match=f"The stored text {key} is damaged"):
        store.read(texts.get, key)
