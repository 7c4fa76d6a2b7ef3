"""What a tool gets and gives. Memory edits are apart: they are pure and run inside the checkpoint (I2, I8)."""

from typing import Any, Protocol

from msgspec import Struct

from eunoe.state.messages import ToolStatus
from eunoe.state.tools import Tool


class ToolResult(Struct, frozen=True, kw_only=True):
    """What came of a call. ``content`` is what the model reads; ``refused`` says that the tool never started."""

    content: str
    status: ToolStatus = "success"
    refused: bool = False
    stdout: tuple[str, ...] | None = None
    stderr: tuple[str, ...] | None = None


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call with its arguments parsed."""

    id: str
    name: str
    arguments: dict[str, Any]
    agent_id: str
    conversation_id: str


class ToolRunner(Protocol):
    """Runs the tools that have effects. Never raises for a failing tool: that is a result with status error."""

    async def run(self, tool: Tool, call: ToolCall) -> ToolResult:
        """Run one call."""
        ...
