"""The timeline: operations that ran at the same time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.notebook.runs.examples import FIVE, op, run
from tract_jupyter.notebook.runs import gantt, gantt_html, gantt_text, picture


def chart_of(*operations, **parts):
    return gantt(picture(run(*operations, **parts)))


def test_rows_are_in_the_order_of_the_run():
    chart = chart_of(*FIVE)
    assert [bar.title for bar in chart.bars] == [
        "guard",
        "retrieve",
        "style",
        "rewrite",
        "main call",
        "summary",
    ]
    assert chart.seconds == pytest.approx(3.88)
    assert chart.bars[0].start == 0
    assert chart.most_at_once == 2


def test_an_operation_that_begins_when_another_ends_is_not_parallel():
    assert chart_of(op("a", start=0, took=1), op("b", start=1, took=1)).most_at_once == 1
    assert (
        chart_of(
            op("a", start=0, took=1), op("b", start=0.5, took=1), op("c", start=0.9, took=0)
        ).most_at_once
        == 3
    )


def test_an_operation_that_never_began_has_no_row():
    assert chart_of(op("a", status="skipped"), status="failed", reply=None).bars == ()


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), min_size=1, max_size=20))
def test_bars_are_inside_the_drawing(spans):
    chart = chart_of(*(op(f"o{n}", start=start, took=took) for n, (start, took) in enumerate(spans)))
    for bar in chart.bars:
        assert 0 <= bar.start <= bar.end <= chart.seconds
        drawn = gantt_text(bar, chart.seconds, 32)
        assert len(drawn) == 32
        assert "━" in drawn
        left, width = map(float, re.findall(r":([\d.]+)%", gantt_html(bar, chart.seconds)))
        assert width >= 2
        assert left + width <= 100.1
