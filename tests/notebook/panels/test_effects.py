"""The effects of a rehearsal in a panel, in the inbox and in a record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.notebook.panels.test_render import HOSTILE, outline
from tests.review.rehearsed import CLEANING, MANY, REFUSED, Rehearsed
from tract_jupyter.notebook.panels import body_html, panel_data, record_html
from tract_jupyter.rehearsal import FileEffect, Output, RowChange, TableChange, VariableEffect
from tract_jupyter.review import Ticket


@pytest.fixture
def ticket(tract):
    def make(effects):
        return Ticket(Rehearsed(effects, tract=tract), lambda _: None)

    return make


def test_a_panel_shows_the_effects_apart_from_the_code(ticket):
    shown = ticket(CLEANING)
    view = panel_data(shown)
    assert (view["has_effects"], view["needed_effects"]) == (True, 2)
    assert view["is_risky"]
    assert "Overwrites data/sightings.csv" in outline(view["effects_html"]).text
    assert "Overwrites data/sightings.csv" not in view["body_html"]
    assert all(key in view["effects_html"] for key in shown.needed_effects)
    assert "overwrites a file" in view["risk_html"]


def test_a_record_and_the_inbox_have_the_effects_and_their_details(ticket):
    shown = ticket(CLEANING)
    for html in (body_html(shown), record_html(shown)):
        text = outline(html).text
        assert text.index("Creates clean") < text.index("432 → 409 rows")
        assert "graet tit" in text
        assert "data:image/png;base64," in html
    assert "data-line" not in record_html(shown)


def test_many_files_are_folded_with_their_number(ticket):
    html = panel_data(ticket(MANY))["effects_html"]
    assert html.count('class="fx"') < 60
    assert "190 more effects" in outline(html).text
    assert "out/part_198.csv" in html


def test_texts_of_the_copy_are_escaped(ticket):
    hostile = replace(
        CLEANING,
        variables=(
            VariableEffect(HOSTILE, "changed", HOSTILE, HOSTILE + "2", HOSTILE, aliases=(HOSTILE,)),
            VariableEffect(
                "t",
                "changed",
                table=TableChange(
                    1, 1, (HOSTILE,), sample=(RowChange("changed", 0, (HOSTILE,), (HOSTILE + "2",)),)
                ),
            ),
        ),
        files=(FileEffect(HOSTILE, "changed", 1, 2, diff=f"-{HOSTILE}\n+{HOSTILE}2"),),
        outputs=(
            Output("text", HOSTILE),
            Output("display", HOSTILE, {"text/html": HOSTILE}),
            Output("result", HOSTILE, {"text/html": "<img src=x onerror=alert(1)>"}),
        ),
    )
    for html in (panel_data(ticket(hostile))["effects_html"], record_html(ticket(hostile))):
        assert not {"script", "iframe"} & outline(html).tags
        assert "onerror" not in html


def test_a_refused_attempt_is_named(ticket):
    text = outline(panel_data(ticket(REFUSED))["effects_html"]).text
    assert "connect to api.weather.example:443" in text
    assert "refused, 2 times, line 4" in text
