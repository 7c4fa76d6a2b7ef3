"""What fills an agent's context window, section by section."""

from msgspec import Struct

from eunoe.prompt.compile import Section, compile_prompt
from eunoe.prompt.tokens import estimate_tokens
from eunoe.runtime.fresh_memory import follow_memory
from eunoe.runtime.opening import state_in
from eunoe.runtime.prompts import conversation_model, current_prompt, prompt_inputs, system_message
from eunoe.runtime.requests import schema_of
from eunoe.runtime.runtime import Runtime, utc_now
from eunoe.runtime.token_account import window_tokens
from eunoe.state.messages import Message
from eunoe.state.tools import ToolSchema
from eunoe.store import conversations, messages
from eunoe.store.database import Transaction


class ContextOverview(Struct, frozen=True, kw_only=True):
    """The context window of a conversation's next request.

    All token figures are estimates, from one rule (bytes / 4). ``system_message`` carries the compiled text,
    ``sections`` its account; ``window`` is the rest of the messages.
    """

    context_window: int
    system: str
    system_message: Message
    sections: tuple[Section, ...]
    tools: tuple[ToolSchema, ...]
    tools_tokens: int
    window: tuple[Message, ...]
    window_tokens: int
    summary: str | None
    stored_messages: int

    @property
    def tokens(self) -> int:
        """Everything together; a part such as ``block:human`` is contained in its section."""
        prompt = sum(section.tokens for section in self.sections if ":" not in section.name)
        return prompt + self.tools_tokens + self.window_tokens


async def context_overview(runtime: Runtime, agent_id: str, conversation_id: str | None = None) -> ContextOverview:
    """Return what the next request would hold, without asking the model. Raises ``NotFound``."""
    await follow_memory(runtime, agent_id)
    now = utc_now()

    def read(tx: Transaction) -> ContextOverview:
        state, conversation = state_in(tx, agent_id, conversation_id)
        model = conversation_model(runtime.models, state, conversation)
        facts = current_prompt(tx, state, conversation, model, now).compiled.facts
        window = conversations.window(tx, conversation)
        schemas = tuple(schema_of(tool) for tool in state.tools)
        return ContextOverview(
            context_window=model.context_window,
            system=state.agent.system,
            system_message=system_message(tx, state, conversation, model, now),
            sections=compile_prompt(prompt_inputs(state, conversation, model, facts)).sections,
            tools=schemas,
            tools_tokens=sum(estimate_tokens(f"{s.name}{s.description}{s.parameters}") for s in schemas),
            window=window,
            window_tokens=window_tokens(window),
            summary=window[0].text if window and window[0].role == "summary" else None,
            stored_messages=messages.count(tx, agent_id),
        )

    return await runtime.db.read(read)
