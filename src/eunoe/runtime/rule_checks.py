"""Whether a set of tool rules makes sense: checked when it is written, so that no turn meets a contradiction (pure)."""

from collections.abc import Collection, Iterator, Sequence

from eunoe.runtime.rules import ToolUse, offer
from eunoe.state.errors import InvalidInput
from eunoe.state.rules import (
    ChildRule,
    ConditionalRule,
    ContinueRule,
    InitRule,
    MaxCountRule,
    ParentRule,
    TerminalRule,
    ToolRule,
)


def without_duplicates(rules: Sequence[ToolRule]) -> tuple[ToolRule, ...]:
    """Return the rules with each that equals an earlier one left out. It changes nothing about what they do."""
    kept: list[ToolRule] = []
    for rule in rules:
        if rule not in kept:
            kept.append(rule)
    return tuple(kept)


def check_rules(rules: Sequence[ToolRule], tool_names: Collection[str]) -> None:
    """Raise ``InvalidInput`` (field ``tool_rules``) for a rule that cannot mean anything, or rules that contradict.

    ``tool_names`` are the tools that rules may speak of: those that the agent has after this write, and those that
    the caller lets a client bring. Cycles of children are fine, since ``max_steps`` ends every turn.
    """
    for rule in rules:
        _check_fields(rule)
        _check_names(rule, tool_names)
    _check_exits(rules)
    _check_first(rules, tool_names)
    for name in dict.fromkeys(rule.tool_name for rule in rules if isinstance(rule, ChildRule | ConditionalRule)):
        _check_next(rules, tool_names, name)


def _refuse(message: str) -> InvalidInput:
    return InvalidInput(message, field="tool_rules")


def _title(rule: ToolRule) -> str:
    return f"The {rule.__struct_config__.tag} rule of {rule.tool_name!r}"


def _check_fields(rule: ToolRule) -> None:
    if isinstance(rule, MaxCountRule) and rule.max_count_limit < 1:
        raise _refuse(
            f"{_title(rule)} has max_count_limit {rule.max_count_limit}; it must be 1 or more. "
            "To forbid a tool, detach it."
        )
    if isinstance(rule, ChildRule | ParentRule) and not rule.children:
        raise _refuse(f"{_title(rule)} has no children; name at least one tool, or leave the rule out.")
    if isinstance(rule, ConditionalRule) and not rule.child_output_mapping:
        raise _refuse(f"{_title(rule)} has an empty child_output_mapping; map at least one result to a tool.")
    if isinstance(rule, ChildRule):
        strangers = [node.name for node in rule.child_arg_nodes or () if node.name not in rule.children]
        if strangers:
            raise _refuse(
                f"{_title(rule)} gives arguments to {', '.join(strangers)} in child_arg_nodes, which is none of its "
                "children. Add it to children, or leave it out."
            )


def _check_names(rule: ToolRule, tool_names: Collection[str]) -> None:
    unknown = list(dict.fromkeys(name for name in _names_in(rule) if name not in tool_names))
    if unknown:
        known = ", ".join(sorted(tool_names)) or "none"
        raise _refuse(
            f"{_title(rule)} names {', '.join(map(repr, unknown))}, which the agent does not have. Attach the tool "
            f"first, or correct the name. The agent's tools: {known}."
        )


def _names_in(rule: ToolRule) -> Iterator[str]:
    yield rule.tool_name
    if isinstance(rule, ChildRule | ParentRule):
        yield from rule.children
    elif isinstance(rule, ConditionalRule):
        yield from rule.child_output_mapping.values()
        if rule.default_child is not None:
            yield rule.default_child


def _check_exits(rules: Sequence[ToolRule]) -> None:
    ending = {rule.tool_name for rule in rules if isinstance(rule, TerminalRule)}
    both = [rule.tool_name for rule in rules if isinstance(rule, ContinueRule) and rule.tool_name in ending]
    if both:
        raise _refuse(
            f"{both[0]!r} has both an exit_loop and a continue_loop rule: its call cannot both end the turn and "
            "continue it. Keep one of the two."
        )


def _check_first(rules: Sequence[ToolRule], tool_names: Collection[str]) -> None:
    """Refuse ``run_first`` for tools of which none may be called first."""
    for name in (rule.tool_name for rule in rules if isinstance(rule, InitRule)):
        alone = [rule for rule in rules if not isinstance(rule, InitRule) or rule.tool_name == name]
        if offer(alone, list(tool_names), ()).reason:
            raise _refuse(
                f"{name!r} has a run_first rule, and a parent_last_tool rule lets it follow another tool only: it can "
                "never be called first. Remove one of the two rules."
            )


def _check_next(rules: Sequence[ToolRule], tool_names: Collection[str], name: str) -> None:
    """Refuse rules that bar every tool right after a first call of this one, whatever it returns."""
    conditions = [rule for rule in rules if isinstance(rule, ConditionalRule) and rule.tool_name == name]
    results = [key for rule in conditions for key in rule.child_output_mapping] or [""]
    reasons = [offer(rules, list(tool_names), (ToolUse(name=name, result=result),)).reason for result in results]
    if all(reasons):
        raise _refuse(f"The rules contradict each other: after {name!r} no tool could follow. {reasons[0]}")
