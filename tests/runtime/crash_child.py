"""The process that dies: it forks once for each line that it reads, and that child does one thing.

A line is a JSON array: the store's folder, the environment variables to set (the fault among them), and what to do.
That is a message to the store's first agent (``APPROVE`` answers yes to the calls that wait), or the JSON object of an
``Order``. The answer is a line with how the child ended: its exit code, or minus the signal that killed it. The parent
never opens a store; it only spares each child the imports.
"""

import json
import os
import sys
from pathlib import Path
from typing import Final

import anyio
import msgspec
from crash_orders import Order, carry_out

import eunoe
from eunoe.runtime.approvals import Reply
from eunoe.runtime.turn import TurnRequest
from eunoe.state.messages import ApprovalPart, NewMessage, TextPart

AND_THEN: Final = NewMessage(role="user", parts=(TextPart(text="SAY:Noted."),))


async def one_turn(folder: Path, text: str) -> None:
    """Create the agent if there is none, and send it the message or carry out the order."""
    async with eunoe.open(folder) as home:
        found = await home.agents()
        if not found:
            await home.create_agent(
                model="scripted/demo",
                name="Ada",
                memory={"human": "Likes maps.", "persona": "Kind."},
                tags=("tagged",),
                secrets={"TOKEN": "s3cr3t"},
            )
        elif text == "APPROVE":
            reply = Reply(all_calls=ApprovalPart(tool_call_id="", approve=True))
            await (
                await home.runtime.start(TurnRequest(agent_id=found[0].id, messages=(AND_THEN,), reply=reply))
            ).wait()
        elif text.startswith("{"):
            await carry_out(home, msgspec.json.decode(text, type=Order))
        elif text:
            await found[0].ask(text)


def child(folder: str, variables: dict[str, str], text: str) -> None:
    """Be the child: never returns."""
    code = 1
    try:
        os.environ.update(variables)
        anyio.run(one_turn, Path(folder), text)
        code = 0
    except Exception as error:  # noqa: BLE001 - the boundary of a process: its parent reads the code
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Serve lines until there are no more."""
    assert eunoe.open  # imported here, so that no child has to
    for line in sys.stdin:
        folder, variables, text = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(folder, variables, text)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
