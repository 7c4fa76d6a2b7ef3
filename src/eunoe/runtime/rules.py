"""What happens next: whether a turn goes on after a step (pure)."""

from collections.abc import Sequence

from eunoe.models.protocol import FinishReason
from eunoe.state.messages import ToolCallPart
from eunoe.state.rules import TerminalRule, ToolRule
from eunoe.state.runs import StopReason


def stop_after_text(finish: FinishReason) -> StopReason:
    """Return why a turn ends when the model answered without a call."""
    return "max_tokens_exceeded" if finish == "length" else "end_turn"


def stop_after_calls(
    rules: Sequence[ToolRule], calls: Sequence[ToolCallPart], *, steps_done: int, max_steps: int
) -> StopReason | None:
    """Return why a turn ends after these calls, or ``None`` when it goes on.

    ``steps_done`` counts this step.
    """
    terminal = {rule.tool_name for rule in rules if isinstance(rule, TerminalRule)}
    if any(call.name in terminal for call in calls):
        return "tool_rule"
    return "max_steps" if steps_done >= max_steps else None
