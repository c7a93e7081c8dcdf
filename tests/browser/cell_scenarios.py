"""Scenarios of editing: a model proposes edits to a notebook, and the user edits the notebook before the decision.

The kernel, the gate and the page are real; the model is a function in the kernel. Each scenario replaces the cells of
the same notebook, and compares every cell with the expected ones afterwards. `python -m tests.browser.cell_matrix`
runs all of them.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from tests.browser.lab import _READER, KernelCodeError, Lab
from tests.browser.notebooks import write_notebook

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.browser.chromium import Chromium

SETUP: Final = """%load_ext tract_jupyter
%tract looking on
import json, pathlib, time
plan, told, waits = [], [], False

def call(name, **values):
    function = {"name": name, "arguments": json.dumps(values)}
    call = {"id": f"c{time.time_ns()}", "type": "function", "function": function}
    return {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}

def model(messages, **_):
    asked = max(number for number, one in enumerate(messages) if one["role"] == "user")
    step = (len(messages) - asked) // 2
    known = [one["cell"] for one in plan if one["action"] != "insert"]
    if step == 0:
        return call("notebook_read", cells=known or None, count=1)
    if step == 1:
        until = time.monotonic() + 20
        pathlib.Path("asked").touch()
        pages = get_ipython()._tract_jupyter.notebook.cells.pages
        while waits and time.monotonic() < until and (not pathlib.Path("go").exists() or pages.connected.cells):
            time.sleep(0.02)  # until the page has told the change
        hashes = {one["id"]: one.get("source_hash") for one in json.loads(messages[-1]["content"])["cells"]}
        edits = [{**one, **({"based_on": hashes[one["cell"]]} if "cell" in one else {})} for one in plan]
        return call("notebook_edit", edits=edits)
    told.append(messages[-1]["content"])
    return "Done."

tract.models.use(model)
None
"""
CHAT: Final = "%%tract_chat --direct\nEdit the notebook."
_OWN: Final = ("cell-0", "cell-1")
"""The ids of the cells with the setup and the chat."""

OLD: Final = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5"
NEW: Final = "a = 1\nb = 20\nc = 3\nd = 4\ne = 50"
HALF: Final = "a = 1\nb = 20\nc = 3\nd = 4\ne = 5"
_PRINTED: Final = {"output_type": "stream", "name": "stdout", "text": "two\n"}
CELLS: Final[dict[str, dict[str, Any]]] = {
    "a": {"cell_type": "code", "source": OLD, "metadata": {"tags": ["keep"]}},
    "b": {"cell_type": "code", "source": "print('two')", "outputs": [_PRINTED], "execution_count": 7},
    "c": {
        "cell_type": "markdown", "source": "# Title\n\nText ![x](attachment:x.png)",
        "attachments": {"x.png": {"image/png": "aWNvbg=="}},
    },
    "d": {"cell_type": "code", "source": "x = '\N{BIRD} \N{GREEK SMALL LETTER ALPHA}'"},
    "e": {"cell_type": "raw", "source": "raw text"},
}  # fmt: skip

_CELLS_JS: Final = """() => [...jupyterapp.shell.currentWidget.content.model.sharedModel.cells].map(
  (cell) => ({ ...cell.toJSON(), id: cell.getId() }))"""
_CLICKS: Final = 20
"""The clicks that a user needs at most to see all edits."""
_WINDOWING_JS: Final = """(mode) => {
  const { content } = jupyterapp.shell.currentWidget;
  if (content.notebookConfig.windowingMode !== mode)
    content.notebookConfig = { ...content.notebookConfig, windowingMode: mode };
}"""
_RESET_JS: Final = """([own, cells]) => {
  const notebook = jupyterapp.shell.currentWidget.content.model.sharedModel;
  notebook.transact(() => {
    const ids = [...notebook.cells].map((cell) => cell.getId());
    for (let at = ids.length - 1; at >= 0; at--) if (!own.includes(ids[at])) notebook.deleteCell(at);
    notebook.insertCells(own.length, cells);
  });
  notebook.clearUndoHistory();
}"""


class Stage:
    """One notebook with a kernel, in which scenarios run one after another.

    Attributes:
        lab: the page of the user.
        other: the page of a second user, or of a second notebook.
    """

    def __init__(self, lab: Lab, browser: Chromium | None, *, is_shared: bool = False) -> None:
        self.lab = lab
        self.other: Lab | None = None
        self.is_shared = is_shared
        self._browser = browser
        self._number = 0
        self._base: list[dict[str, Any]] = []
        self.load()

    @property
    def page(self) -> Page:
        """The page of the user."""
        return self.lab.page

    def load(self) -> None:
        """Load the extension, and wait until the page is connected."""
        assert self.lab.run_cell(0), self.lab.text(0)
        self.lab.page.wait_for_function(
            "() => [...(jupyterapp.shell.currentWidget.sessionContext.session.kernel._comms ?? new Map()).values()]"
            ".some((comm) => comm.targetName === 'tract_jupyter.cells')"
        )

    # --- before a scenario

    def reset(self, cells: dict[str, dict[str, Any]]) -> None:
        """Load the cells of the next scenario."""
        self._number += 1
        self._base = [{"metadata": {}, **cell, "id": self.id_of(key)} for key, cell in cells.items()]
        for cell in self._base:
            if cell["cell_type"] == "code":
                cell.setdefault("outputs", [])
                cell.setdefault("execution_count", None)
        # the tests show all cells, which is slow for many; this is the default of JupyterLab
        self.page.evaluate(_WINDOWING_JS, "contentVisibility" if len(cells) > len(CELLS) else "none")
        self.page.evaluate(_RESET_JS, [list(_OWN), self._base])

    def id_of(self, key: str) -> str:
        """Return the id of a cell in this scenario."""
        return f"s{self._number}-{key}"

    def index_of(self, key: str) -> int:
        """Return the position of a cell in the notebook."""
        return [cell["id"] for cell in self._all()].index(self.id_of(key))

    @property
    def chat(self) -> int:
        """The position of the cell with the chat."""
        return [cell["id"] for cell in self._all()].index(_OWN[1])

    # --- the model and the kernel

    def ask(self, edits: Sequence[dict[str, Any]], *, waits: bool = False) -> None:
        """Let the model propose edits."""
        real = [
            {name: self.id_of(value) if name in {"cell", "after"} and value else value for name, value in one.items()}
            for one in edits
        ]  # fmt: skip
        for name in ("go", "asked"):
            (self.lab.path.parent / name).unlink(missing_ok=True)
        self.lab.execute(f"plan[:], told[:], waits = json.loads({json.dumps(json.dumps(real))}), [], {waits}")
        self.lab.run_cell(self.chat, wait=False)

    def wait_read(self) -> None:
        """Wait until the model has read the cells."""
        for _ in range(1_000):
            if (self.lab.path.parent / "asked").exists():
                return
            self.page.wait_for_timeout(10)
        raise TimeoutError("the model has not read the cells")

    def go_on(self) -> None:
        """Let the model continue after it has read the cells."""
        (self.lab.path.parent / "go").touch()

    def wait_shown(self) -> None:
        """Wait until the request is at its cells."""
        self.card("e1").wait_for()

    def told(self) -> str:
        """Wait for the end of the turn, and return the tool results about the edits."""
        # a shared cell that ran while its page was loaded again shows [*] for ever
        self.page.wait_for_function(
            "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
        )
        with suppress(KernelCodeError):  # an interrupt cancels queued requests
            self.lab.execute("None")
        return "\n".join(json.loads(self.lab.execute("print(json.dumps(told))")))

    # --- the page

    def card(self, name: str) -> Locator:
        """The card of an edit."""
        return self.page.locator(f".jp-tract-card[data-edit={name}]")

    def type(self, key: str, text: str, lab: Lab | None = None) -> None:
        """Type at the end of a code cell."""
        lab = lab or self.lab
        editor = lab.cell(self.index_of(key)).locator(".jp-InputArea-editor .cm-content").first
        for _ in range(5):  # an output that grows moves the cell away from the click
            editor.click()
            if editor.evaluate("node => node.contains(document.activeElement)"):
                break
        lab.page.keyboard.press("Control+End")
        lab.page.keyboard.type(text)

    def press(self, key: str, lab: Lab | None = None) -> None:
        """Press a key in the command mode of the notebook."""
        page = (lab or self.lab).page
        page.evaluate(
            "() => { const { content } = jupyterapp.shell.currentWidget; content.mode = 'command'; content.activate(); }"
        )
        page.wait_for_function("() => document.activeElement?.closest('.jp-Notebook')")
        page.keyboard.press(key)

    def change(self, script: str, *keys: str, lab: Lab | None = None) -> None:
        """Run a script with `notebook` and the positions of cells, as a command of the front end would."""
        (lab or self.lab).page.evaluate(
            f"(at) => {{ const notebook = jupyterapp.shell.currentWidget.content.model.sharedModel; {script} }}",
            [self.index_of(key) for key in keys],
        )

    def drop(self, key: str) -> None:
        """Delete a cell."""
        self.change("notebook.deleteCell(at[0])", key)

    def open_other(self, path: Path | None = None) -> Lab:
        """Open the notebook for a second user, or another notebook."""
        if self.other is None:
            lab = self.lab
            assert self._browser is not None
            page = self._browser.new_page()
            self.other = Lab(page, lab.server, path or lab.path, lab.kernel, lab.app)
            self.other.reads = False
            self.other.open(wait=path is not None)  # the kernel waits for a decision
        return self.other

    def close_other(self) -> None:
        """Close the second page."""
        if self.other is not None:
            is_same = self.other.path == self.lab.path
            (self.other.page.context.close if is_same else self.other.close)()
            self.other = None

    # --- afterwards

    def _all(self, lab: Lab | None = None) -> list[dict[str, Any]]:
        cells: list[dict[str, Any]] = (lab or self.lab).page.evaluate(_CELLS_JS)
        return cells

    def cells(self, lab: Lab | None = None) -> list[dict[str, Any]]:
        """Return the cells of the scenario, as the page has them."""
        return [cell for cell in self._all(lab) if cell["id"] not in _OWN]

    def saved(self) -> list[dict[str, Any]]:
        """Save the notebook, and return the cells of the scenario in the file."""
        self.lab.save()
        cells = json.loads(self.lab.path.read_text("utf-8"))["cells"]
        cells = [cell for cell in cells if cell["id"] not in _OWN]
        for cell in cells:
            cell["source"] = "".join(cell["source"])
            for output in cell.get("outputs", ()):
                output["text"] = "".join(output["text"])
        return cells

    def expected(self, scenario: Scenario) -> list[dict[str, Any]]:
        """Return the expected cells, with `mark` instead of `metadata.tract`."""
        by_key = {cell["id"].partition("-")[2]: cell for cell in self._base}
        new = iter(scenario.new)
        cells = []
        for key in scenario.after.split():
            if key in {"+", "*"}:
                kind, source = next(new)
                code = {"outputs": [], "execution_count": None} if kind == "code" else {}
                cell = {"cell_type": kind, "source": source, "metadata": {}, **code}
                cells.append({**cell, "id": "+", "mark": key == "+"})
                continue
            source = {**scenario.typed, **scenario.texts}.get(key, by_key[key]["source"])
            cell = {**by_key[key], "id": key, "source": source, **scenario.changed.get(key, {})}
            kept = {name: value for name, value in cell.items() if value is not ...}
            cells.append({**kept, "mark": key in scenario.texts})
        return cells

    def compared(self, cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return cells in the form of `expected`."""
        own = f"s{self._number}-"
        return [
            {
                **{name: value for name, value in cell.items() if (name, value) != ("attachments", None)},
                "id": cell["id"].removeprefix(own) if cell["id"].startswith(own) else "+",
                "metadata": {k: v for k, v in cell["metadata"].items() if k not in {"tract", "trusted"}},
                "mark": "tract" in cell["metadata"],
            }
            for cell in cells
        ]


# --- decisions


def show_all(page: Page) -> Locator:
    """Look at each edit of a request, and return the button that accepts all."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    summary = page.locator(".jp-tract-summary")
    accept = summary.get_by_role("button", name=re.compile("^(Show next|Accept)"))
    for _ in range(_CLICKS):
        if accept.inner_text() != "Show next":
            break
        unseen = summary.get_by_role("status").inner_text()
        with suppress(
            PlaywrightTimeout
        ):  # cells that are drawn while the page scrolls may move the edit: click again
            summary.get_by_role("button", name="Show next", exact=True).click(timeout=3_000)
            page.wait_for_function(
                "text => document.querySelector('.jp-tract-summary [role=status]')?.textContent !== text",
                arg=unseen,
                timeout=3_000,
            )
    return accept


def accept(stage: Stage) -> None:
    """Accept all edits that can be made."""
    show_all(stage.page).click()


def accept_by_the_other(stage: Stage) -> None:
    """Let the second user accept all edits."""
    show_all(stage.open_other().page).click()


def accept_twice(stage: Stage) -> None:
    """Accept all edits on two pages at about the same time."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    buttons = [show_all(stage.open_other().page), show_all(stage.page)]
    for button in buttons:
        with suppress(PlaywrightTimeout):  # the first click has removed the other button already
            button.click(timeout=2_000)


def reject(stage: Stage) -> None:
    """Reject all edits with a reason."""
    summary = stage.page.locator(".jp-tract-summary")
    summary.get_by_role("button", name="Reject…", exact=True).click()
    summary.get_by_label("Reason").fill("Not <b>now</b>")
    summary.get_by_label("Reason").press("Enter")


def all_but(*names: str) -> Callable[[Stage], None]:
    """Leave edits out, and accept the others."""

    def decide(stage: Stage) -> None:
        for name in names:
            card = stage.card(name)
            card.get_by_role("button", name="Reject…", exact=True).click()
            card.get_by_label("Reason").press("Enter")
        accept(stage)

    return decide


def first_hunk(stage: Stage) -> None:
    """Accept the first change of a cell only."""
    stage.card("e1").get_by_role("checkbox").nth(1).uncheck()
    accept(stage)


def in_the_chat(stage: Stage) -> None:
    """Approve the request below the chat."""
    stage.page.evaluate(_READER, True)  # an argument of the page
    stage.lab.output(stage.chat).locator("section.q .do > .primary[aria-disabled=false]").click()
    stage.page.evaluate(_READER, False)


def reject_in_the_chat(stage: Stage) -> None:
    """Reject the request below the chat."""
    stage.lab.reject(stage.chat, "Not now")


def nothing(_stage: Stage) -> None:
    """Decide nothing."""


def interrupt(stage: Stage) -> None:
    """Interrupt the kernel while the diffs are open."""
    stage.lab.interrupt()


def restart(stage: Stage) -> None:
    """Restart the kernel while the diffs are open."""
    stage.lab.restart()
    stage.card("e1").wait_for(state="detached")
    stage.load()


# --- actions of the user


def types(key: str, text: str = "  # mine") -> Callable[[Stage], None]:
    """Type at the end of a cell."""
    return lambda stage: stage.type(key, text)


def other_types(key: str, text: str = "  # theirs") -> Callable[[Stage], None]:
    """Let the second user type at the end of a cell."""

    def act(stage: Stage) -> None:
        stage.type(key, text, stage.open_other())
        stage.page.wait_for_function(
            f"text => ({_CELLS_JS})().some((one) => one.source.endsWith(text))", arg=text
        )

    return act


def drops(key: str) -> Callable[[Stage], None]:
    """Delete a cell."""
    return lambda stage: stage.drop(key)


def other_drops(key: str) -> Callable[[Stage], None]:
    """Let the second user delete a cell."""
    return lambda stage: stage.change("notebook.deleteCell(at[0])", key, lab=stage.open_other())


def adds(above: str) -> Callable[[Stage], None]:
    """Insert a cell above another one."""
    return lambda stage: stage.change(
        "notebook.insertCell(at[0], { cell_type: 'code', source: 'mine = 1' })", above
    )


def moves(key: str, to: str) -> Callable[[Stage], None]:
    """Move a cell to the place of another one."""
    return lambda stage: stage.change("notebook.moveCells(at[0], at[1], 1)", key, to)


def turns_to_markdown(stage: Stage) -> None:
    """Make the code cell `d` a Markdown cell with the same id."""
    stage.change(
        "const old = notebook.cells[at[0]].toJSON(); notebook.deleteCell(at[0]); notebook.insertCell(at[0], "
        "{ cell_type: 'markdown', source: old.source, metadata: {}, id: old.id })",
        "d",
    )


def locks(name: str, key: str) -> Callable[[Stage], None]:
    """Set `editable` or `deletable` of a cell to false."""
    return lambda stage: stage.change(f"notebook.cells[at[0]].setMetadata({name!r}, false)", key)


def makes_read_only(stage: Stage) -> None:
    """Make the notebook read-only."""
    stage.page.evaluate("() => { jupyterapp.shell.currentWidget.context.model.readOnly = true; }")
    stage.change("notebook.cells[at[0]].setMetadata('x', 1); notebook.cells[at[0]].deleteMetadata('x')", "a")
    stage.card("e1").get_by_text("read-only").wait_for()


def makes_writable(stage: Stage) -> None:
    """Make the notebook writable again."""
    stage.page.evaluate("() => { jupyterapp.shell.currentWidget.context.model.readOnly = false; }")


def reloads(stage: Stage) -> None:
    """Save, and load the page again in the middle of the turn."""
    stage.lab.save()
    stage.lab.reload(wait=False)
    stage.wait_shown()


def sees_stale(stage: Stage) -> None:
    """Wait until the first card says that it cannot be applied."""
    stage.page.locator(".jp-tract-card[data-edit=e1]:not([data-state=applied])").wait_for()


def is_gone(stage: Stage) -> None:
    """Wait until the summary says that a cell is gone."""
    stage.page.locator(".jp-tract-summary").get_by_text("gone").wait_for()


def in_order(*acts: Callable[[Stage], object]) -> Callable[[Stage], None]:
    """Do several things."""

    def act(stage: Stage) -> None:
        for one in acts:
            one(stage)

    return act


def presses(key: str) -> Callable[[Stage], None]:
    """Press a key in the command mode."""
    return lambda stage: stage.press(key)


def other_presses(key: str) -> Callable[[Stage], None]:
    """Let the second user press a key."""
    return lambda stage: stage.press(key, stage.open_other())


def undoes_the_turn(stage: Stage) -> None:
    """Undo the turn with its button."""
    turn = stage.lab.output(stage.chat).locator(".tract.turn[data-turn]")
    turn.get_by_role("button", name="Undo this turn").click()
    stage.lab.button("Undo all of this", stage.chat).click()
    turn.get_by_text(re.compile("undone|not undone|failed|Undid|taken back", re.IGNORECASE)).first.wait_for()
    stage.lab.wait_idle()


def saves_and_opens(stage: Stage) -> None:
    """Save, close the notebook and its kernel, and open it again."""
    stage.lab.save()
    stage.lab.reopen()
    stage.load()


def saves_and_reloads(stage: Stage) -> None:
    """Save, and load the page again."""
    stage.lab.save()
    stage.lab.reload()


def other_notebook_is_as_before(stage: Stage) -> None:
    """Open a second notebook with its own kernel, and check that the request is not there."""
    path = write_notebook(stage.lab.path.parent / "second.ipynb", SETUP, CHAT, "mine = 1")
    other = stage.open_other(path)
    assert other.run_cell(0), other.text(0)
    assert other.page.locator(".jp-tract-card, .jp-tract-summary").count() == 0
    assert [cell["source"] for cell in stage.cells(other)] == ["mine = 1"]
    stage.close_other()


# --- the table


def replace(cell: str, source: str) -> dict[str, Any]:
    """An edit that replaces the text of a cell."""
    return {"action": "replace", "cell": cell, "source": source}


def insert(after: str | None, source: str, kind: str = "code") -> dict[str, Any]:
    """An edit that inserts a cell."""
    return {"action": "insert", "after": after, "source": source, "kind": kind}


def delete(cell: str) -> dict[str, Any]:
    """An edit that deletes a cell."""
    return {"action": "delete", "cell": cell}


def move(cell: str, after: str | None) -> dict[str, Any]:
    """An edit that moves a cell."""
    return {"action": "move", "cell": cell, "after": after}


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Args:
        name: the name.
        edits: the proposed edits; they are called e1, e2 and so on.
        after: the keys of the cells at the end; `+` for a new one of the model, `*` for one of the user.
        texts: cells that the edits changed, with their text.
        typed: cells that the user edited, with their text.
        changed: other fields of cells that the user changed; `...` for a field that is gone.
        new: kind and text of each new cell.
        early: actions of the user between `notebook_read` and `notebook_edit`.
        during: actions of the user while the request is open.
        decide: the decision.
        then: actions of the user after the turn.
        told: a text that the model gets.
        cells: the cells at the beginning.
        is_quick: True if it runs in each run of the tests.
        needs: "shared" for two users, "own" if it restarts the kernel or reloads the page.
    """

    name: str
    edits: Sequence[dict[str, Any]]
    after: str
    texts: dict[str, str] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    changed: dict[str, dict[str, Any]] = field(default_factory=dict)
    new: Sequence[tuple[str, str]] = ()
    early: Callable[[Stage], object] | None = None
    during: Callable[[Stage], object] = nothing
    decide: Callable[[Stage], object] = accept
    then: Callable[[Stage], object] = nothing
    told: str = '"made"'
    cells: dict[str, dict[str, Any]] = field(default_factory=lambda: CELLS)
    is_quick: bool = True
    needs: str = ""


_FIVE = (
    replace("a", NEW), insert("d", "test = 1\nassert test"), delete("b"), move("e", "a"), insert("c", "# More", "markdown"),
)  # fmt: skip
_FIVE_AFTER = "a e c + d +"
_FIVE_NEW = (("markdown", "# More"), ("code", "test = 1\nassert test"))
_ALL = "a b c d e"
_MINE = OLD + "  # mine"
_MANY = {f"n{number}": {"cell_type": "code", "source": f"value_{number} = {number}"} for number in range(500)}
_MANY_AFTER = " ".join(name for name in _MANY if name != "n499").replace("n250 ", "n250 + ")
_MANY_EDITS = (replace("n3", "value_3 = 33"), insert("n250", "new = 1"), delete("n499"))

SCENARIOS: Final = (
    Scenario("insert at the beginning", [insert(None, "first = 1")], "+ a b c d e", new=[("code", "first = 1")]),
    Scenario("insert in the middle", [insert("b", "x = 1\n\n\ny = 2\n")], "a b + c d e", new=[("code", "x = 1\n\n\ny = 2\n")]),
    Scenario("insert at the end", [insert("e", "last = 1")], "a b c d e +", new=[("code", "last = 1")], is_quick=False),
    Scenario("insert Markdown", [insert("a", "# <b>New</b>", "markdown")], "a + b c d e", new=[("markdown", "# <b>New</b>")], is_quick=False),
    Scenario("insert raw text", [insert("a", "raw", "raw")], "a + b c d e", new=[("raw", "raw")], is_quick=False),
    Scenario(
        "two inserts keep their order", [insert("a", "one = 1"), insert("a", "two = 2")], "a + + b c d e",
        new=[("code", "one = 1"), ("code", "two = 2")],
    ),
    Scenario("replace lines", [replace("a", NEW)], _ALL, texts={"a": NEW}),
    Scenario("replace Markdown, attachments stay", [replace("c", "# Other")], _ALL, texts={"c": "# Other"}),
    Scenario("replace all, outputs stay", [replace("b", "print(2)")], _ALL, texts={"b": "print(2)"}, is_quick=False),
    Scenario("replace by nothing", [replace("d", "")], _ALL, texts={"d": ""}, is_quick=False),
    Scenario("replace characters beyond U+FFFF", [replace("d", "x = '\N{ROOSTER} \N{GREEK SMALL LETTER BETA}'")], _ALL,
             texts={"d": "x = '\N{ROOSTER} \N{GREEK SMALL LETTER BETA}'"}, is_quick=False),
    Scenario("delete a cell with outputs", [delete("b")], "a c d e"),
    Scenario("delete Markdown", [delete("c")], "a b d e", is_quick=False),
    Scenario("move down, outputs stay", [move("b", "d")], "a c d b e"),
    Scenario("move to the beginning", [move("c", None)], "c a b d e", is_quick=False),
    Scenario("five at once", _FIVE, _FIVE_AFTER, texts={"a": NEW}, new=_FIVE_NEW),
    Scenario("all rejected", _FIVE, _ALL, decide=reject, told="Not <b>now</b>"),
    Scenario("one of five rejected", _FIVE, "a e b c + d +", texts={"a": NEW}, new=_FIVE_NEW, decide=all_but("e3")),
    Scenario("one hunk accepted", [replace("a", NEW)], _ALL, texts={"a": HALF}, decide=first_hunk),
    Scenario("approved below the chat", [replace("a", NEW)], _ALL, texts={"a": NEW}, decide=in_the_chat),
    Scenario("rejected below the chat", [delete("a")], _ALL, decide=reject_in_the_chat, told="Not now", is_quick=False),
    Scenario("typing in the edited cell before the proposal", [replace("a", NEW)], _ALL, typed={"a": _MINE},
             early=types("a"), decide=nothing, told="the user changed cell"),
    Scenario("typing in the edited cell", _FIVE[:2], "a b c d + e", typed={"a": _MINE}, new=_FIVE_NEW[1:],
             during=in_order(types("a"), sees_stale)),
    Scenario("typing in another cell", [replace("a", NEW)], _ALL, texts={"a": NEW}, during=types("b", "# mine"),
             typed={"b": "print('two')# mine"}),
    Scenario("the edited cell is deleted", [replace("a", NEW), insert("d", "new = 1")], "b c d + e", new=[("code", "new = 1")],
             during=in_order(drops("a"), is_gone)),
    Scenario("the cell above an insert is deleted", [insert("b", "new = 1"), replace("a", NEW)], "a c d e", texts={"a": NEW},
             during=in_order(drops("b"), is_gone), is_quick=False),
    Scenario("the user inserts a cell", [delete("b"), replace("a", NEW)], "* a c d e", texts={"a": NEW}, new=[("code", "mine = 1")],
             during=adds("a")),
    Scenario("the user moves the edited cell", [replace("a", NEW)], "b c a d e", texts={"a": NEW}, during=moves("a", "c"), is_quick=False),
    Scenario("the kind of the cell changes", [replace("d", "y = 1"), replace("a", NEW)], _ALL, texts={"a": NEW},
             changed={"d": {"cell_type": "markdown", "outputs": ..., "execution_count": ...}}, during=in_order(turns_to_markdown, sees_stale), is_quick=False),
    Scenario("the cell is not editable", [replace("a", NEW), delete("b")], "a c d e", during=in_order(locks("editable", "a"), sees_stale),
             changed={"a": {"metadata": {"tags": ["keep"], "editable": False}}},
             is_quick=False),
    Scenario("the cell is not deletable", [delete("b"), replace("a", NEW)], _ALL, texts={"a": NEW},
             changed={"b": {"metadata": {"deletable": False}}}, during=in_order(locks("deletable", "b"), sees_stale), is_quick=False),
    Scenario("read-only notebook", _FIVE, _ALL, during=makes_read_only, decide=in_order(reject, makes_writable), told="Not <b>now</b>"),
    Scenario("Ctrl+Z takes all back", _FIVE, _ALL, then=presses("Control+z")),
    Scenario("Ctrl+Z and redo", _FIVE, _FIVE_AFTER, texts={"a": NEW}, new=_FIVE_NEW, is_quick=False,
             then=in_order(presses("Control+z"), presses("Shift+Z"))),
    Scenario("Ctrl+Z takes back only what was typed later", [replace("a", NEW)], _ALL, texts={"a": NEW},
             then=in_order(types("b", "x"), presses("Control+z")), is_quick=False),
    Scenario("undo of the turn", _FIVE, _ALL, then=undoes_the_turn),
    Scenario("undo of the turn after typing", [replace("a", NEW)], _ALL, texts={"a": NEW + "  # mine"},
             then=in_order(types("a"), undoes_the_turn)),
    Scenario("the kernel is interrupted", _FIVE, _ALL, decide=interrupt, told=""),
    Scenario("the page is loaded again in the middle", _FIVE, _FIVE_AFTER, texts={"a": NEW}, new=_FIVE_NEW, during=reloads, needs="own"),
    Scenario("the kernel is restarted with diffs open", _FIVE, _ALL, decide=restart, told="", needs="own", is_quick=False),
    Scenario("saved, and the page is loaded again", _FIVE, _FIVE_AFTER, texts={"a": NEW}, new=_FIVE_NEW, then=saves_and_reloads,
             needs="own", is_quick=False),
    Scenario("saved and opened again", _FIVE, _FIVE_AFTER, texts={"a": NEW}, new=_FIVE_NEW, then=saves_and_opens, needs="own",
             is_quick=False),
    Scenario("two notebooks", [replace("a", NEW)], _ALL, texts={"a": NEW}, during=other_notebook_is_as_before, needs="own",
             is_quick=False),
    Scenario("500 cells", _MANY_EDITS, _MANY_AFTER, texts={"n3": "value_3 = 33"}, new=[("code", "new = 1")], cells=_MANY, is_quick=False,
             needs="own"),
    Scenario("the second user types in the edited cell", _FIVE[:2], "a b c d + e", typed={"a": OLD + "  # theirs"}, new=_FIVE_NEW[1:],
             during=in_order(other_types("a"), sees_stale), needs="shared"),
    Scenario("the second user types in another cell", [replace("a", NEW)], _ALL, texts={"a": NEW},
             during=other_types("b", "# theirs"), typed={"b": "print('two')# theirs"}, needs="shared"),
    Scenario("the second user deletes the cell", [replace("a", NEW), insert("d", "new = 1")], "b c d + e", new=[("code", "new = 1")],
             during=in_order(other_drops("a"), is_gone), needs="shared"),
    Scenario("the second user accepts", _FIVE, _FIVE_AFTER, texts={"a": NEW}, new=_FIVE_NEW, decide=accept_by_the_other, needs="shared"),
    Scenario("both users accept", _FIVE, _FIVE_AFTER, texts={"a": NEW}, new=_FIVE_NEW, decide=accept_twice, needs="shared"),
    Scenario("Ctrl+Z of the second user leaves it", _FIVE, _FIVE_AFTER, texts={"a": NEW}, new=_FIVE_NEW,
             then=other_presses("Control+z"), needs="shared"),
    Scenario("both type after the edit, and the turn is undone", [replace("a", NEW), insert("d", "new = 1")], "a b c d + e",
             texts={"a": NEW + "  # theirs"}, new=[("code", "new = 1")], then=in_order(other_types("a"), undoes_the_turn), needs="shared"),
)  # fmt: skip


def run(stage: Stage, scenario: Scenario) -> None:
    """Run a scenario.

    Raises:
        AssertionError: a cell is not as expected on a page or in the file, or the model was told something else.
    """
    stage.reset(scenario.cells)
    stage.ask(scenario.edits, waits=scenario.early is not None)
    if scenario.early is not None:
        stage.wait_read()
        scenario.early(stage)
        stage.go_on()
    if scenario.decide is not nothing:
        stage.wait_shown()
    scenario.during(stage)
    scenario.decide(stage)
    told = stage.told()
    scenario.then(stage)
    expected = stage.expected(scenario)
    compare(stage.compared(stage.cells()), expected)
    assert scenario.told in told, told
    if scenario.needs:
        compare(stage.compared(stage.saved()), expected)
    if scenario.needs == "shared":
        stage.open_other().page.wait_for_function(
            f"count => ({_CELLS_JS})().length === count", arg=len(expected) + len(_OWN)
        )
        compare(stage.compared(stage.cells(stage.open_other())), expected)


def compare(found: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> None:
    """Compare cell by cell, and tell the cells that differ."""
    pairs = zip_longest(found, expected)
    wrong = [
        f"found    {str(one)[:500]}\nexpected {str(other)[:500]}" for one, other in pairs if one != other
    ]
    assert not wrong, "\n".join(wrong)
