"""What becomes of the calls of an answer before any of them runs: rules, approval, arguments (pure)."""

from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct, structs

from eunoe.runtime.argument_checks import check_arguments
from eunoe.runtime.rules import ToolUse, needs_approval, prefill, violation
from eunoe.state.errors import InvalidInput
from eunoe.state.messages import Message, Part, ToolCallPart
from eunoe.state.rules import ToolRule
from eunoe.state.tools import ToolSchema
from eunoe.tools.protocol import ToolResult


class Judged(Struct, frozen=True, kw_only=True):
    """An answer's calls after judgement.

    ``message`` carries the arguments that rules fill in; ``settled`` holds the results of calls that will not run;
    ``gated`` are the ids of those that wait for a person or the client.
    """

    message: Message
    settled: dict[str, ToolResult]
    gated: tuple[str, ...]


def parse_arguments(call: ToolCallPart) -> dict[str, object]:
    """Return a call's arguments. Raises ``InvalidInput`` when they are no JSON object: nothing is guessed."""
    try:
        return msgspec.json.decode(call.arguments or "{}", type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidInput(
            f"The arguments of {call.name} are not a JSON object ({reason}). Call it again with valid JSON."
        ) from None


def history(messages: Sequence[Message]) -> list[ToolUse]:
    """Return the calls since the last message of a user that have returns, in order, each once.

    An approval in between does not begin a new history: what was called before it still counts.
    """
    # From the end: a turn is short, and the window before it may be long.
    since: list[Message] = []
    for message in reversed(messages):
        if message.role == "user" and "nudge" not in message.meta:
            break
        since.append(message)
    return [
        ToolUse(name=part.name, result=part.content, refused=part.refused)
        for message in reversed(since)
        for part in message.tool_returns
    ]


def _refusal(text: str) -> ToolResult:
    return ToolResult(content=text, status="error", refused=True)


def _judge_call(
    call: ToolCallPart, rules: Sequence[ToolRule], tools: Sequence[ToolSchema], before: Sequence[ToolUse]
) -> tuple[ToolCallPart, ToolResult | None]:
    broken = violation(rules, [tool.name for tool in tools], before, call.name)
    if broken is not None:
        return call, _refusal(broken)
    try:
        arguments = parse_arguments(call)
    except InvalidInput as unreadable:
        return call, _refusal(unreadable.message)
    filled = prefill(rules, before, call.name, arguments)
    if filled == arguments:
        return call, None
    call = structs.replace(call, arguments=msgspec.json.encode(filled).decode())
    schema = next((tool for tool in tools if tool.name == call.name), None)
    wrong = check_arguments(schema, filled) if schema else None
    return call, _refusal(f"Invalid prefilled tool arguments from tool rules: {wrong}") if wrong else None


def judge_calls(
    message: Message,
    rules: Sequence[ToolRule],
    tools: Sequence[ToolSchema],
    client_names: Collection[str],
    before: Sequence[ToolUse],
) -> Judged:
    """Judge the calls of an answer in order; each is judged with those before it as part of the history."""
    uses, parts, gated = list(before), list[Part](), list[str]()
    settled: dict[str, ToolResult] = {}
    names = [tool.name for tool in tools]
    for part in message.parts:
        if not isinstance(part, ToolCallPart):
            parts.append(part)
            continue
        call, refused = _judge_call(part, rules, tools, uses)
        parts.append(call)
        if refused is not None:
            settled[call.id] = refused
        elif needs_approval(rules, names, client_names, call.name):
            gated.append(call.id)
        uses.append(ToolUse(name=call.name, refused=refused is not None))
    return Judged(
        message=structs.replace(message, parts=tuple(parts), needs_approval=tuple(gated)),
        settled=settled,
        gated=tuple(gated),
    )


def uses_of(message: Message, results: dict[str, ToolResult]) -> list[ToolUse]:
    """Return the calls of a message as the rules count them; a call without a result here is one that will run."""
    return [
        ToolUse(
            name=call.name,
            result=results[call.id].content if call.id in results else "",
            refused=call.id in results and results[call.id].refused,
        )
        for call in message.tool_calls
    ]


def repetitions(messages: Sequence[Message], asked: Message) -> int:
    """Count the steps directly before ``asked`` that made the very same calls and got the very same returns."""

    def calls(message: Message) -> list[tuple[str, str]]:
        return [(call.name, call.arguments) for call in message.tool_calls]

    def returns(message: Message) -> list[tuple[str, str]]:
        return [(part.name, part.content) for part in message.tool_returns]

    count = 0
    said: list[tuple[str, str]] | None = None
    before = [one for one in messages if one.id != asked.id and one.role != "approval"]
    while len(before) >= 2:
        returned, call = before.pop(), before.pop()
        if returned.role != "tool" or calls(call) != calls(asked) or (said is not None and returns(returned) != said):
            break
        said = returns(returned)
        count += 1
    return count
