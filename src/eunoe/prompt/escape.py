"""How text from memory is kept inside its section (I10).

Values and descriptions are prose, Markdown and code, so only what could be taken for a tag of the prompt itself is
changed. Short one-line items (tool names, tags, skill names) have no business with ``<`` at all.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

SECTION_NAMES: Final = frozenset(
    {
        "available_skills",
        "block",
        "deferred-memory",
        "description",
        "directories",
        "directory",
        "external_projection",
        "file",
        "file_limits",
        "instructions",
        "memory",
        "memory_blocks",
        "memory_metadata",
        "memory_mirror",
        "memory_update",
        "metadata",
        "projection",
        "self",
        "tool_rule",
        "tool_usage_rules",
        "value",
        "warning",
    }
)
"""Every tag that a compiled prompt of any mode is built with. One list, so that a value reads alike in all modes."""

# ASCII only: a tag of look-alike or full-width letters could be mistaken for a reserved one.
_TAG_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

# White space, and the format characters that are drawn as nothing.
_GAP: Final = "[\\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"

_ATTRIBUTE: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


def has_own_tag(label: str) -> bool:
    """Say whether a block of this label is written as ``<label>`` and not as ``<block label="…">``.

    It is not when the label is no ASCII tag name, or when it equals a section name of the prompt in any case.
    """
    return _TAG_NAME.fullmatch(label) is not None and label.lower() not in SECTION_NAMES


def section_tags(labels: Iterable[str]) -> re.Pattern[str]:
    """Return the pattern of a ``<`` that starts a tag of a prompt which shows blocks of these labels.

    It matches opening and closing tags, in any case and with any white space before the name, finished or not.
    """
    return _section_tags(tuple(sorted({label for label in labels if has_own_tag(label)})))


@lru_cache(maxsize=256)
def _section_tags(labels: tuple[str, ...]) -> re.Pattern[str]:
    # Possessive repeats keep the search linear on long runs of white space.
    names = "|".join(re.escape(name) for name in sorted(SECTION_NAMES.union(labels)))
    return re.compile(rf"<(?={_GAP}*+(?:/{_GAP}*+)?(?:{names})(?![\w.:-]))", re.IGNORECASE)


def escape_body(text: str, tags: re.Pattern[str]) -> str:
    """Write ``<`` as ``&lt;`` where it starts a tag of the prompt; leave everything else as it is."""
    return tags.sub("&lt;", text)


def escape_attribute(text: str) -> str:
    """Escape text for use between double quotes in a tag."""
    return "".join(_ATTRIBUTE.get(character, character) for character in text)


def escape_line(text: str) -> str:
    """Return an item as one line without any ``<``: each run of white space becomes one space."""
    return " ".join(text.split()).replace("<", "&lt;")
