"""Fixtures that give a test a real notebook in a real JupyterLab.

A test usually needs `open_lab` alone::

    def test_approve(open_lab):
        lab = open_lab("print(6 * 7)")
        assert lab.run_cell(0)
        assert lab.text(0) == "42\\n"
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.browser.chromium import (
    ARGUMENTS,
    VIEWPORT,
    Chromium,
    find_chromium,
    missing_notebook,
    missing_parts,
)
from tests.browser.lab import App, Lab
from tests.browser.model import ScriptedModel
from tests.browser.notebooks import write_notebook
from tests.browser.server import LabServer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

HERE = Path(__file__).parent
ARTIFACTS = HERE.parent.parent / ".artifacts"
FAILED = pytest.StashKey[bool]()


class OpenLab(Protocol):
    """Type of the fixture `open_lab`."""

    def __call__(
        self,
        *sources: str,
        kernel: str = ...,
        viewport: tuple[int, int] = ...,
        name: str = ...,
        reads: bool = ...,
        app: App = ...,
    ) -> Lab:
        """Write a notebook of these cells into a fresh folder and open it with a fresh kernel, in JupyterLab or Notebook 7.

        JupyterLab itself may have shown other notebooks before.
        """


class Screenshot(Protocol):
    """Type of the fixture `screenshot`."""

    def __call__(self, lab: Lab, name: str, cell: int | None = ...) -> Path:
        """Save `.artifacts/screenshots/<name>.png`: the page, or one cell."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder, and keep it on two workers, each with a server and a browser."""
    files = sorted(path for path in {item.path for item in items} if path.is_relative_to(HERE))
    numbers = {path: number % 2 for number, path in enumerate(files)}
    for item in items:
        if item.path not in numbers:
            continue
        item.add_marker(pytest.mark.browser)
        # a page on a busy machine may be late once; the summary names what had to run again
        item.add_marker(pytest.mark.flaky(reruns=1))
        item.add_marker(pytest.mark.xdist_group(f"browser {numbers[item.path]}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure for the fixtures' clean-up, which runs later."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="package")
def chromium_path() -> str:
    """Path of Chromium; skips, or fails under TRACT_REQUIRE_BROWSER=1, when a part is missing."""
    _require(missing_parts())
    return find_chromium() or ""


# Package scope, not session: until it is stopped, Playwright leaves its event loop marked as
# running in this thread, and other tests' asyncio.run() would refuse to work.
@pytest.fixture(scope="package")
def browser(chromium_path: str) -> Iterator[Chromium]:
    """Chromium, shared by all tests of the folder; at the end, nothing left loopback."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        process = playwright.chromium.launch(executable_path=chromium_path, args=list(ARGUMENTS))
        chromium = Chromium(process)
        yield chromium
        process.close()
    assert not chromium.external, "pages asked for addresses outside this machine"


@pytest.fixture(scope="package")
def lab_server(chromium_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab, shared by all tests of the folder."""
    with LabServer(tmp_path_factory.mktemp("jupyterlab")) as server:
        yield server


@pytest.fixture
def open_lab(request: pytest.FixtureRequest, lab_server: LabServer, browser: Chromium) -> Iterator[OpenLab]:
    """Opens notebooks; closes them and shuts their kernels down when the test is over."""
    labs: list[Lab] = []
    folder = lab_server.fresh_folder(_file_name(request.node.name))

    def open_notebook(
        *sources: str,
        kernel: str = "python3",
        viewport: tuple[int, int] = VIEWPORT,
        name: str = "notebook.ipynb",
        reads: bool = True,
        app: App = "lab",
    ) -> Lab:
        if app == "notebook":
            _require(missing_notebook())
        path = folder / str(len(labs)) / name
        write_notebook(path, *sources, kernel=kernel)
        lab_server.reset_settings()
        # an earlier page shows JupyterLab
        page = browser.page(viewport) if app == "lab" else browser.new_page(viewport)
        lab = Lab(page, lab_server, path, kernel, app)
        lab.reads = reads
        labs.append(lab)
        return lab.open()

    yield open_notebook
    failed = request.node.stash.get(FAILED, False)
    if failed:
        _keep_evidence(request.node, labs, lab_server)
    for lab in labs:
        if failed or lab.app == "notebook":
            lab.close()
        else:
            lab.leave()
            browser.keep(lab.page)
    external = browser.take_external()
    assert not external, "the page asked for addresses outside this machine"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model on a loopback port."""
    with ScriptedModel() as made:
        yield made


@pytest.fixture
def screenshot() -> Screenshot:
    """Saves screenshots for people to look at."""

    def save(lab: Lab, name: str, cell: int | None = None) -> Path:
        return lab.shot(ARTIFACTS / "screenshots" / f"{name}.png", cell)

    return save


def _require(missing: str | None) -> None:
    """Skip the test, or fail it under TRACT_REQUIRE_BROWSER=1, if something is missing."""
    if missing:
        (pytest.fail if os.environ.get("TRACT_REQUIRE_BROWSER") == "1" else pytest.skip)(missing)


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-")[:100]


def _keep_evidence(node: pytest.Item, labs: list[Lab], server: LabServer) -> None:
    """Save the pages of a failed test. An error here never hides the failure."""
    folder = ARTIFACTS / "failures" / _file_name(node.nodeid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "server.log").write_text(server.log(), encoding="utf-8")
    for number, lab in enumerate(labs):
        (folder / f"console-{number}.txt").write_text("\n".join(lab.console), encoding="utf-8")
        try:
            lab.shot(folder / f"page-{number}.png")
        except Exception as error:
            print(f"no screenshot: {error}")
    print(f"kept for inspection: {folder}")
