"""One browser page with one notebook open in JupyterLab or Notebook 7, driven as a person would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from tests.browser.notebooks import read_notebook
from tests.browser.server import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import nbformat
    from playwright.sync_api import Locator, Page

    from tests.browser.server import LabServer

App = Literal["lab", "notebook"]
TIMEOUT = 90.0  # seconds, of a machine that does other things too; opening, running and waiting all take one


_READER = """reads => {
  clearInterval(window.tractReader);
  let last = null; // at the edge of the view it may be cut by a part of a pixel
  const isUnread = (part) => part.getClientRects().length > 0 && !part.dataset.line.split(" ").every((key) => tractSeen.has(key));
  const readOn = () => {
    for (const panel of document.querySelectorAll("[data-testid=tract-panel], [data-testid=tract-batch]")) {
      if (!panel.querySelector("button[aria-disabled=true], .select:disabled")) continue;
      const part = [...panel.querySelectorAll("[data-line]")].find(isUnread);
      if (part) { part.scrollIntoView({ block: part === last ? "center" : "nearest" }); last = part; return; }
      const fold = panel.querySelector(".unfold[aria-expanded=false]");
      if (fold) { fold.click(); return; }
    }
  };
  if (reads) window.tractReader = setInterval(readOn, 400);
}"""
"""Scrolls to what was not on display yet, and lets it stand there for long enough."""


class KernelCodeError(AssertionError):
    """Code that a test ran in the kernel raised; the message is its traceback."""


_STATE_OF_REQUESTS = """all => all.map(q => ({
  busy: q.getAttribute("aria-busy"), status: q.dataset.status, why: q.querySelector(".why")?.textContent,
  held: [...q.querySelectorAll("[data-approves]")].map(one => [one.textContent, one.disabled, one.getAttribute("aria-disabled")]),
  focus: document.activeElement?.outerHTML.slice(0, 200),
}))"""


class Lab:
    """A notebook in JupyterLab, or in Notebook 7. Cells are counted from 0; times are in seconds.

    No method sleeps. Each returns when its condition is true, and raises
    `TimeoutError` with the content of the cell if it never is.

    Attributes:
        page: The Playwright page, for methods that this class does not have.
        server: The server it talks to.
        path: The notebook's file.
        store: The file of the notebook's context.
        app: What shows it.
        reads: True if the driver reads every panel to the end, because most tests are about later steps.
        console: The browser's console so far, "type: text" each, with uncaught errors.
    """

    def __init__(
        self, page: Page, server: LabServer, path: Path, kernel: str = "python3", app: App = "lab"
    ) -> None:
        self.page = page
        self.app = app
        self.reads = True
        self.server = server
        self.path = path
        self.kernel = kernel
        self.console: list[str] = []
        self.store = path.parent / ".tract" / f"{path.stem}.db"
        self._listeners = {
            "console": lambda message: self.console.append(f"{message.type}: {message.text}"),
            "pageerror": lambda error: self.console.append(f"pageerror: {error}"),
            "dialog": lambda dialog: dialog.accept(),  # "leave this page?" on reload
        }
        for event, listener in self._listeners.items():
            page.on(event, listener)

    # Opening

    @property
    def api_path(self) -> str:
        """The notebook's path as the server names it."""
        return self.path.relative_to(self.server.root).as_posix()

    def open(self, *, wait: bool = True) -> Lab:
        """Open the notebook and wait for its kernel; the front end is loaded if the page does not show it yet.

        Args:
            wait: False if a cell is running and continues.
        """
        if not self.page.evaluate("window.jupyterapp !== undefined"):
            self._load()
        self._call("open", self.api_path, self.kernel, wait, timeout=2 * TIMEOUT)
        self._wait("isCurrent")
        if wait:
            self.wait_idle()
        self.page.evaluate(_READER, self.reads)
        return self

    def reload(self, *, wait: bool = True) -> Lab:
        """Load the page again, as after F5: unsaved changes are gone, the kernel's state is not."""
        self._load()
        return self.open(wait=wait)

    def reopen(self) -> Lab:
        """Open the notebook as on another day: it was closed unsaved, and its kernel shut down."""
        self._close_notebook()
        self.end_kernel()
        return self.open()

    def leave(self) -> None:
        """Close the notebook unsaved, and leave JupyterLab as it is when it has been loaded; the kernel shuts down.

        Notebook 7 has one notebook on a page: `close` it.
        """
        self._close_notebook()
        self.theme(LIGHT)
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)
        self.end_kernel()

    def close(self) -> None:
        """Close the page with its profile and shut the kernel down."""
        self.page.context.close()
        self.end_kernel()

    def end_kernel(self) -> None:
        """Shut the kernel down from outside, as the server's "shut down" does."""
        self.server.end_session(self.api_path)

    def _close_notebook(self) -> None:
        if self.app == "notebook":
            self.page.goto("about:blank")
            return
        self._call("close")
        self._wait("isEmpty")

    def _load(self) -> None:
        # "reset" forgets the layout of the previous visit
        place = "lab?reset&" if self.app == "lab" else f"notebooks/{quote(self.api_path)}?"
        self.page.goto(f"{self.server.url}/{place}token={self.server.token}")
        self.page.wait_for_function("window.jupyterapp !== undefined", timeout=TIMEOUT * 1000)
        self._call("started", timeout=2 * TIMEOUT)
        if self.app == "notebook":
            self._wait("hasShown", self.api_path)
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    # Running

    def run_cell(self, index: int, *, wait: bool = True, timeout: float = TIMEOUT) -> bool | None:
        """Run one cell and stay on it.

        Args:
            index: Which cell.
            wait: True returns when it has finished and the kernel is idle; False as soon as it
                is running (or queued), for cells that wait for a click.
            timeout: Seconds to wait for the end.

        Returns:
            Whether the cell ended without an error; None if not waited for.
        """
        before = self._call("start", index)
        if wait:
            return self.wait_cell(index, timeout=timeout)
        self._wait("hasStarted", index, before)
        return None

    def wait_cell(self, index: int, *, timeout: float = TIMEOUT) -> bool:
        """Wait for the end of a cell that `run_cell` started; whether it ended without an error."""
        ok = self._call("finished", index, timeout=timeout, cell=index)
        self.wait_idle(timeout=timeout)
        return bool(ok)

    def run_all(self, *, timeout: float = 2 * TIMEOUT) -> bool:
        """Run all cells and wait; whether all of them ended without an error."""
        ok = self._call("runAll", timeout=timeout)
        self.wait_idle(timeout=timeout)
        return bool(ok)

    def wait_idle(self, *, timeout: float = TIMEOUT) -> None:
        """Wait until no cell shows `[*]` and the kernel is idle."""
        self._wait("isIdle", timeout=timeout)

    def set_source(self, index: int, source: str) -> None:
        """Replace a cell's source."""
        self._call("setSource", index, source)

    def answer_input(self, prompt: str, answer: str) -> None:
        """Type an answer into the box of `input(prompt)`; part of the prompt is enough."""
        # for a moment after an answer the old box is still there: choose by prompt
        box = self.page.locator(".jp-Stdin").filter(has_text=prompt).locator("input.jp-Stdin-input")
        box.fill(answer)
        box.press("Enter")

    # Kernel

    def execute(self, code: str, *, timeout: float = TIMEOUT) -> str:
        """Run code in the kernel outside any cell, and return its printed text.

        Raises:
            KernelCodeError: The code raised.
        """
        done = self._call("execute", code, timeout=timeout)
        if not done["ok"]:
            raise KernelCodeError(re.sub(r"\x1b\[[0-9;]*m", "", done["text"]))
        return str(done["text"])

    def interrupt(self) -> None:
        """Interrupt the kernel, as the stop button does; does not wait for the effect."""
        self._call("interrupt")

    def restart(self) -> None:
        """Restart the kernel and wait until it answers. Outputs stay, as in JupyterLab."""
        self._call("restart")
        self.wait_idle()

    def wait_comms(self) -> None:
        """Wait until every widget's messages have their way into a busy kernel.

        JupyterLab assigns subshells some 20-60 ms after a kernel's first widget appears. A click
        before that waits for the running cell to end, which no person is quick enough to see.
        """
        self._wait("commsReady")

    # Output

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """A cell's outputs in nbformat's form, from the notebook's model."""
        outputs: list[dict[str, Any]] = self._call("outputs", index)
        return outputs

    def text(self, index: int) -> str:
        """A cell's streams, tracebacks and text/plain, without terminal colours."""
        return str(self._call("text", index))

    def wait_output(self, index: int, text: str, *, timeout: float = TIMEOUT) -> str:
        """Wait until a cell's text contains `text`; returns all of the cell's text."""
        self._wait("hasText", index, text, timeout=timeout, cell=index)
        return self.text(index)

    def cell(self, index: int) -> Locator:
        """The whole cell in the page."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        """A cell's output area in the page, without the source."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def button(self, name: str, cell: int | None = None) -> Locator:
        """The button with exactly this accessible name: in one cell's output, or in the page."""
        where = self.page if cell is None else self.output(cell)
        return where.get_by_role("button", name=name, exact=True)

    def unfold(self, cell: int) -> None:
        """Unfold the first question of a cell's output, if it is folded."""
        fold = self.output(cell).locator(".unfold").first
        fold.wait_for()
        fold.evaluate("fold => { if (fold.getAttribute('aria-expanded') === 'false') fold.click(); }")

    def reject(self, cell: int, reason: str = "") -> None:
        """Reject the first question of a cell's output, with a reason, as a person types it."""
        self.button("Reject…", cell).first.click()
        field = self.output(cell).get_by_label("Reason", exact=True).first
        field.fill(reason)
        field.press("Enter")

    def change(self, cell: int, name: str, value: str) -> None:
        """Change a value of the first request in a cell's output: in its line, or in the form below."""
        question = self.output(cell).locator("section.q").first
        in_line = question.get_by_role("button", name=f"Change {name}", exact=True)
        in_form = question.locator(".edits .in:not([hidden])").get_by_label(name, exact=True)
        in_line.or_(in_form).first.wait_for(state="attached")
        if in_line.is_visible():
            in_line.click()
            field = question.get_by_label(f"{name}=", exact=True)
        else:
            self.unfold(cell)
            field = in_form
            if not field.is_visible():  # it is at its default
                question.locator("details[data-part='change defaults'] > summary").click()
        field.fill(value)
        if in_line.is_visible() or not in_form.is_visible():
            field.press("Enter")

    # Document and looks

    def save(self) -> nbformat.NotebookNode:
        """Save the notebook and read the file back."""
        self._call("save")
        self._wait("isSaved")
        return read_notebook(self.path)

    def theme(self, name: str) -> None:
        """Switch to a theme (`LIGHT` or `DARK` of `tests.browser.server`) and wait for its style."""
        self._call("setTheme", name)
        self._wait("hasTheme", name)

    def each_theme(self) -> Iterator[str]:
        """Switch to the light and to the dark theme, and yield the name of each."""
        for name, theme in (("light", LIGHT), ("dark", DARK)):
            self.theme(theme)
            yield name

    def shot(self, path: Path, cell: int | None = None) -> Path:
        """Save a screenshot of the page, or of one cell."""
        path.parent.mkdir(parents=True, exist_ok=True)
        seen = self.page if cell is None else self.cell(cell)
        seen.screenshot(path=path, animations="disabled")
        return path

    # Calls into driver.js

    def _call(self, name: str, *args: Any, timeout: float = TIMEOUT, cell: int | None = None) -> Any:
        script = "([name, args, limit]) => window.labDriver.call(name, args, limit)"
        result = self.page.evaluate(script, [name, list(args), timeout * 1000])
        if result.get("late"):
            raise self._late(name, args, timeout, cell)
        return result.get("value")

    def _wait(self, name: str, *args: Any, timeout: float = TIMEOUT, cell: int | None = None) -> None:
        from playwright.sync_api import TimeoutError as PlaywrightTimeout

        script = "([name, args]) => window.labDriver.check(name, args)"
        try:
            self.page.wait_for_function(script, arg=[name, list(args)], timeout=timeout * 1000, polling=20)
        except PlaywrightTimeout:
            raise self._late(name, args, timeout, cell) from None

    def _late(self, name: str, args: tuple[Any, ...], timeout: float, cell: int | None) -> TimeoutError:
        if cell is None:
            return TimeoutError(f"{name}{args} not within {timeout} s")
        shown = self.output(cell).evaluate_all("outputs => outputs.map(one => one.innerText).join('\\n')")
        state = self.output(cell).locator("section.q").evaluate_all(_STATE_OF_REQUESTS)
        shown = f"; cell {cell} shows:\n{self.text(cell)}\non the page:\n{shown}\nits requests: {state}"
        return TimeoutError(f"{name}{args} not within {timeout} s{shown}")
