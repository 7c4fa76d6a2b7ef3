"""What a process that dies may be told to do, beside sending one message: see ``crash_child``."""

from typing import Literal

import msgspec
from msgspec import Struct
from store_ledger import OF_THE_CLIENT

from eunoe.embedded import Home
from eunoe.runtime.agents import reset_messages
from eunoe.runtime.approvals import Reply
from eunoe.runtime.compaction_call import compact_conversation
from eunoe.runtime.conversations import ConversationSpec, create_conversation, delete_conversation, fork_conversation
from eunoe.runtime.integrity import repair
from eunoe.runtime.turn import TurnRequest
from eunoe.state.approvals import Answer
from eunoe.state.messages import ApprovalPart, NewMessage, TextPart, ToolReturnPart
from eunoe.state.tools import ToolSchema
from eunoe.store import approvals

LOOK_UP = ToolSchema(name="look_up", description="Looks a word up.", parameters={"type": "object", "properties": {}})
"""A tool of the client's own."""


class Order(Struct, frozen=True, kw_only=True):
    """One thing to do with an agent, or with one of its conversations.

    ``says`` are the texts of messages: of a turn, beside an answer, or at the beginning of a conversation. ``returns``
    is what the client's own tool gives for each call that waits.
    """

    do: Literal["send", "approve", "deny", "return", "compact", "fork", "begin", "repair", "reset", "delete"]
    agent_id: str
    conversation_id: str | None = None
    says: tuple[str, ...] = ()
    returns: str = OF_THE_CLIENT
    background: bool = False
    client_tools: bool = False
    go_on: bool = False
    at_message_id: str | None = None
    isolated: tuple[str, ...] = ()

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def user(text: str, otid: str | None = None) -> NewMessage:
    return NewMessage(role="user", parts=(TextPart(text=text),), otid=otid)


def answers(order: Order, call_ids: list[str], names: list[str]) -> tuple[Answer, ...]:
    """Return one answer for each call."""
    if order.do == "return":
        return tuple(
            ToolReturnPart(tool_call_id=key, name=name, content=order.returns)
            for key, name in zip(call_ids, names, strict=True)
        )
    approve = order.do == "approve"
    return tuple(ApprovalPart(tool_call_id=key, approve=approve, reason=None if approve else "No.") for key in call_ids)


async def request_for(home: Home, order: Order) -> TurnRequest:
    """Return the turn that an order to send or to answer asks for."""
    reply = None
    if order.do != "send":
        state = await home.runtime.db.read(
            lambda tx: (
                approvals.open_of(tx, order.conversation_id or "")
                or approvals.open_of_agents(tx, [order.agent_id]).get(order.agent_id)
            )
        )
        calls = state.calls if state else ()
        reply = Reply(answers=answers(order, [call.id for call in calls], [call.name for call in calls]))
    return TurnRequest(
        agent_id=order.agent_id,
        conversation_id=order.conversation_id,
        messages=tuple(map(user, order.says)),
        reply=reply,
        background=order.background,
        client_tools=(LOOK_UP,) if order.client_tools else (),
        on_busy="wait",
        on_pending="deny_and_continue" if order.go_on else "reject",
    )


async def carry_out(home: Home, order: Order) -> None:
    """Do it, to its end."""
    runtime = home.runtime
    match order.do:
        case "compact":
            await compact_conversation(runtime, order.agent_id, order.conversation_id)
        case "fork":
            await fork_conversation(runtime, order.agent_id, order.conversation_id, at_message_id=order.at_message_id)
        case "begin":
            spec = ConversationSpec(
                agent_id=order.agent_id,
                isolated_block_labels=order.isolated,
                messages=tuple(map(user, order.says)),
            )
            await create_conversation(runtime, spec)
        case "repair":
            await repair(runtime, order.agent_id)
        case "reset":
            await reset_messages(runtime, order.agent_id)
        case "delete":
            await delete_conversation(runtime, order.conversation_id or "")
        case _:
            await (await runtime.start(await request_for(home, order))).wait()
