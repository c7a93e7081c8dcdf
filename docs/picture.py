"""Make the picture of the README: `python docs/picture.py`.

It is the quickstart in a headless JupyterLab, with its scripted model, walked through as a person would. Needs
Chromium and the extras `lab` and `test`.

`python docs/picture.py FOLDER` leaves the committed picture as it is and writes into that folder: the picture, and the
notebook as it was saved after the walk, which `docs/build.py` puts on the site.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parent
sys.path.append(str(DOCS.parent))

SIZE: Final = (1000, 1225)
"""Of the window, in pixels."""
_NO_SIDEBAR: Final = "() => window.jupyterapp.commands.execute('application:toggle-left-area')"


def main(folder: Path | None) -> None:
    """Walk through the notebook, and save what is to be seen."""
    from playwright.sync_api import sync_playwright

    from tests.browser.chromium import ARGUMENTS, Chromium, find_chromium
    from tests.browser.server import LabServer
    from tests.browser.tutorials import Walk, find_cell

    with (
        tempfile.TemporaryDirectory() as place,
        LabServer(Path(place)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(ARGUMENTS))
        walk = Walk(Chromium(browser).page(SIZE), server, "quickstart")
        lab = walk.lab
        lab.page.evaluate(_NO_SIDEBAR)
        cell = find_cell(walk.cells, "Clean this table")
        walk.run_to(cell)
        walk.show(cell)
        picture = (folder or DOCS) / "picture.png"
        lab.page.locator(".jp-WindowedPanel-outer").first.screenshot(path=picture, animations="disabled")
        walk.finish()
        if folder is not None:
            lab.save()
            shutil.copy(lab.path, folder)
        browser.close()
    sys.stdout.write(f"{picture}: {picture.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
