"""Whether what every request carries fits the model's window at all (no request is made when it does not)."""

from collections.abc import Sequence
from typing import Final

import msgspec

from eunoe.prompt.compile import Section, compile_prompt
from eunoe.prompt.tokens import estimate_tokens
from eunoe.runtime.checkpoint import End
from eunoe.runtime.prompts import prompt_inputs
from eunoe.runtime.turn import Turn
from eunoe.state.conversations import PromptFacts
from eunoe.state.runs import RunError

_REASON: Final = "context_window_overflow_in_system_prompt"


def tools_section(turn: Turn) -> Section:
    """Return the account of the tool definitions."""
    text = msgspec.json.encode(turn.offered).decode()
    return Section(name="tools", characters=len(text), tokens=estimate_tokens(text))


def by_size(sections: Sequence[Section]) -> str:
    """Tell sections and their sizes, largest first."""
    ordered = sorted(sections, key=lambda section: (-section.tokens, section.name))
    return ", ".join(f"{section.name} {section.tokens} tokens ({section.characters} characters)" for section in ordered)


def fixed_overflow(turn: Turn) -> End | None:
    """Return the end of a run whose system text and tools alone are larger than the model's window."""
    window = turn.model.context_window
    tools = tools_section(turn)
    total = estimate_tokens(turn.system) + tools.tokens
    if not window or total <= window:
        return None
    compiled = turn.conversation.compiled
    facts = compiled.facts if compiled else PromptFacts(compiled_at=turn.run.created_at)
    sections = compile_prompt(prompt_inputs(turn.state, turn.conversation, turn.model, facts)).sections
    return End(
        reason=_REASON,
        error=RunError(
            type=_REASON,
            message=(
                f"The system prompt and tools take about {total} tokens, and the window of {turn.model.handle} has "
                f"{window}. Shorten the largest sections, detach tools, or choose a model with a larger window."
            ),
            detail=by_size([*sections, tools]),
            status=400,
        ),
    )
