"""Scenarios of editing in JupyterLab, on one page with one kernel. `tests.browser.cell_matrix` runs all of them everywhere."""

from __future__ import annotations

import pytest

from tests.browser.cell_scenarios import CHAT, SCENARIOS, SETUP, Stage, run
from tests.browser.server import LABEXTENSION

pytestmark = pytest.mark.skipif(not LABEXTENSION.is_dir(), reason="the JupyterLab extension is not built")


def test_no_cell_is_lost(open_lab, browser):
    stage = Stage(open_lab(SETUP, CHAT, reads=False), browser)
    for scenario in SCENARIOS:
        if scenario.is_quick and scenario.needs != "shared":
            try:
                run(stage, scenario)
            except Exception as error:
                error.add_note(f"scenario: {scenario.name}")
                raise
