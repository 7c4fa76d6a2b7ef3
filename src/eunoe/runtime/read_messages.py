"""Reading a page of a stored message, which ``conversation_search`` does when it is given the message's id."""

from eunoe.state.errors import NotFound
from eunoe.store import messages
from eunoe.store.database import Database, Transaction
from eunoe.tools.reading import Reading, tell_page


async def read_page(database: Database, agent_id: str, reading: Reading) -> str:
    """Return a page of one of the agent's messages as the model reads it.

    Raises ``NotFound`` (also for a message of another agent) and ``InvalidInput`` for an offset beyond its end.
    """

    def look(tx: Transaction) -> str:
        message = messages.get(tx, reading.message_id)
        if message.agent_id != agent_id:
            raise NotFound("Message", reading.message_id)
        return tell_page(message, reading)

    return await database.read(look)
