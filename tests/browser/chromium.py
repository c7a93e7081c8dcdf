"""Headless Chromium that reaches loopback addresses only."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route, WebSocketRoute

DRIVER = Path(__file__).with_name("driver.js")
EXTERNAL = re.compile(r"^(https?|wss?|ftp)://(?!(127\.0\.0\.1|localhost)[:/])")
VIEWPORT = (1280, 900)

ARGUMENTS = (
    "--disable-gpu",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--font-render-hinting=none",  # steadier text in screenshots
    # holds for the browser's own traffic too, which no page route sees
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def find_chromium() -> str | None:
    """Path of the Chromium to use: `CHROMIUM` in the environment, or the first one on PATH."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def missing_parts() -> str | None:
    """What this machine lacks for browser tests, as a sentence; None when nothing."""
    for module in ("playwright", "jupyterlab", "ipywidgets"):
        if importlib.util.find_spec(module) is None:
            return f"browser tests need the Python package {module}"
    chromium = find_chromium()
    if chromium is None:
        return "browser tests need Chromium: install it or set CHROMIUM to its path"
    if shutil.which(chromium) is None:
        return f"CHROMIUM names no executable: {chromium}"
    return None


def missing_notebook() -> str | None:
    """What Notebook 7 lacks here, as a sentence; None when nothing."""
    there = importlib.util.find_spec("notebook") is not None
    return None if there else "tests in Notebook 7 need the Python package notebook"


class Chromium:
    """A running browser whose requests to other machines are aborted and noted.

    Attributes:
        external: Addresses that pages asked for and did not get.
    """

    def __init__(self, browser: Browser) -> None:
        self.external: list[str] = []
        self._browser = browser
        self._kept: list[Page] = []

    def page(self, viewport: tuple[int, int] = VIEWPORT) -> Page:
        """A page with `driver.js`: an earlier one, or a new one with a separate profile.

        Loading JupyterLab takes longer than most tests, so tests share a page.
        """
        if not self._kept:
            return self.new_page(viewport)
        page = self._kept.pop()
        page.set_viewport_size({"width": viewport[0], "height": viewport[1]})
        return page

    def keep(self, page: Page) -> None:
        """Have the next one who needs a page use this one; it must show JupyterLab as it was when it was loaded."""
        self._kept.append(page)

    def take_external(self) -> list[str]:
        """The addresses noted so far; they are forgotten."""
        taken, self.external = self.external, []
        return taken

    def new_page(self, viewport: tuple[int, int] = VIEWPORT) -> Page:
        """An empty page with a separate profile."""
        context = self._browser.new_context(
            color_scheme="light",
            reduced_motion="reduce",
            service_workers="block",  # their requests would pass by the routes
        )
        context.set_default_timeout(60_000)
        context.add_init_script(path=DRIVER)
        context.route(EXTERNAL, self._abort)
        context.route_web_socket(EXTERNAL, self._close)
        page = context.new_page()
        page.set_viewport_size({"width": viewport[0], "height": viewport[1]})
        return page

    def _abort(self, route: Route) -> None:
        self.external.append(route.request.url)
        route.abort()

    def _close(self, socket: WebSocketRoute) -> None:
        self.external.append(socket.url)
        socket.close()
