"""Unified diffs in bounded time."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from tests.cpu import cpu_seconds
from tract_jupyter.models import unified_diff

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-"]), max_size=30)


@given(LINES, LINES, st.integers(1, 4))
def test_a_diff_is_that_of_difflib(before, after, context):
    expected = list(difflib.unified_diff(before, after, "old", "new", lineterm="", n=context))
    assert list(unified_diff(before, after, "old", "new", context=context)) == expected


def test_the_worst_texts_are_compared_in_bounded_time():
    before = [f"v{n % 120}" for n in range(12_000)]
    after = [line for n, known in enumerate(before) for line in (known, f"z{n}")]
    with cpu_seconds() as seconds:
        lines = list(unified_diff(before, after, context=12_000))[3:]
    assert seconds[0] < 5  # difflib needs ten minutes
    assert [line[1:] for line in lines if line[0] != "+"] == before
    assert [line[1:] for line in lines if line[0] != "-"] == after
