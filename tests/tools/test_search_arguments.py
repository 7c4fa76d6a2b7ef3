"""What the model may ask of a search in the conversation."""

from datetime import UTC, datetime

import pytest

from eunoe.tools.search import parse_search


@pytest.mark.parametrize(
    ("day", "last"),
    [
        ("2026-03-29", datetime(2026, 3, 29, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("9999-12-31", datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_a_last_day_counts_as_a_whole_and_may_be_the_last_of_the_calendar(day: str, last: datetime):
    assert parse_search({"end_date": day}, "UTC").end == last
