r"""The edits that can be made to a block's value: pure functions from text to text.

A line is what stands between line feeds, so ``"a\n"`` has two lines, the second of them empty; an empty value has
none. Prompts that show line numbers count alike. Matches are exact: no tab is expanded, no white space is trimmed.
"""

from typing import Final

from eunoe.state.errors import InvalidInput

_MOST_PLACES: Final = 20
"""Places that an error names at most."""


def append(value: str, content: str) -> str:
    """Return the value with content added as new lines at its end."""
    return f"{value}\n{content}" if value else content


def replace_all(value: str, old: str, new: str, label: str) -> str:
    """Return the value with every occurrence of old text replaced.

    Raises ``InvalidInput`` when there is none, or when ``old`` is empty.
    """
    if not old:
        raise InvalidInput("old_content is empty. Give the text to replace.", field="old_content")
    if old not in value:
        raise InvalidInput(f"Old content '{old}' not found in memory block '{label}'", field="old_content")
    return value.replace(old, new)


def replace_once(value: str, old: str, new: str, label: str) -> str:
    """Return the value with the one occurrence of old text replaced; an empty ``new`` deletes it.

    Raises ``InvalidInput`` when it does not occur or occurs more than once (overlaps count), or when ``old`` is empty.
    """
    if not old:
        raise InvalidInput("old_string is empty. Give the text to replace.", field="old_string")
    starts = _occurrences(value, old)
    if not starts:
        raise InvalidInput(
            f"No replacement was performed, old_string `{old}` did not appear verbatim in memory block with label "
            f"`{label}`.",
            field="old_string",
        )
    if len(starts) > 1:
        lines = [value.count("\n", 0, start) + 1 for start in starts]
        raise InvalidInput(
            f"No replacement was performed. Multiple occurrences of old_string `{old}` in lines {lines}. "
            f"Please ensure it is unique.",
            field="old_string",
        )
    return value[: starts[0]] + new + value[starts[0] + len(old) :]


def insert(value: str, new: str, after: int = -1) -> str:
    """Return the value with new lines after line ``after``: 0 is before the first line, -1 after the last.

    Raises ``InvalidInput`` when there is no such line.
    """
    lines = value.split("\n") if value else []
    if not -1 <= after <= len(lines):
        raise InvalidInput(
            f"Invalid `insert_line` parameter: {after}. It should be within the range of lines of the memory block: "
            f"[0, {len(lines)}], or -1 to append to the end of the memory block.",
            field="insert_line",
        )
    place = len(lines) if after == -1 else after
    return "\n".join([*lines[:place], new, *lines[place:]])


def _occurrences(value: str, text: str) -> list[int]:
    starts: list[int] = []
    start = value.find(text)
    while start != -1 and len(starts) < _MOST_PLACES:
        starts.append(start)
        start = value.find(text, start + 1)
    return starts
