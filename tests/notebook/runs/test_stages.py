"""The view of many operations has a line for each stage, which unfolds to all names."""

import re

import pytest

from tests.notebook.runs.examples import AFTER, HOSTILE, op, operation, run
from tract_jupyter.notebook import ProfileView
from tract_jupyter.notebook.runs import RunView, picture, stages_of


def stages(*operations):
    return stages_of(picture(run(*operations)).nodes)


def wide(count, **parts):
    return [
        op(f"o{n}", order=n, depends_on=(f"o{n - 50}",) if n >= 50 else (), **parts) for n in range(count)
    ]


def test_what_waits_for_the_same_is_one_stage():
    found = stages(*wide(150), op("last", AFTER, order=1))
    assert [(one.title, len(one.nodes)) for one in found] == [
        ("Stage 1", 50),
        ("Stage 2", 50),
        ("Stage 3", 50),
        ("Stage 1 afterwards", 1),
    ]


def test_a_long_chain_is_joined_to_a_dozen_lines():
    chain = [op(f"o{n}", order=n, depends_on=(f"o{n - 1}",) if n else ()) for n in range(200)]
    found = stages(*chain)
    assert len(found) <= 12
    assert found[0].title.startswith("Stages 1 to ")
    assert [node.id for one in found for node in one.nodes] == [f"o{n}" for n in range(200)]


def test_a_line_names_what_is_not_done():
    bad = [op(f"bad{n}", status="error", order=n) for n in range(6)]
    (found,) = stages(*bad, op("slow", status="waiting", order=7), *[op(f"o{n}", order=9) for n in range(80)])
    assert found.summary.startswith("80 done")
    assert "6 error" in found.summary
    assert "bad0, bad1, bad2, bad3 and 2 more" in found.summary
    assert "slow" in found.summary


@pytest.mark.parametrize("count", [60, 61, 200])
def test_every_name_is_there_and_escaped(count):
    page = RunView(run(*wide(count - 1), op(HOSTILE, order=0))).to_html()
    assert ("tract-stages" in page) == (count > 60)
    assert "<script>" not in page
    for number in (0, count - 2):
        assert re.search(rf">o{number}<", page)


def test_a_profile_of_many_operations_has_the_same_lines():
    many = [operation(f"o{n}", order=n) for n in range(80)]
    page = ProfileView("many", many).to_html()
    assert "tract-stages" in page
    assert "Main call" in page
    assert "tract-stages" not in ProfileView("few", many[:60]).to_html()
