"""What an edit changed, in a few lines."""

from typing import Final

MOST_LINES: Final = 40
"""Lines of a short diff after which the rest is only counted."""


def short_diff(label: str, old: str, new: str) -> str:
    """Return a unified diff of one hunk with one line of context, cut after ``MOST_LINES``; empty for no change.

    It spans from the first changed line to the last, and takes time linear in the values.
    """
    if old == new:
        return ""
    before = old.split("\n") if old else []
    after = new.split("\n") if new else []
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    above = before[max(head - 1, 0) : head]
    below = before[len(before) - tail :][:1]
    context = len(above) + len(below)
    first = head - len(above)
    body = [
        *(f" {line}" for line in above),
        *(f"-{line}" for line in removed),
        *(f"+{line}" for line in added),
        *(f" {line}" for line in below),
    ]
    if len(body) > MOST_LINES:
        body = [*body[:MOST_LINES], f"… {len(body) - MOST_LINES} more lines"]
    spans = f"@@ -{_span(first, len(removed) + context)} +{_span(first, len(added) + context)} @@"
    return "\n".join([f"--- {label}", f"+++ {label}", spans, *body])


def _span(first: int, count: int) -> str:
    return f"{first + 1 if count else first},{count}"
