"""A walk through notebooks/quickstart.ipynb, as a person takes it: for its test, and for the picture of the README."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat

from tests.browser.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator, Page

    from tests.browser.server import LabServer

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"
REASON = "Keep the original file."


class Quickstart:
    """The notebook, opened in JupyterLab with what lies beside it.

    Attributes:
        lab: where it is open.
        clean, june: the numbers of its two cells that chat.
    """

    def __init__(self, page: Page, server: LabServer, folder: str = "quickstart") -> None:
        place = server.fresh_folder(folder)
        shutil.copytree(
            NOTEBOOKS, place, ignore=shutil.ignore_patterns(".*", "__pycache__"), dirs_exist_ok=True
        )
        path = place / "quickstart.ipynb"
        self.sources = [cell.source for cell in nbformat.read(path, as_version=4).cells]
        self.lab = Lab(page, server, path)
        self.lab.reads = False  # what the text does not tell to read on, nobody reads
        self.clean, self.june = (
            number for number, source in enumerate(self.sources) if source.startswith("%%tract_chat")
        )

    def run_up_to(self, index: int) -> None:
        """Run the cells before one."""
        for number in range(index):
            if number not in {self.clean, self.june}:
                assert self.lab.run_cell(number), self.lab.text(number)

    def chat(self, look: Callable[[str], object] = lambda _: None) -> None:
        """Clean the table: read, reject, change, run.

        Args:
            look: called with a name where there is something to look at.
        """
        lab, out = self.lab, self.lab.output(self.clean)
        lab.run_cell(self.clean, wait=False)
        self.run(out, "I look at the table first", look)
        question = self.asked(out, "Twelve spellings are wrong")
        look("write")
        question.get_by_role("button", name="Reject…").click()
        reason = question.get_by_placeholder("Reason")
        reason.fill(REASON)
        reason.press("Enter")
        self.run(out, "the file stays as it is", look)
        question = self.asked(out, "Now the three species")
        question.get_by_role("button", name="Change the code", exact=True).click()
        code = question.get_by_role("textbox", name="code")
        code.fill(code.input_value().replace("top = 3", "top = 5"))
        look("change")
        self.primary(question).click()
        assert lab.wait_cell(self.clean), lab.text(self.clean)

    def ask_again(self) -> Locator:
        """Ask the second question, and return what the model asks then."""
        self.lab.run_cell(self.june, wait=False)
        return self.asked(self.lab.output(self.june), "")

    def finish(self, question: Locator) -> None:
        """Let the second turn run, and run the cells that are left."""
        self.primary(question).click()
        assert self.lab.wait_cell(self.june), self.lab.text(self.june)
        for number in range(self.june + 1, len(self.sources)):
            assert self.lab.run_cell(number), self.lab.text(number)

    def show(self, cell: int) -> None:
        """Scroll a cell to the top; the pointer leaves it, so that what it holds open folds."""
        self.lab.page.mouse.move(1, 1)
        self.lab.cell(cell).evaluate("cell => cell.scrollIntoView({ block: 'start' })")

    def asked(self, out: Locator, said: str) -> Locator:
        """Wait for the open question behind what the model said, and for its button."""
        if said:
            out.get_by_text(said).first.wait_for()
        question = out.locator("section.q")
        question.wait_for()
        question.locator(".full").wait_for()
        question.evaluate("one => one.scrollIntoView({ block: 'nearest' })")
        self.primary(question).and_(out.locator("[aria-disabled=false]")).wait_for()
        return question

    def run(self, out: Locator, said: str, look: Callable[[str], object]) -> None:
        """Run what is asked behind what the model said."""
        question = self.asked(out, said)
        look(said)
        self.primary(question).click()

    def primary(self, question: Locator) -> Locator:
        """The button that has the question carried out."""
        return question.locator(".do button").first
