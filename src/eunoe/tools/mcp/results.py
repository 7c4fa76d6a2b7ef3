"""What a model reads of a server's answer to a call (pure). Imported with the library, whose types it reads."""

import msgspec
from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from eunoe.tools.protocol import ToolResult

NOTHING = "The tool returned nothing."


def result_of(answer: CallToolResult) -> ToolResult:
    """Return the result of a call: its texts in order, and of what is no text what it is.

    Structured content is told when there is nothing else, because servers repeat it as text.
    """
    told = [part for part in map(_told, answer.content) if part]
    if not told and answer.structured_content is not None:
        told = [msgspec.json.encode(answer.structured_content).decode()]
    text = "\n".join(told) or NOTHING
    # What cannot be stored or sent on: NUL, and halves of surrogate pairs.
    text = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return ToolResult(content=text, status="error" if answer.is_error else "success")


def _told(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type}, {block.mime_type}, {len(block.data)} characters of base64: not shown]"
        case ResourceLink():
            return f"[resource {block.name}: {block.uri}]"
        case EmbeddedResource():
            inner = block.resource
            if isinstance(inner, TextResourceContents):
                return inner.text
            return f"[resource {inner.uri}, {inner.mime_type or 'unknown type'}: not shown]"
