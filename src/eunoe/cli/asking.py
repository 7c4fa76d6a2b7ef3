"""Asking the person at the terminal about calls that wait."""

from typing import Final

import click
import msgspec

from eunoe.cli.questions import NO_CLIENT, Question
from eunoe.cli.terminal import Style, printable
from eunoe.state.approvals import Answer
from eunoe.state.messages import ApprovalPart, ToolCallPart, ToolReturnPart

ALLOW: Final = "Allow it? y, n, or n and a reason: "
GIVE_UP: Final = "Only the program that brought this tool can run it. Close the call as failed? y or n: "
LEFT_OPEN: Final = "The question stays open."


def ask_person(question: Question, style: Style) -> tuple[Answer, ...] | None:
    """Show each waiting call whole, and return the person's answers, in order.

    ``None`` leaves the question open: the person pressed Ctrl-D or Ctrl-C, or another program is to answer.
    """
    answers: list[Answer] = []
    try:
        for call in question.calls:
            click.echo(style.bold(f"The agent asks to call {printable(call.name)}:"))
            click.echo("\n".join(f"  {line}" for line in whole_call(call)))
            answer = _about_foreign(call) if call.id in question.foreign else _about(call)
            if answer is None:
                click.echo(style.dim(LEFT_OPEN))
                return None
            answers.append(answer)
    except (EOFError, KeyboardInterrupt):
        click.echo(f"\n{style.dim(LEFT_OPEN)}")
        return None
    return tuple(answers)


def whole_call(call: ToolCallPart) -> list[str]:
    """Return all arguments of a call as printable lines: nobody can allow what is not shown."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}", type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return printable(call.arguments).splitlines()
    if not arguments:
        return ["(no arguments)"]
    lines: list[str] = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        first, *more = printable(text).split("\n")
        lines.append(f"{printable(name)}: {first}")
        lines += [f"  {line}" for line in more]
    return lines


def read_answer(text: str) -> tuple[bool, str | None] | None:
    """Return what a line says: allowed or not, and the reason of a no; ``None`` when it is neither yes nor no."""
    word, _, rest = text.strip().partition(" ")
    match word.casefold().rstrip(",.:"):
        case "y" | "yes" if not rest.strip():
            return True, None
        case "n" | "no":
            return False, rest.strip() or None
        case _:
            return None


def _about(call: ToolCallPart) -> Answer | None:
    approve, reason = _asked(ALLOW)
    return ApprovalPart(tool_call_id=call.id, approve=approve, reason=reason)


def _about_foreign(call: ToolCallPart) -> Answer | None:
    give_up, _ = _asked(GIVE_UP)
    if not give_up:
        return None
    content = NO_CLIENT.format(name=call.name)
    return ToolReturnPart(tool_call_id=call.id, name=call.name, content=content, status="error", refused=True)


def _asked(prompt: str) -> tuple[bool, str | None]:
    while (answer := read_answer(input(prompt))) is None:
        pass
    return answer
