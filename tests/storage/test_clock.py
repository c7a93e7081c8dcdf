"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from tract_jupyter.storage import from_text, now_text, to_text

MOMENTS = st.timedeltas(timedelta(0), timedelta(days=2_900_000)).map(
    lambda passed: datetime(1970, 1, 2, tzinfo=timezone(timedelta(hours=9))) + passed
)


@given(MOMENTS, MOMENTS)
def test_texts_are_in_the_order_of_time_and_are_read_back(one, other):
    assert (to_text(one) < to_text(other)) == (one < other)
    assert from_text(to_text(one)) == one


def test_the_present_has_the_same_form():
    before = datetime.now(UTC)
    texts = [now_text() for _ in range(1000)]
    assert texts == sorted(texts)
    assert [to_text(from_text(text)) for text in texts] == texts
    assert before <= from_text(texts[0]) <= from_text(texts[-1]) <= datetime.now(UTC)
