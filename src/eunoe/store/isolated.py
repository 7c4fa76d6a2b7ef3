"""Blocks that a conversation has for itself in place of the agent's blocks of the same labels."""

from eunoe.state.blocks import Block
from eunoe.store import blocks
from eunoe.store.database import Transaction


def put(tx: Transaction, conversation_id: str, block: Block) -> None:
    """Give a conversation a stored block of its own."""
    tx.execute(
        "INSERT INTO conversation_blocks (conversation_id, block_id, label) VALUES (?, ?, ?)",
        (conversation_id, block.id, block.label),
    )


def of_conversation(tx: Transaction, conversation_id: str) -> tuple[Block, ...]:
    """Return a conversation's own blocks by label, in code point order."""
    rows = tx.rows("SELECT block_id FROM conversation_blocks WHERE conversation_id = ?", (conversation_id,))
    return tuple(sorted(blocks.many(tx, [row[0] for row in rows]), key=lambda block: block.label))


def in_place_of(shared: tuple[Block, ...], own: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the blocks that a conversation sees: the agent's, with its own in place of those of the same label."""
    mine = {block.label: block for block in own}
    return tuple(mine.get(block.label, block) for block in shared)


def delete_of(tx: Transaction, conversation_id: str) -> None:
    """Delete a conversation's own blocks for good."""
    for block in of_conversation(tx, conversation_id):
        blocks.delete(tx, block.id)
