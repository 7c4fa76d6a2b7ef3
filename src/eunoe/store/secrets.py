"""Secrets of agents. Values are encrypted; ``reveal`` is the one function that reads them (I14)."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from eunoe.state.agents import Secret
from eunoe.state.ids import new_id
from eunoe.store.cipher import Cipher
from eunoe.store.database import Transaction
from eunoe.store.presence import require_agent
from eunoe.store.rows import marks, micros


def put(tx: Transaction, agent_id: str, values: Mapping[str, str], cipher: Cipher, now: datetime) -> None:
    """Give an agent these secrets in place of those that it has; a key that stays keeps its id.

    Raises ``NotFound`` for the agent.
    """
    require_agent(tx, agent_id)
    stored = {secret.key: secret for secret in of_agents(tx, [agent_id]).get(agent_id, ())}
    for key in stored.keys() - values.keys():
        tx.execute("DELETE FROM secrets WHERE agent_id = ? AND key = ?", (agent_id, key))
    for key, value in values.items():
        sealed = cipher.seal(value, belongs_to=_belongs_to(agent_id, key))
        if key in stored:
            tx.execute(
                "UPDATE secrets SET value = ?, updated_at = ? WHERE agent_id = ? AND key = ?",
                (sealed, micros(now), agent_id, key),
            )
        else:
            tx.execute(
                "INSERT INTO secrets (id, agent_id, key, description, value, created_at, updated_at) "
                "VALUES (?, ?, ?, NULL, ?, ?, ?)",
                (new_id("secret"), agent_id, key, sealed, micros(now), micros(now)),
            )


def of_agents(tx: Transaction, agent_ids: Sequence[str]) -> dict[str, tuple[Secret, ...]]:
    """Return the secrets (without values) of each of these agents that has some, by key."""
    if not agent_ids:
        return {}
    rows = tx.rows(
        f"SELECT agent_id, id, key, description FROM secrets WHERE agent_id IN ({marks(agent_ids)})", agent_ids
    )
    held: dict[str, tuple[Secret, ...]] = {}
    for agent_id, secret_id, key, description in sorted(rows, key=lambda row: row[2]):
        held[agent_id] = (*held.get(agent_id, ()), Secret(id=secret_id, key=key, description=description))
    return held


def list(tx: Transaction, agent_id: str) -> tuple[Secret, ...]:  # noqa: A001 -- read as secrets.list
    """Return an agent's secrets by key, without values."""
    return of_agents(tx, [agent_id]).get(agent_id, ())


def reveal(tx: Transaction, agent_id: str, cipher: Cipher) -> dict[str, str]:
    """Return the values of an agent's secrets by key. Raises ``StoreError`` when the key for secrets is another one."""
    rows = tx.rows("SELECT key, value FROM secrets WHERE agent_id = ?", (agent_id,))
    return {key: cipher.unseal(sealed, belongs_to=_belongs_to(agent_id, key)) for key, sealed in sorted(rows)}


def _belongs_to(agent_id: str, key: str) -> str:
    return f"{agent_id}\n{key}"
