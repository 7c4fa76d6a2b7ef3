"""May this block be so? The one answer for every path that writes memory: API, tool, import and files (I9)."""

import re
import unicodedata
from typing import Final

from msgspec import UNSET, structs

from eunoe.state.blocks import Block, BlockChanges, BlockSpec
from eunoe.state.errors import BlockLimitExceeded, InvalidInput, ReadOnlyBlock

MAX_LABEL: Final = 255
"""Characters of the longest label."""

MAX_LIMIT: Final = 10_000_000
"""The largest limit that a block may have, in characters."""

MAX_DESCRIPTION: Final = 20_000
"""Characters of the longest description."""

MAX_REASON: Final = 20_000
"""Characters of the longest reason of a change."""

_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_PROTECTED: Final = ("label", "value", "description", "limit")


def check_text(text: str, field: str) -> None:
    """Raise ``InvalidInput`` when text holds a control character other than tab and newline, or half a surrogate pair.

    The error names the field, the code point and its offset in characters.
    """
    found = _FORBIDDEN.search(text)
    if found is None:
        return
    code = ord(found[0])
    advice = (
        "Use a line feed alone for line ends." if code == 0x0D else "Only tab and line feed may stand among the text."
    )
    raise InvalidInput(
        f"The {field} has the character U+{code:04X} at offset {found.start()}, which cannot be stored. {advice}",
        field=field,
        code_point=f"U+{code:04X}",
        offset=found.start(),
    )


def check_reason(why: str, field: str = "why") -> None:
    """Raise ``InvalidInput`` when the reason of a change cannot be kept as it is: git ends a message at U+0000."""
    check_text(why, field)
    if len(why) > MAX_REASON:
        raise InvalidInput(
            f"The {field} has {len(why)} characters, over the limit of {MAX_REASON}. Shorten it.",
            field=field,
            limit=MAX_REASON,
            actual=len(why),
        )


def check_label(label: str) -> None:
    """Raise ``InvalidInput`` unless this can be a label: 1 to 255 characters on one line, no white space around.

    Its parts between slashes are names: labels are paths in addresses and in memory files.
    """
    if not label.strip():
        raise InvalidInput("The label is blank. Give the block a label such as 'human'.", field="label")
    if len(label) > MAX_LABEL:
        raise InvalidInput(
            f"The label has {len(label)} characters; at most {MAX_LABEL} are allowed.",
            field="label",
            limit=MAX_LABEL,
            actual=len(label),
        )
    if label != label.strip():
        raise InvalidInput(f"The label {label!r} starts or ends with white space. Remove it.", field="label")
    check_text(label, "label")
    if any(part in {"", ".", ".."} for part in label.split("/")):
        raise InvalidInput(
            f"The label {label!r} has an empty part, '.' or '..' between its slashes, and cannot be a path.",
            field="label",
        )
    for offset, character in enumerate(label):
        if character in "\t\n" or unicodedata.category(character) in {"Zl", "Zp"}:
            raise InvalidInput(
                f"The label {label!r} has a tab or a line break at offset {offset}. A label is one line of text.",
                field="label",
                offset=offset,
            )


def check_new(spec: BlockSpec) -> None:
    """Raise unless a block may be created so.

    Raises ``InvalidInput`` for a bad label, text, description or limit, and ``BlockLimitExceeded`` for a value that
    is longer than the limit.
    """
    check_label(spec.label)
    _check_limit(spec.limit)
    _check_description(spec.description)
    check_text(spec.value, "value")
    _check_length(spec.label, spec.value, spec.limit)


def check_change(block: Block, changes: BlockChanges) -> Block:
    """Return the block with the changes applied; its revision and times stay as they are.

    A field that is set to what it already is, is no change. Raises ``ReadOnlyBlock`` when label, value, description or
    limit of a read-only block would change, unless the same changes make it writable; ``InvalidInput`` as
    ``check_new`` does; ``BlockLimitExceeded`` when the value would be longer than the limit, whichever of the two
    changes.
    """
    changed = {
        field: new
        for field, new in structs.asdict(changes).items()
        if new is not UNSET and new != getattr(block, field)
    }
    if block.read_only and changes.read_only is not False and any(field in changed for field in _PROTECTED):
        raise ReadOnlyBlock(block.label)
    result = structs.replace(block, **changed)
    if "label" in changed:
        check_label(result.label)
    if "limit" in changed:
        _check_limit(result.limit)
    if "description" in changed:
        _check_description(result.description)
    if "value" in changed:
        check_text(result.value, "value")
    if "value" in changed or "limit" in changed:
        _check_length(result.label, result.value, result.limit)
    return result


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(
            f"The limit {limit} is out of range. It counts characters and must be from 1 to {MAX_LIMIT}.",
            field="limit",
            limit=limit,
        )


def _check_description(description: str | None) -> None:
    if description is None:
        return
    check_text(description, "description")
    if len(description) > MAX_DESCRIPTION:
        raise InvalidInput(
            f"The description has {len(description)} characters; at most {MAX_DESCRIPTION} are allowed.",
            field="description",
            limit=MAX_DESCRIPTION,
            actual=len(description),
        )


def _check_length(label: str, value: str, limit: int) -> None:
    if len(value) > limit:
        raise BlockLimitExceeded(label, limit, len(value))
