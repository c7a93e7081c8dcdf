"""`python -m tests.browser.cell_matrix [APP] [WORD...]` runs all scenarios of editing in JupyterLab and Notebook 7, with and without collaboration.

It prints a table. Words choose the scenarios whose names have one of them. Two users need `jupyter-collaboration`.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final, get_args

from playwright.sync_api import sync_playwright

from tests.browser.cell_scenarios import CHAT, SCENARIOS, SETUP, Scenario, Stage, run
from tests.browser.chromium import ARGUMENTS, Chromium, find_chromium
from tests.browser.lab import App, Lab
from tests.browser.notebooks import write_notebook
from tests.browser.server import LabServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ALONE: Final = "--YDocExtension.disable_rtc=True"


def main(words: Sequence[str]) -> int:
    """Print the table. Return 1 if a scenario failed."""
    chosen = [one for one in SCENARIOS if not words or any(word in one.name for word in words)]
    failed = 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        process = playwright.chromium.launch(executable_path=find_chromium(), args=list(ARGUMENTS))
        for is_shared in (False, True) if find_spec("jupyter_server_ydoc") else (False,):
            options = [_ALONE] if find_spec("jupyter_server_ydoc") and not is_shared else []
            with LabServer(Path(folder) / str(is_shared), *options) as server:
                for app in get_args(App):
                    browser = Chromium(process)
                    fitting = [one for one in chosen if is_shared or one.needs != "shared"]
                    failed += _run_all(server, browser, app, fitting, is_shared=is_shared)
        process.close()
    return int(failed > 0)


def _run_all(
    server: LabServer, browser: Chromium, app: App, scenarios: Sequence[Scenario], *, is_shared: bool
) -> int:
    """Run scenarios in one front end, and return the number of failed ones."""
    name = f"{app}{', shared' if is_shared else ''}"
    passed, seconds, stages = 0, 0.0, _stages(server, browser, app, is_shared=is_shared)
    stage = next(stages)
    for scenario in scenarios:
        started = perf_counter()
        try:
            run(stage, scenario)
        except Exception:  # the other scenarios still run
            print(f"{name}: FAILED: {scenario.name}\n{traceback.format_exc()}", flush=True)
            with suppress(Exception):
                stage.lab.shot(Path(f".artifacts/matrix/{app}-{is_shared}-{scenario.name}.png"))
            stage = next(stages)
        else:
            passed += 1
            print(f"{name}: {scenario.name}: {perf_counter() - started:.1f} s", flush=True)
        seconds += perf_counter() - started
        if scenario.needs != "shared":
            stage.close_other()
    stages.close()
    print(f"{name}: {passed} of {len(scenarios)} scenarios in {seconds:.0f} s", flush=True)
    return len(scenarios) - passed


def _stages(server: LabServer, browser: Chromium, app: App, *, is_shared: bool) -> Iterator[Stage]:
    """Yield a new notebook each time, and close the previous one."""
    while True:
        path = write_notebook(server.fresh_folder("matrix") / "notebook.ipynb", SETUP, CHAT)
        lab = Lab(browser.new_page(), server, path, app=app)
        lab.reads = False
        stage = Stage(lab.open(), browser, is_shared=is_shared)
        try:
            yield stage
        finally:
            with suppress(Exception):
                stage.close_other()
            with suppress(Exception):
                lab.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
