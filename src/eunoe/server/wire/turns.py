"""A request to an agent, as the runtime takes it."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from eunoe.prompt.skills import Skill
from eunoe.runtime.approvals import Reply
from eunoe.runtime.turn import TurnRequest
from eunoe.server.wire.compaction import CompactionView
from eunoe.server.wire.errors import EmptyMessages, Unprocessable
from eunoe.server.wire.messages import SPEAKING_TYPES, View
from eunoe.server.wire.queries import ShownMessages
from eunoe.server.wire.requests import ContentPart, MessageBody, SendBody, ToolReturnBody
from eunoe.state.agents import AgentType
from eunoe.state.approvals import Answer
from eunoe.state.messages import ApprovalPart, ImagePart, NewMessage, Part, TextPart, ToolReturnPart
from eunoe.state.runs import Run
from eunoe.state.tools import ToolSchema


class Showing(Struct, kw_only=True):
    """How a caller wants a run told. It is kept with the run, so that a stream goes on as it began."""

    use_assistant_message: bool = True
    assistant_message_tool_name: str = "send_message"
    assistant_message_tool_kwarg: str = "message"
    include_return_message_types: list[str] | None = None
    include_compaction_messages: bool = False
    stream_tokens: bool = False


_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What OpenAI and Anthropic take as the name of a tool."""


def turn_request(agent_id: str, body: SendBody) -> TurnRequest:
    """Return what is asked of the agent.

    Raises ``Unprocessable`` for messages that are missing, given twice or of a kind that cannot be sent, and for
    options that need a stream when none is asked for.
    """
    if not body.streaming and (body.stream_tokens or body.background):
        option = "stream_tokens" if body.stream_tokens else "background"
        raise Unprocessable(f"{option}: only with streaming=true")
    conversation = None if body.conversation_id in {None, "default"} else body.conversation_id
    sent = _messages(body)
    replies = [item for item in sent if _is_reply(item)]
    return TurnRequest(
        agent_id=agent_id,
        conversation_id=conversation,
        messages=new_messages([item for item in sent if not _is_reply(item)]),
        reply=_reply(replies) if replies else None,
        max_steps=body.max_steps,
        client_tools=_client_tools(body),
        client_skills=tuple(
            Skill(name=skill.name, description=skill.description, location=skill.location)
            for skill in body.client_skills or ()
        ),
        override_model=body.override_model,
        override_system=body.override_system,
        background=body.background,
        on_busy=body.on_busy,
        on_pending=body.on_pending,
        memory_refresh=body.memory_refresh,
        options={name: getattr(body, name) for name in Showing.__struct_fields__},
    )


def showing_of(run: Run) -> Showing:
    """Return how the caller of a run wanted it told; a run that was not asked for over HTTP has the defaults."""
    return msgspec.convert(
        {name: run.request[name] for name in Showing.__struct_fields__ if name in run.request}, Showing
    )


def _client_tools(body: SendBody) -> tuple[ToolSchema, ...]:
    """Return the client's own tools. Raises ``Unprocessable`` for a name that no model takes, or one given twice."""
    given = body.client_tools or []
    names = [tool.name for tool in given]
    for index, name in enumerate(names):
        if _TOOL_NAME.fullmatch(name) is None:
            raise Unprocessable(
                f"client_tools[{index}].name: 1 to 64 letters, digits, '_' and '-', not {name[:80]!r} "
                f"({len(name)} characters)"
            )
        if name in names[:index]:
            raise Unprocessable(f"client_tools[{index}].name: {name!r} is given twice")
    return tuple(
        ToolSchema(
            name=tool.name,
            description=tool.description or "",
            parameters=tool.parameters or {"type": "object", "properties": {}},
        )
        for tool in given
    )


def view_for(agent_type: AgentType, asked: SendBody | Showing | ShownMessages) -> View:
    """Return how messages of such an agent are shown: in an answer, or (to a query) in a list."""
    speaks = agent_type in SPEAKING_TYPES and asked.use_assistant_message
    types = asked.include_return_message_types
    compaction: CompactionView = "events" if asked.include_compaction_messages else "packed"
    if isinstance(asked, ShownMessages) and asked.include_compaction_messages is None:
        compaction = "message"
    return View(
        speech_tool=asked.assistant_message_tool_name if speaks else None,
        speech_argument=asked.assistant_message_tool_kwarg,
        types=None if types is None else frozenset(types),
        compaction=compaction,
    )


def _messages(body: SendBody) -> list[MessageBody]:
    if body.input is not None:
        if body.messages is not None:
            raise Unprocessable("input, messages: give one of them, not both")
        return [MessageBody(role="user", content=body.input)]
    if not body.messages:
        raise EmptyMessages
    return body.messages


def new_messages(bodies: Sequence[MessageBody]) -> tuple[NewMessage, ...]:
    """Return messages that were sent. Raises ``Unprocessable`` for one without role or content."""
    return tuple(_message(body, f"messages[{index}]") for index, body in enumerate(bodies))


def _message(body: MessageBody, where: str) -> NewMessage:
    if _is_reply(body):
        raise Unprocessable(f"{where}.type: an agent begins with messages, not with answers to approval requests")
    if body.role is None:
        raise Unprocessable(f"{where}.role: required, one of user, system, assistant")
    if body.content is None:
        raise Unprocessable(f"{where}.content: required, a string or a list of parts")
    return NewMessage(
        role=body.role,
        parts=_parts(body.content, f"{where}.content"),
        otid=body.otid,
        name=body.name,
        sender_id=body.sender_id,
        group_id=body.group_id,
        created_at=body.created_at,
    )


def _is_reply(body: MessageBody) -> bool:
    """Say whether a body answers an approval request; clients may leave out the type."""
    if body.type is not None:
        return body.type != "message"
    return body.role is None and (body.approvals, body.tool_returns, body.approve) != (None, None, None)


def _reply(bodies: Sequence[MessageBody]) -> Reply:
    """Return what was answered: each call by its id, or (deprecated) all calls at once."""
    answers = [_answer(item) for body in bodies for item in (*(body.approvals or ()), *(body.tool_returns or ()))]
    old = next((body for body in bodies if body.approve is not None), None)
    if answers or old is None or old.approve is None:
        return Reply(answers=tuple(answers))
    decision = ApprovalPart(tool_call_id="", approve=old.approve, reason=old.reason)
    return Reply(all_calls=decision, request_id=old.approval_request_id)


def _answer(body: ToolReturnBody) -> Answer:
    if body.type == "approval" or (body.type is None and body.approve is not None):
        return ApprovalPart(tool_call_id=body.tool_call_id, approve=bool(body.approve), reason=body.reason)
    returned = body.tool_return if body.tool_return is not None else ""
    return ToolReturnPart(
        tool_call_id=body.tool_call_id,
        name="",
        content=returned if isinstance(returned, str) else "".join(part.text or "" for part in returned),
        status=body.status,
        stdout=None if body.stdout is None else tuple(body.stdout),
        stderr=None if body.stderr is None else tuple(body.stderr),
    )


def _parts(content: str | list[ContentPart], where: str) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (TextPart(text=content),)
    if not content:
        raise Unprocessable(f"{where}: must not be empty")
    return tuple(_part(part, f"{where}[{index}]") for index, part in enumerate(content))


def _part(part: ContentPart, where: str) -> Part:
    if part.type == "text" and part.text is not None:
        return TextPart(text=part.text)
    if part.type == "image" and part.source is not None:
        source = part.source
        if source.type == "url" and source.url:
            return ImagePart(url=source.url, detail=source.detail)
        if source.type == "base64" and source.data and source.media_type:
            return ImagePart(data=source.data, media_type=source.media_type, detail=source.detail)
        raise Unprocessable(f"{where}.source: give a url, or base64 data with its media_type")
    raise Unprocessable(f"{where}: a part must be a text with 'text' or an image with 'source', not {part.type!r}")
