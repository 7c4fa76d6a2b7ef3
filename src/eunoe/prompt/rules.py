"""How tool rules are told to the model. Wording of the rules: Letta v1's."""

from collections.abc import Sequence
from typing import Final

from eunoe.prompt.escape import escape_line
from eunoe.state.rules import (
    ChildRule,
    ConditionalRule,
    ContinueRule,
    MaxCountRule,
    ParentRule,
    TerminalRule,
    ToolRule,
)

INTRO: Final = (
    "These rules limit which tools you may call and in what order, and say when a call ends your response. "
    "One response may hold several tool calls."
)


def render_rules(rules: Sequence[ToolRule]) -> str:
    """Return the section on tool rules; empty when no rule is of a kind that the model is told.

    Rules are grouped: those that continue, those on what follows and how often, those on what comes before, those
    that end. Within a group they keep the agent's order.
    """
    ranked = [(rank, text) for rank, text in map(_rule, rules) if text]
    if not ranked:
        return ""
    ranked.sort(key=lambda item: item[0])
    lines = ["<tool_usage_rules>", INTRO, ""]
    for _, text in ranked:
        lines += ["<tool_rule>", text, "</tool_rule>"]
    return "\n".join([*lines, "</tool_usage_rules>"])


def _rule(rule: ToolRule) -> tuple[int, str]:
    name = escape_line(rule.tool_name)
    match rule:
        case ContinueRule():
            return 0, f"{name} requires continuing your response when called"
        case ChildRule():
            return 1, f"After using {name}, you must use one of these tools: {_names(rule.children)}"
        case ConditionalRule():
            return 1, f"{name} will determine which tool to use next based on its output"
        case MaxCountRule():
            return 1, f"{name}: at most {rule.max_count_limit} use(s) per response"
        case ParentRule():
            return 2, f"{_names(rule.children)} can only be used after {name}"
        case TerminalRule():
            return 3, f"{name} ends your response (yields control) when called"
        case _:
            # Rules on the first call, on approval and on calls before the end act without the model's help.
            return 4, ""


def _names(names: Sequence[str]) -> str:
    return ", ".join(escape_line(name) for name in names)
