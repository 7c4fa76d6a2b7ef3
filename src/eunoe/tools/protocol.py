"""What a tool gets and gives. Memory edits are apart: they are pure and run inside the checkpoint (I2, I8)."""

from msgspec import Struct

from eunoe.state.messages import ToolStatus


class ToolResult(Struct, frozen=True, kw_only=True):
    """What came of a call. ``content`` is what the model reads; ``refused`` says that the tool never started."""

    content: str
    status: ToolStatus = "success"
    refused: bool = False
    stdout: tuple[str, ...] | None = None
    stderr: tuple[str, ...] | None = None
