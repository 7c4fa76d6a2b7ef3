"""How blocks are rendered, in the standard and the line-numbered mode.

Format: Letta v1's memory section, with the ordering and escaping of our own.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from eunoe.prompt.escape import escape_attribute, escape_body, has_own_tag, section_tags
from eunoe.state.blocks import Block

INTRO: Final = "The following memory blocks are currently engaged in your core memory unit:"

LINE_NUMBER_WARNING: Final = (
    "# NOTE: The number and arrow before each line (such as '1→') are shown only to help you point at lines. "
    "They are not part of the value: never type them in a memory edit."
)
"""The text in a line-numbered block's warning. ``eunoe.memory.guard`` recognises it when a model copies it."""


def visible_blocks(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks that are rendered, in code point order of their labels; hidden ones are left out."""
    return tuple(sorted((block for block in blocks if not block.hidden), key=shown_fields))


def shown_fields(block: Block) -> tuple[str, str, str, int, bool]:
    """Return what the prompt shows of a block: label, value, description, limit, read_only."""
    return block.label, block.value, block.description or "", block.limit, block.read_only


def render_blocks(blocks: Sequence[Block], *, numbered: bool) -> tuple[tuple[str, str], ...]:
    """Return label and text of each block, for blocks that are already visible and ordered."""
    tags = section_tags(block.label for block in blocks)
    return tuple((block.label, _render(block, tags, numbered=numbered)) for block in blocks)


def memory_section(texts: Sequence[str]) -> str:
    """Return the memory section around rendered blocks; empty when there are none."""
    if not texts:
        return ""
    return "\n".join(["<memory_blocks>", INTRO, "", "\n\n".join(texts), "</memory_blocks>"])


def _render(block: Block, tags: re.Pattern[str], *, numbered: bool) -> str:
    own = has_own_tag(block.label)
    lines = [f"<{block.label}>" if own else f'<block label="{escape_attribute(block.label)}">']
    if block.description:
        lines += ["<description>", escape_body(block.description, tags), "</description>"]
    lines.append("<metadata>")
    if block.read_only:
        lines.append("- read_only=true")
    lines += [f"- chars_current={len(block.value)}", f"- chars_limit={block.limit}", "</metadata>"]
    value = escape_body(block.value, tags)
    if numbered:
        lines += ["<warning>", LINE_NUMBER_WARNING, "</warning>", "<value>", *_number(value), "</value>"]
    else:
        lines += ["<value>", value, "</value>"]
    lines.append(f"</{block.label}>" if own else "</block>")
    return "\n".join(lines)


def _number(value: str) -> list[str]:
    if not value:
        return []
    return [f"{number}→ {line}" for number, line in enumerate(value.split("\n"), start=1)]
