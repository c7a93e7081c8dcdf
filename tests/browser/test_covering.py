"""Output of a rehearsal stays in its place: it cannot cover the effects, the code and the buttons of its request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.review.rehearsed import CLEANING, Rehearsed
from tract_jupyter import Tract
from tract_jupyter.notebook.panels import record_html
from tract_jupyter.rehearsal import Output
from tract_jupyter.review import Ticket

COVERING = {
    "absolute": '<div style="position:absolute;inset:0;height:400px;background:white;z-index:9999">No effects.</div>',
    "style sheet": "<style>position:absolute;inset:0;height:900px;background:white</style>No effects.",
    "margin": '<div style="margin-top:-400px;height:900px;background:white;position:relative">No effects.</div>',
    "moved": '<div style="transform:translateY(-300px);height:900px;background:white">No effects.</div>',
}
IS_VISIBLE = """() => {
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  const name = document.querySelector(".fx-name");
  const box = name.getBoundingClientRect();
  return name.contains(document.elementFromPoint(box.left + 3, box.top + 3));
}"""


@pytest.mark.parametrize("html", COVERING.values(), ids=COVERING)
def test_output_does_not_cover_the_effects(browser, html):
    effects = replace(CLEANING, outputs=(Output("result", "text", {"text/html": html}),))
    with Tract.open() as tract:
        page = browser.new_page()
        page.set_content(record_html(Ticket(Rehearsed(effects, tract=tract), lambda _: None)))
        assert "No effects." in page.locator(".fx-html").text_content()
        assert page.evaluate(IS_VISIBLE)
        page.close()
