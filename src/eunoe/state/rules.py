"""Tool rules: what may be called when, and what a call does to the turn. Type words are the wire's."""

from typing import Any

from msgspec import Struct


class _Rule(Struct, frozen=True, kw_only=True, tag_field="type"):
    tool_name: str
    prompt_template: str | None = None


class InitRule(_Rule, frozen=True, kw_only=True, tag="run_first"):
    """The turn starts with this tool. ``args`` override what the model gives."""

    args: dict[str, Any] | None = None


class ChildArgs(Struct, frozen=True, kw_only=True):
    """Arguments that a child call is given."""

    name: str
    args: dict[str, Any] | None = None


class ChildRule(_Rule, frozen=True, kw_only=True, tag="constrain_child_tools"):
    """After this tool, only its children may follow."""

    children: tuple[str, ...]
    child_arg_nodes: tuple[ChildArgs, ...] | None = None


class ParentRule(_Rule, frozen=True, kw_only=True, tag="parent_last_tool"):
    """The children may be called only right after this tool."""

    children: tuple[str, ...]


class ConditionalRule(_Rule, frozen=True, kw_only=True, tag="conditional"):
    """What this tool returns decides which tool follows."""

    child_output_mapping: dict[str, str]
    default_child: str | None = None
    require_output_mapping: bool = False


class TerminalRule(_Rule, frozen=True, kw_only=True, tag="exit_loop"):
    """A call of this tool ends the turn."""


class ContinueRule(_Rule, frozen=True, kw_only=True, tag="continue_loop"):
    """A call of this tool continues the turn."""


class RequiredBeforeExitRule(_Rule, frozen=True, kw_only=True, tag="required_before_exit"):
    """The turn may not end before this tool was called."""


class MaxCountRule(_Rule, frozen=True, kw_only=True, tag="max_count_per_step"):
    """This tool may be called at most ``max_count_limit`` times in one run."""

    max_count_limit: int


class ApprovalRule(_Rule, frozen=True, kw_only=True, tag="requires_approval"):
    """A call of this tool waits for a person's answer."""


ToolRule = (
    InitRule
    | ChildRule
    | ParentRule
    | ConditionalRule
    | TerminalRule
    | ContinueRule
    | RequiredBeforeExitRule
    | MaxCountRule
    | ApprovalRule
)
