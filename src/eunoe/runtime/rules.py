"""What may be called next, and whether a turn goes on after a step (pure).

A history is what one run has called so far. Rules are read like this:

- ``run_first``: the first call of a run is one of these tools, and the model must call.
- ``constrain_child_tools``: right after the tool, the model must call one of its children. Children that the agent
  does not have do not count; with none left the rule is silent.
- ``parent_last_tool``: the children may be called right after the parent only. It is a permission, not a duty. A tool
  that is a child of several parents may follow each of them. It stays closed when the agent lacks the parent: taking
  a tool away must not open what it guards.
- ``conditional``: the tool's result names the one tool that must follow (see ``rule_results``). A result that matches
  nothing leads to ``default_child``; without one, ``require_output_mapping`` lets no tool follow, and otherwise the
  rule is silent.
- ``max_count_per_step``: N means N calls in one run.
- ``exit_loop`` ends the turn, unless a tool is still required before the exit.
- ``required_before_exit``: the turn does not end by text or by ``exit_loop`` before the tool was called.
- ``continue_loop`` and ``requires_approval`` change nothing about what may be called: a turn goes on after any call
  that does not end it.

Rules hold together: what may be called is what none of them bars. When a call is due and all tools are barred, none is
offered and the offer says why; falling back to all tools would break the very rules that someone set. A rule about a
tool that the agent does not have is silent, but for ``parent_last_tool``.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from eunoe.models.protocol import FinishReason, ToolChoice
from eunoe.runtime.rule_results import matching_key
from eunoe.state.rules import (
    ApprovalRule,
    ChildRule,
    ConditionalRule,
    ContinueRule,
    InitRule,
    MaxCountRule,
    ParentRule,
    RequiredBeforeExitRule,
    TerminalRule,
    ToolRule,
)
from eunoe.state.runs import StopReason

_ORDERLESS: Final = (TerminalRule, ContinueRule, RequiredBeforeExitRule, MaxCountRule, ApprovalRule)


class ToolUse(Struct, frozen=True, kw_only=True):
    """One call of a run. ``result`` is what the model was told.

    ``refused`` marks a call whose tool never started: it broke a rule, a person denied it, or its arguments could not
    be read. No rule counts such a call. A tool that started and failed was called.
    """

    name: str
    result: str = ""
    refused: bool = False


class Offer(Struct, frozen=True, kw_only=True):
    """The tools that the model may call now, in the order given, and whether it must.

    ``reason`` is set when a call is due and the rules bar every tool: a sentence for the person who wrote the rules.
    Without tools and without a reason the model can still answer by text.
    """

    names: tuple[str, ...]
    choice: ToolChoice
    reason: str | None = None


class Nudge(Struct, frozen=True, kw_only=True):
    """Why a turn may not end yet: ``missing`` tools, and the text that tells the model (the wire's form).

    How often a model is nudged is the loop's to bound.
    """

    text: str
    missing: tuple[str, ...]


class _Bar(Struct, frozen=True, kw_only=True):
    """Tools that one rule bars now, and a sentence that says so. ``due``: the rule wants a call."""

    names: frozenset[str]
    why: str
    due: bool = False


def offer(rules: Sequence[ToolRule], tool_names: Sequence[str], history: Sequence[ToolUse]) -> Offer:
    """Return what the model may call after this history.

    A due call is forced: by name when one tool is left. It is no longer forced once a permitted call of that kind was
    refused (denied, or unreadable), because forcing it again would only ask again; what may be called stays the same.
    """
    if not rules and tool_names:
        return Offer(names=tuple(tool_names), choice=ToolChoice())
    bars = _bars(rules, tool_names, history)
    names = tuple(name for name in tool_names if not any(name in bar.names for bar in bars))
    due = any(bar.due for bar in bars)
    if not names:
        reason = f"The tool rules leave no tool to call. {_said(bars)}" if due else None
        return Offer(names=(), choice=ToolChoice(mode="none"), reason=reason)
    if not due or any(name in names for name in _refused_last(history)):
        return Offer(names=names, choice=ToolChoice())
    if len(names) == 1:
        return Offer(names=names, choice=ToolChoice(mode="tool", name=names[0]))
    return Offer(names=names, choice=ToolChoice(mode="required"))


def violation(
    rules: Sequence[ToolRule], tool_names: Sequence[str], history: Sequence[ToolUse], name: str
) -> str | None:
    """Return what the model is told of a call that breaks a rule, or ``None`` when the call may go ahead.

    For several calls in one answer, ``history`` holds those before this one as well. A tool that the agent does not
    have is no matter of rules: ``None``.
    """
    if name not in tool_names:
        return None
    broken = [bar for bar in _bars(rules, tool_names, history) if name in bar.names]
    if not broken:
        return None
    valid = list(offer(rules, tool_names, history).names)
    return f"[ToolConstraintError] Cannot call {name}, valid tools include: {valid}. {_said(broken)}"


def prefill(
    rules: Sequence[ToolRule], history: Sequence[ToolUse], name: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call with those that a rule gives in place of the model's.

    ``run_first`` gives them to the first call, ``constrain_child_tools`` to a child right after its parent. A later
    rule wins over an earlier one.
    """
    last = _last(history)
    filled = dict(arguments)
    for rule in rules:
        if isinstance(rule, InitRule) and last is None and rule.tool_name == name:
            filled.update(rule.args or {})
        elif isinstance(rule, ChildRule) and last is not None and rule.tool_name == last.name:
            for node in rule.child_arg_nodes or ():
                if node.name == name:
                    filled.update(node.args or {})
    return filled


def after_calls(
    rules: Sequence[ToolRule],
    tool_names: Sequence[str],
    uses: Sequence[ToolUse],
    history: Sequence[ToolUse],
    *,
    steps_done: int,
    max_steps: int,
) -> StopReason | None:
    """Return why a turn ends after a step's calls, or ``None`` when it goes on.

    ``uses`` are the calls of this step, ``history`` those before it; ``steps_done`` counts this step. One call of an
    ``exit_loop`` tool among several is enough, failed or not, if it was not refused. While a required tool is missing
    the turn goes on, so that the model can call it, and then the exit again or answer; only ``max_steps`` ends it.
    """
    terminal = {rule.tool_name for rule in rules if isinstance(rule, TerminalRule)}
    exited = any(use.name in terminal for use in uses if not use.refused)
    if exited and not missing_before_exit(rules, tool_names, [*history, *uses]):
        return "tool_rule"
    return "max_steps" if steps_done >= max_steps else None


def after_text(
    rules: Sequence[ToolRule], tool_names: Sequence[str], history: Sequence[ToolUse], finish: FinishReason
) -> StopReason | Nudge:
    """Return why a turn ends when the model answered without a call, or what to tell it when the turn may not end.

    A missing required tool comes before a text that was cut at its limit: the call may be what was cut off.
    """
    missing = missing_before_exit(rules, tool_names, history)
    if not missing:
        return stop_after_text(finish)
    text = (
        "[This is an automated system message hidden from the user] ToolRuleViolated: "
        f"You must call {', '.join(missing)} at least once to exit the loop."
    )
    return Nudge(text=text, missing=missing)


def missing_before_exit(
    rules: Sequence[ToolRule], tool_names: Sequence[str], history: Sequence[ToolUse]
) -> tuple[str, ...]:
    """Return the tools that the agent has, must call before the turn ends, and has not called, in the rules' order."""
    called = {use.name for use in history if not use.refused}
    required = (rule.tool_name for rule in rules if isinstance(rule, RequiredBeforeExitRule))
    return tuple(dict.fromkeys(name for name in required if name in tool_names and name not in called))


def parallel_allowed(rules: Sequence[ToolRule]) -> bool:
    """Say whether one answer may hold several calls: only when no rule is about the order of calls.

    Rules on the end of a turn, on approval and on counts say nothing about order, so they allow it.
    """
    return all(isinstance(rule, _ORDERLESS) for rule in rules)


def needs_approval(
    rules: Sequence[ToolRule], tool_names: Collection[str], client_names: Collection[str], name: str
) -> bool:
    """Say whether a call waits for a person or for the client.

    A tool of the client always does; another one when the agent has it and a rule says so. A tool's
    ``default_requires_approval`` is made into such a rule when the tool is attached and does nothing by itself, so
    that removing the rule allows the tool.
    """
    if name in client_names:
        return True
    return name in tool_names and any(isinstance(rule, ApprovalRule) and rule.tool_name == name for rule in rules)


def stop_after_text(finish: FinishReason) -> StopReason:
    """Return why a turn ends when the model answered without a call."""
    return "max_tokens_exceeded" if finish == "length" else "end_turn"


def _last(history: Sequence[ToolUse]) -> ToolUse | None:
    return next((use for use in reversed(history) if not use.refused), None)


def _refused_last(history: Sequence[ToolUse]) -> list[str]:
    """Return the names of the refused calls since the last call that counts."""
    names: list[str] = []
    for use in reversed(history):
        if not use.refused:
            break
        names.append(use.name)
    return names


def _bars(rules: Sequence[ToolRule], tool_names: Sequence[str], history: Sequence[ToolUse]) -> list[_Bar]:
    """Return what each rule bars now, of the tools that the agent has."""
    tools = frozenset(tool_names)
    last = _last(history)
    ordered = [_first_call_bar(rules, tools)] if last is None else [_next_call_bar(r, tools, last) for r in rules]
    bars = [*ordered, *_parent_bars(rules, last), *_count_bars(rules, history)]
    return [bar for bar in bars if bar and not bar.names.isdisjoint(tools)]


def _first_call_bar(rules: Sequence[ToolRule], tools: frozenset[str]) -> _Bar | None:
    first = [rule.tool_name for rule in rules if isinstance(rule, InitRule) and rule.tool_name in tools]
    if not first:
        return None
    return _Bar(names=tools - set(first), why=f"The first call must be of {_one_of(first)}.", due=True)


def _next_call_bar(rule: ToolRule, tools: frozenset[str], last: ToolUse) -> _Bar | None:
    """Return what a rule on what follows bars after the last call."""
    if isinstance(rule, ChildRule) and rule.tool_name == last.name:
        children = [child for child in rule.children if child in tools]
        why = f"Right after {last.name}, the call must be of {_one_of(children)}."
        return _Bar(names=tools - set(children), why=why, due=True) if children else None
    if isinstance(rule, ConditionalRule) and rule.tool_name == last.name:
        key = matching_key(rule.child_output_mapping, last.result)
        matched = None if key is None else rule.child_output_mapping[key]
        child = next((name for name in (matched, rule.default_child) if name in tools), None)
        if child is not None:
            why = f"After what {last.name} returned, the call must be of {child}."
            return _Bar(names=tools - {child}, why=why, due=True)
        if rule.require_output_mapping:
            why = f"No tool may follow what {last.name} returned: its rule maps it to none of the agent's tools."
            return _Bar(names=tools, why=why, due=True)
    return None


def _parent_bars(rules: Sequence[ToolRule], last: ToolUse | None) -> list[_Bar]:
    parents: dict[str, list[str]] = {}
    for rule in rules:
        if isinstance(rule, ParentRule):
            for child in rule.children:
                parents.setdefault(child, []).append(rule.tool_name)
    return [
        _Bar(names=frozenset({child}), why=f"{child} may be called only right after {_one_of(allowed)}.")
        for child, allowed in parents.items()
        if last is None or last.name not in allowed
    ]


def _count_bars(rules: Sequence[ToolRule], history: Sequence[ToolUse]) -> list[_Bar]:
    called = [use.name for use in history if not use.refused]
    limits: dict[str, int] = {}
    for rule in rules:
        if isinstance(rule, MaxCountRule):
            limits[rule.tool_name] = min(rule.max_count_limit, limits.get(rule.tool_name, rule.max_count_limit))
    return [
        _Bar(names=frozenset({name}), why=f"{name} may be called {limit} time(s) in one turn, and that is used up.")
        for name, limit in limits.items()
        if called.count(name) >= limit
    ]


def _said(bars: Sequence[_Bar]) -> str:
    return " ".join(dict.fromkeys(bar.why for bar in bars))


def _one_of(names: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(names))
