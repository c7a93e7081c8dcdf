"""Walks through the tutorials: the clicks that their text describes, and the words that are on the screen then.

`TUTORIALS` has the cells of each notebook that ask the user, or whose result the text describes. A `Walk` runs all
cells in JupyterLab, and tests/test_docs.py compares the table with the texts.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat

from tests.browser.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page

    from tests.browser.server import LabServer

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"
SIZE = (1280, 800)
"""The window, in pixels, in which each result is on the screen."""
PATIENCE = 20_000  # milliseconds for a question, a button or a result


@dataclass(frozen=True)
class Click:
    """A click that the text above a cell describes.

    Attributes:
        button: the label of the button. The text has it in bold. Empty: the user only fills the field.
        asked: words of the question or of the model's sentence above it. The walk waits for them before the click.
        field: the label of a field that the user fills after the click.
        types: the text that the user types.
        instead_of: a pattern of the text in the field that `types` replaces. Empty: all of it.
        shows: words, or `FIGURE`, that are on the screen after the click, without scrolling.
    """

    button: str
    asked: str = ""
    field: str = ""
    types: str = ""
    instead_of: str = ""
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """A cell of a tutorial.

    Attributes:
        source: a part of its source that no other cell has.
        clicks: the decisions in it, in order.
        shows: words in its output at the end.
        fails: whether it ends with an error.
    """

    source: str
    clicks: tuple[Click, ...] = ()
    shows: tuple[str, ...] = ()
    fails: bool = False


FIGURE = "a figure"
HOOPOE = "The hoopoe was seen 12 times, mostly in May."
TUTORIALS: dict[str, tuple[Cell, ...]] = {
    "quickstart": (
        Cell(
            "Clean this table",
            (
                Click(
                    "Reject…",
                    "Twelve spellings",
                    "Reason",
                    "Keep the original file.",
                    shows=("Keep the original file.",),
                ),
                Click("Change code", "Now the three species", "code", "nlargest(5)", r"nlargest\(3\)"),
                Click("Rehearse the change", shows=("The changed code was rehearsed",)),
                Click("Keep", shows=(FIGURE, "You changed my code before it ran")),
            ),
            ("Looked, no effects", "Keep the original file.", "data/sightings.csv is untouched"),
        ),
        Cell("in June?", shows=("Looked, no effects", "The great tit, with 83 birds")),
        Cell("display(clean", shows=("great tit",)),
    ),
    "decisions": (
        Cell("tract_propose", (Click("Activate", shows=("newsletter is active",)),)),
        Cell("%tract ops", shows=("newsletter", "publish")),
        Cell("urllib.request", shows=("New: contact example.com",)),
        Cell(
            "%tract inbox",
            (
                Click(
                    "Reject…",
                    "Replace",
                    "Reason",
                    "Publishing needs no network.",
                    shows=("Publishing needs no network.",),
                ),
            ),
            ("Rejected publish",),
        ),
    ),
    "branches_compression_undo": (
        Cell("MergeConflictError", shows=("nothing was written",)),
        Cell("pending.approve()", shows=("2 messages",)),
        Cell('print(t.diff(before, "HEAD").stat)', shows=("no changes",)),
    ),
    "scripts": (
        Cell("tools.commit(", (Click("Run commit", shows=("noted as",)),), ("Script completed",)),
        Cell('tools.sighting(species="robin")', shows=("Nothing of the script ran",), fails=True),
        Cell(
            "tools.register_tag(",
            (Click("Run register_tag", shows=("and on it goes",)),),
            ("Script completed",),
        ),
        Cell("%tract inbox", shows=("No requests need a decision.",)),
        Cell("Which species are rare?", shows=("Ran 4 tool calls in one script", "Only the hoopoe")),
    ),
    "agents": (
        Cell(
            "--profile agents",
            (
                Click("Create agent species_expert", "You read them first."),
                Click("Create agent places_expert"),
                Click("Change agent places_expert", "one place and no number"),
            ),
            ("By place it is Wasserburg 338 (31 %)",),
        ),
        Cell("for agent in tract.agents", shows=("places_expert, version 2",)),
        Cell("approved = kept.read_text()", shows=("blocked", "By place it is")),
        Cell("print(tract.agents)", shows=("<Agents: places_expert>",)),
    ),
    "orchestrator": (
        Cell(
            "it is near its budget",
            (
                Click("", "can be one message", "content", f' {HOOPOE}"', '"$'),
                Click("Run compress", shows=("You changed my summary",)),
            ),
        ),
        Cell("run.tokens_before", shows=(HOOPOE,)),
        Cell("%tract autonomy manual", shows=("1 proposal reported but not executed",)),
        Cell("tract.reset(diary)", shows=("48 messages",)),
    ),
    "runs": (
        Cell("--out answer", shows=("In June it was the great tit",)),
        Cell("--profile careful", (Click("Run send", shows=("In July it was the barn swallow",)),)),
    ),
}


def find_cell(cells: list[nbformat.NotebookNode], part: str) -> int:
    """Return the number of the only code cell whose source contains a text."""
    (found,) = (n for n, cell in enumerate(cells) if cell.cell_type == "code" and part in cell.source)
    return found


class Walk:
    """A tutorial that is open in JupyterLab.

    Attributes:
        lab: the open notebook.
        cells: its cells.
    """

    def __init__(self, page: Page, server: LabServer, name: str) -> None:
        folder = server.fresh_folder(name)
        shutil.copytree(
            NOTEBOOKS, folder, ignore=shutil.ignore_patterns(".*", "__pycache__"), dirs_exist_ok=True
        )
        path = folder / f"{name}.ipynb"
        self.cells = nbformat.read(path, as_version=4).cells
        self.told = {find_cell(self.cells, cell.source): cell for cell in TUTORIALS[name]}
        self.lab = Lab(page, server, path).open()
        self._steps = self._run()

    def run_to(self, number: int, *, asked: bool = False) -> None:
        """Run the notebook to the end of a cell, or to the last click in it."""
        last = self.told[number].clicks[-1] if asked else None
        for step in self._steps:
            if step == (number, last):
                return
        raise AssertionError(f"cell {number} is over")

    def finish(self) -> None:
        """Run the rest of the notebook."""
        for _ in self._steps:
            pass

    def _run(self) -> Iterator[tuple[int, Click | None]]:
        """Run all cells. Yield (number of the cell, next click) before each click, and (number, None) after the cell."""
        for number, cell in enumerate(self.cells):
            if cell.cell_type != "code":
                continue
            told = self.told.get(number, Cell(cell.source))
            self.lab.run_cell(number, wait=False)
            for click in told.clicks:
                self._wait_for(number, click)
                yield number, click
                self._make(number, click)
            assert self.lab.wait_cell(number) is not told.fails, self.lab.text(number)
            seen = " ".join(self.lab.output(number).inner_text().split())
            assert [words for words in told.shows if words not in seen] == [], seen
            yield number, None
        assert self.lab.page.locator("section.q").count() == 0, "the text leaves a question open"

    def show(self, number: int) -> None:
        """Scroll a cell to the top, and move the pointer away from it."""
        self.lab.page.mouse.move(1, 1)
        self.lab.cell(number).evaluate("cell => cell.scrollIntoView({ block: 'start' })")

    def _wait_for(self, number: int, click: Click) -> None:
        """Wait until the question of a click is on display, all of it, and its button works."""
        out = self.lab.output(number)
        if click.asked:
            out.get_by_text(click.asked).first.wait_for(timeout=PATIENCE)
        if not click.button:
            return
        button = self._button(number, click)
        try:
            button.wait_for(timeout=PATIENCE)
        except Exception as error:
            labels = out.get_by_role("button").all_inner_texts()
            raise AssertionError(f"{click.button!r} does not work: {labels} {out.inner_text()}") from error
        button.evaluate("button => button.closest('section.q').scrollIntoView({ block: 'nearest' })")

    def _make(self, number: int, click: Click) -> None:
        """Click, fill the field, and check the result."""
        if click.button:
            self._button(number, click).click()
        out = self.lab.output(number)
        if click.field:
            field = out.get_by_role("textbox", name=click.field, exact=True).first
            text = field.input_value()
            field.fill(re.sub(click.instead_of, click.types, text) if click.instead_of else click.types)
            if click.field != "code":  # there, it begins a line
                field.press("Enter")
        for words in click.shows:
            from playwright.sync_api import expect

            result = (out.locator(".result img") if words == FIGURE else out.get_by_text(words)).filter(
                visible=True
            )
            expect(result.first).to_be_in_viewport(ratio=1, timeout=PATIENCE)

    def _button(self, number: int, click: Click) -> Locator:
        works = self.lab.page.locator(":not([aria-disabled=true]):not(:disabled)")
        return self.lab.button(click.button, number).and_(works).first
