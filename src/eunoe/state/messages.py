"""Messages: the append-only log of a conversation, in one form for every provider.

A stored message never changes. Providers (``models/``) and the wire (``server/wire/``) translate at the edge.
"""

from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

Role = Literal["system", "user", "assistant", "tool", "summary", "approval"]
"""``system`` here is a system-role message inside the conversation (the compiled prompt is kept apart);
``tool`` carries the returns of one assistant message's calls; ``summary`` stands for what compaction took out of the
window; ``approval`` records an answer to an approval request and is never sent to a model."""

ToolStatus = Literal["success", "error"]


class TextPart(Struct, frozen=True, kw_only=True, tag="text", omit_defaults=True):
    """Plain text. ``provider`` holds opaque data that its model wants back verbatim (signatures and the like)."""

    text: str
    provider: dict[str, Any] | None = None


class ImagePart(Struct, frozen=True, kw_only=True, tag="image", omit_defaults=True):
    """An image: either ``url``, or base64 ``data`` with its ``media_type``."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    detail: str | None = None


class ReasoningPart(Struct, frozen=True, kw_only=True, tag="reasoning", omit_defaults=True):
    """A model's reasoning. ``text`` is empty when the provider hides it.

    ``signature`` and ``provider`` are opaque and are replayed verbatim to the provider that made them.
    """

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    provider: dict[str, Any] | None = None


class ToolCallPart(Struct, frozen=True, kw_only=True, tag="tool_call", omit_defaults=True):
    """A tool call that a model asked for. ``arguments`` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str
    provider: dict[str, Any] | None = None


class ToolReturnPart(Struct, frozen=True, kw_only=True, tag="tool_return", omit_defaults=True):
    """What came of one tool call. ``content`` is what the model reads.

    ``refused`` marks a call whose tool never started: it broke a rule, was denied, or could not be read.
    """

    tool_call_id: str
    name: str
    content: str
    status: ToolStatus = "success"
    refused: bool = False
    stdout: tuple[str, ...] | None = None
    stderr: tuple[str, ...] | None = None


class ApprovalPart(Struct, frozen=True, kw_only=True, tag="approval", omit_defaults=True):
    """A person's answer about one tool call."""

    tool_call_id: str
    approve: bool
    reason: str | None = None


Part = TextPart | ImagePart | ReasoningPart | ToolCallPart | ToolReturnPart | ApprovalPart

POSITION_STEP: Final = 1000
"""Distance between neighbours in a conversation; the gaps take what heals a broken history (I3)."""


class Message(Struct, frozen=True, kw_only=True):
    """One message.

    ``seq`` is its place among all messages of the store, ``position`` its place in the conversation that it was read
    from; both are given by the store (0 before that). ``needs_approval`` lists the call ids of an assistant message
    that wait for a person or the client.
    """

    id: str
    agent_id: str
    conversation_id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: datetime
    otid: str | None = None
    name: str | None = None
    sender_id: str | None = None
    group_id: str | None = None
    run_id: str | None = None
    step_id: str | None = None
    model: str | None = None
    needs_approval: tuple[str, ...] = ()
    meta: dict[str, Any] = {}
    """What belongs to one role only: compaction statistics of a summary, the reason of a healing return."""
    seq: int = 0
    position: int = 0

    @property
    def text(self) -> str:
        """All text parts joined; empty when there are none."""
        return "".join([part.text for part in self.parts if isinstance(part, TextPart)])

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls that this message asks for, in order."""
        return tuple([part for part in self.parts if isinstance(part, ToolCallPart)])

    @property
    def tool_returns(self) -> tuple[ToolReturnPart, ...]:
        """The returns that this message carries, in order."""
        return tuple([part for part in self.parts if isinstance(part, ToolReturnPart)])


class NewMessage(Struct, frozen=True, kw_only=True):
    """A message as a caller gives it, before it has an id or a place."""

    role: Literal["user", "system", "assistant"]
    parts: tuple[Part, ...]
    otid: str | None = None
    name: str | None = None
    sender_id: str | None = None
    group_id: str | None = None
    created_at: datetime | None = None
