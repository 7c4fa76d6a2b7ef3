"""One stored message as the messages that Letta v1 shows of it.

A stored assistant message becomes, in the order of its parts: one message for each reasoning part, one for each run
of text parts, and one for each run of tool calls; calls that wait for an answer are shown apart, as one approval
request. All of them have the stored message's id; their ``otid`` tells them apart.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from eunoe.server.wire.compaction import CompactionView, compaction
from eunoe.server.wire.envelope import envelope
from eunoe.state.messages import (
    ApprovalPart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)

SPEAKING_TYPES: Final = frozenset({"memgpt_agent", "memgpt_v2_agent", "split_thread_agent", "voice_convo_agent"})
"""Agent types that talk by calling ``send_message``; what they write beside it is their thought."""


_ROLES: Final[dict[str, Role]] = {
    "system_message": "system",
    "user_message": "user",
    "assistant_message": "assistant",
    "reasoning_message": "assistant",
    "hidden_reasoning_message": "assistant",
    "tool_call_message": "assistant",
    "approval_request_message": "assistant",
    "tool_return_message": "tool",
    "approval_response_message": "approval",
    "summary_message": "summary",
    "event_message": "summary",
}


def roles_of(types: Sequence[str] | None) -> tuple[Role, ...] | None:
    """Return the roles of stored messages that can be shown as these wire types; ``None`` for all."""
    if types is None:
        return None
    return tuple(dict.fromkeys(_ROLES[name] for name in types if name in _ROLES))


class View(Struct, frozen=True, kw_only=True):
    """How the caller wants messages shown.

    ``speech_tool`` names the tool whose ``speech_argument`` is shown as the assistant's message; ``types`` keeps
    messages of these wire types only. ``compaction`` says how a summary is shown: as a message of its own, with the
    event before it that it stands for, or packed as a user's message, as clients get it that do not ask for more.
    """

    speech_tool: str | None = None
    speech_argument: str = "message"
    types: frozenset[str] | None = None
    compaction: CompactionView = "message"

    def keeps(self, message: dict[str, Any]) -> bool:
        """Say whether the caller wants messages of this type."""
        return self.types is None or message["message_type"] in self.types


class Shown(Struct, frozen=True):
    """One message of the wire, and the indices of the stored parts that it shows."""

    parts: tuple[int, ...]
    body: dict[str, Any]


def shown(message: Message, view: View) -> list[Shown]:
    """Return what the wire shows of a stored message, before ``view.types`` is applied."""
    match message.role:
        case "assistant":
            return _assistant(message, view)
        case "tool":
            return _returns(message, view)
        case "user":
            if "nudge" in message.meta:
                return []  # what the runtime told the model, not what anyone said
            return [Shown((), {**envelope(message, "user_message"), "content": content(message.parts)})]
        case "system":
            return [Shown((), {**envelope(message, "system_message"), "content": message.text})]
        case "summary":
            return [Shown((), body) for body in compaction(message, view.compaction)]
        case "approval":
            return [Shown((), _answer(message))]


def listed(messages: Sequence[Message], view: View, *, newest_first: bool = False) -> list[dict[str, Any]]:
    """Return what the wire lists for stored messages that are already in the order that was asked for."""
    out: list[dict[str, Any]] = []
    for message in messages:
        bodies = [item.body for item in shown(message, view)]
        out.extend(reversed(bodies) if newest_first else bodies)
    return [body for body in out if view.keeps(body)]


def content(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    """Return the content of a message: a string when it is one text, else the list of its parts."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    out: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            out.append({"type": "text", "text": part.text, "signature": None})
        elif isinstance(part, ImagePart):
            out.append({"type": "image", "source": _image_source(part)})
    return out


def _image_source(part: ImagePart) -> dict[str, Any]:
    if part.url is not None:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": part.data, "detail": part.detail}


Kind = Literal["reasoning", "text", "tool_call", "approval"]


def kind_of(part: Part, needs_approval: Sequence[str]) -> Kind | None:
    """Say how a part of an assistant message is shown; ``None`` if it is not."""
    if isinstance(part, ReasoningPart):
        return "reasoning"
    if isinstance(part, TextPart):
        return "text" if part.text else None
    if isinstance(part, ToolCallPart):
        return "approval" if part.id in needs_approval else "tool_call"
    return None


def _assistant(message: Message, view: View) -> list[Shown]:
    groups: list[tuple[Kind, list[int]]] = []
    waiting: list[int] = []
    for index, part in enumerate(message.parts):
        kind = kind_of(part, message.needs_approval)
        if kind is None:
            continue
        if kind == "approval":
            waiting.append(index)
        elif groups and groups[-1][0] == kind != "reasoning":
            groups[-1][1].append(index)
        else:
            groups.append((kind, [index]))
    out: list[Shown] = []
    for kind, indices in groups:
        out.extend(_group(message, kind, indices, view))
    if waiting:
        out.append(Shown(tuple(waiting), _approval_request(message, waiting)))
    return out


def _group(message: Message, kind: Kind, indices: list[int], view: View) -> list[Shown]:
    parts = [message.parts[index] for index in indices]
    first = indices[0]
    if kind == "reasoning" and isinstance(parts[0], ReasoningPart):
        return [Shown((first,), reasoning(message, parts[0], first))]
    if kind == "text":
        text = "".join(part.text for part in parts if isinstance(part, TextPart))
        if view.speech_tool is not None and message.tool_calls:
            thought = ReasoningPart(text=text)
            return [Shown(tuple(indices), reasoning(message, thought, first, source="non_reasoner_model"))]
        return [Shown(tuple(indices), {**envelope(message, "assistant_message", first), "content": text})]
    out: list[Shown] = []
    plain: list[int] = []
    for index in indices:
        part = message.parts[index]
        said = spoken(part, view) if isinstance(part, ToolCallPart) else None
        if said is None:
            plain.append(index)
        else:
            out.append(Shown((index,), {**envelope(message, "assistant_message", index), "content": said}))
    if plain:
        out.insert(0, Shown(tuple(plain), _calls(message, "tool_call_message", plain, plain[0])))
    return out


def spoken(call: ToolCallPart, view: View) -> str | None:
    """Return what the agent says by this call, or ``None`` if the call is shown as a call."""
    if view.speech_tool is None or call.name != view.speech_tool:
        return None
    try:
        arguments = msgspec.json.decode(call.arguments, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    said = arguments.get(view.speech_argument)
    return said if isinstance(said, str) else None


def reasoning(message: Message, part: ReasoningPart, index: int, *, source: str = "reasoner_model") -> dict[str, Any]:
    """Return a reasoning part: its text, or that it is hidden."""
    if part.text:
        base = envelope(message, "reasoning_message", index)
        return {**base, "source": source, "reasoning": part.text, "signature": part.signature}
    base = envelope(message, "hidden_reasoning_message", index)
    state = "redacted" if part.redacted is not None else "omitted"
    return {**base, "state": state, "hidden_reasoning": part.redacted}


def _calls(message: Message, kind: str, indices: Sequence[int], first: int) -> dict[str, Any]:
    calls = [
        {"name": part.name, "arguments": part.arguments, "tool_call_id": part.id}
        for part in (message.parts[index] for index in indices)
        if isinstance(part, ToolCallPart)
    ]
    return {**envelope(message, kind, first), "tool_call": calls[0], "tool_calls": calls}


def approval_request(message: Message) -> dict[str, Any] | None:
    """Return the request that asks about the calls of a message which wait for an answer; ``None`` if none do."""
    waiting = [i for i, part in enumerate(message.parts) if kind_of(part, message.needs_approval) == "approval"]
    return _approval_request(message, waiting) if waiting else None


def _approval_request(message: Message, indices: Sequence[int]) -> dict[str, Any]:
    return {**_calls(message, "approval_request_message", indices, indices[0]), "otid": message.id}


def _returns(message: Message, view: View) -> list[Shown]:
    returns = [
        part for part in message.tool_returns if not (part.name == view.speech_tool and part.status == "success")
    ]
    if not returns:
        return []
    first = returns[0]
    body = {
        **envelope(message, "tool_return_message", name=first.name),
        "tool_return": first.content,
        "status": first.status,
        "tool_call_id": first.tool_call_id,
        "stdout": _lines(first.stdout),
        "stderr": _lines(first.stderr),
        "tool_returns": [_tool_return(part) for part in returns],
    }
    return [Shown((), body)]


def _tool_return(part: ToolReturnPart) -> dict[str, Any]:
    return {
        "type": "tool",
        "tool_return": part.content,
        "status": part.status,
        "tool_call_id": part.tool_call_id,
        "stdout": _lines(part.stdout),
        "stderr": _lines(part.stderr),
    }


def _lines(lines: tuple[str, ...] | None) -> list[str] | None:
    return None if lines is None else list(lines)


def _answer(message: Message) -> dict[str, Any]:
    answers = [part for part in message.parts if isinstance(part, ApprovalPart)]
    approvals: list[dict[str, Any]] = [
        {"type": "approval", "tool_call_id": part.tool_call_id, "approve": part.approve, "reason": part.reason}
        for part in answers
    ]
    approvals.extend(_tool_return(part) for part in message.tool_returns)
    return {
        **envelope(message, "approval_response_message"),
        "approvals": approvals,
        "approve": answers[0].approve if answers else None,
        "approval_request_id": message.meta.get("approval_request_id"),
        "reason": answers[0].reason if answers else None,
    }
