"""What an update of a row costs does not grow with the rows that refer to it (I6).

The cost is counted in instructions of SQLite's machine, which are the same on every run and every machine.
"""

import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import structs

from eunoe.state.agents import Agent
from eunoe.state.blocks import Block
from eunoe.state.conversations import Conversation
from eunoe.state.messages import Message, TextPart
from eunoe.store import agents, blocks, conversations, messages
from eunoe.store.sqlite import open_sqlite
from eunoe.store.sqlite_threads import SqliteTransaction

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FEW, MANY = 1, 200


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncGenerator[sqlite3.Connection, None]:
    await (await open_sqlite(tmp_path / "eunoe.db")).aclose()
    with closing(sqlite3.connect(tmp_path / "eunoe.db", isolation_level=None)) as opened:
        opened.execute("PRAGMA foreign_keys = ON")
        yield opened


def instructions(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    connection.set_progress_handler(count, 1)
    try:
        work()
    finally:
        connection.set_progress_handler(None, 0)
    return counted


def an_agent(tx: SqliteTransaction, name: str) -> Agent:
    agent = Agent(id=f"agent-{name}", name=name, created_at=NOW, updated_at=NOW, system="", model="scripted/demo")
    agents.insert(tx, agent)
    return agent


@pytest.mark.anyio
async def test_a_block_costs_the_same_to_change_however_many_agents_share_it(connection: sqlite3.Connection) -> None:
    tx = SqliteTransaction(connection, writes=True)
    costs: list[int] = []
    for shared_by in (FEW, MANY):
        block = Block(id=f"block-{shared_by}", label="human", value="", created_at=NOW, updated_at=NOW)
        blocks.insert(tx, block)
        for number in range(shared_by):
            blocks.attach(tx, an_agent(tx, f"{shared_by}-{number}").id, block.id)
        changed = structs.replace(block, value="Likes maps.")
        costs.append(
            instructions(
                connection,
                lambda changed=changed: blocks.update(
                    tx, changed, expected_revision=1, actor="user", run_id=None, now=NOW
                ),
            )
        )
        assert blocks.get(tx, block.id).value == "Likes maps."
    assert costs[1] <= costs[0] * 1.1


@pytest.mark.anyio
async def test_agent_and_conversation_cost_the_same_to_change_however_many_messages_they_have(
    connection: sqlite3.Connection,
) -> None:
    tx = SqliteTransaction(connection, writes=True)
    costs: list[tuple[int, int]] = []
    for stored in (FEW, MANY):
        agent = an_agent(tx, str(stored))
        conversation = Conversation(
            id=f"conv-{stored}",
            agent_id=agent.id,
            is_default=True,
            system_message_id=f"message-system-{stored}",
            created_at=NOW,
            updated_at=NOW,
        )
        conversations.insert(tx, conversation)
        batch = [
            Message(
                id=f"message-{stored}-{number}",
                agent_id=agent.id,
                conversation_id=conversation.id,
                role="user",
                parts=(TextPart(text="hello"),),
                created_at=NOW,
            )
            for number in range(stored)
        ]
        messages.append(tx, conversation.id, batch, NOW)
        renamed = structs.replace(agent, name="another")
        moved = structs.replace(conversation, window_from=1000)
        costs.append(
            (
                instructions(connection, lambda renamed=renamed: agents.update(tx, renamed, now=NOW)),
                instructions(connection, lambda moved=moved: conversations.update(tx, moved, NOW)),
            )
        )
        assert agents.get(tx, agent.id).name == "another"
        assert conversations.get(tx, conversation.id).window_from == 1000
    few, many = costs
    assert many[0] <= few[0] * 1.1
    assert many[1] <= few[1] * 1.1
