"""Compiling a conversation's prompt by call, and reading the one that its next request carries."""

from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.opening import state_in
from eunoe.runtime.prompts import conversation_model, current_prompt, refresh_prompt, system_message
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.state.messages import Message
from eunoe.store.database import Transaction


async def recompile(
    runtime: Runtime,
    agent_id: str,
    conversation_id: str | None = None,
    *,
    update_timestamp: bool = False,
    dry_run: bool = False,
) -> str:
    """Compile the prompt afresh and return its text; store it unless ``dry_run``.

    ``update_timestamp`` records the time and counts of the metadata section anew. Raises ``NotFound``.
    """
    await follow_memory(runtime, agent_id)
    now = utc_now()

    def compile_it(tx: Transaction) -> str:
        state, conversation = state_in(tx, agent_id, conversation_id)
        model = conversation_model(runtime.models, state, conversation)
        make = current_prompt if dry_run else refresh_prompt
        return make(tx, state, conversation, model, now, renew_facts=update_timestamp, policy="recompile").text

    return await (runtime.db.read if dry_run else runtime.db.write)(compile_it)


async def read_system_message(runtime: Runtime, agent_id: str, conversation_id: str | None = None) -> Message:
    """Return the system message of a conversation as its next request would carry it. Stores nothing."""
    await follow_memory(runtime, agent_id)
    now = utc_now()

    def read(tx: Transaction) -> Message:
        state, conversation = state_in(tx, agent_id, conversation_id)
        model = conversation_model(runtime.models, state, conversation)
        return system_message(tx, state, conversation, model, now)

    return await runtime.db.read(read)
