"""Proposed edits of notebook cells in the JupyterLab extension. The tests script the kernel side."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from tests.browser import chat
from tests.browser.server import DARK, LABEXTENSION, LIGHT

pytestmark = pytest.mark.skipif(not LABEXTENSION.is_dir(), reason="the JupyterLab extension is not built")

KERNEL = """# the kernel side of tract_jupyter.cells
import json
comms, heard = [], []
def opened(comm, message):
    heard.append(message["content"]["data"])
    comm.on_msg(lambda message: heard.append(message["content"]["data"]))
    comms.append(comm)
    comm.send({"v": 1, "type": "welcome"})
get_ipython().kernel.comm_manager.register_target("tract_jupyter.cells", opened)"""
MARK = {"model": "a-model", "turn": "3", "commit": "0f3a9b12", "decision": "approved", "request": "r1"}
SOURCES = ("a = 1\nb = 2\nc = 3\nd = 4\ne = 5", "print('two')", "print('three')", "# four", "# five")


def sha(source):
    return hashlib.sha256(source.encode()).hexdigest()


class Notebook:
    """A notebook with cells `cell-0`, `cell-1`, ...; the last cell runs the kernel side."""

    def __init__(self, lab, *sources):
        self.lab = lab
        self.sources = dict(zip((f"cell-{number}" for number in range(len(sources))), sources, strict=True))
        self.connect()

    def connect(self):
        count = len(self.sources)
        assert self.lab.run_cell(count)
        self.heard("hello")

    def send(self, **message):
        self.lab.execute(f"comms[-1].send(json.loads({json.dumps(json.dumps({'v': 1, **message}))}))")

    def heard(self, kind, count=1):
        """Wait for messages of this type, and return the last one."""
        for _ in range(400):
            found = [
                one for one in json.loads(self.lab.execute("print(json.dumps(heard))")) if one["type"] == kind
            ]
            if len(found) >= count:
                return found[-1]
            self.lab.page.wait_for_timeout(25)
        raise AssertionError(f"no {kind}: {self.lab.execute('print(heard)')}")

    def edit(
        self,
        name,
        action,
        cell,
        source=None,
        *,
        after=None,
        kind="code",
        based_on=None,
        hunks=(),
        findings=(),
    ):
        if action != "insert" and based_on is None:
            based_on = sha(self.sources[cell])
        base = {"edit": name, "action": action, "cell": cell, "after": after, "kind": kind}
        number = list(self.sources).index(cell) + 1 if cell in self.sources else None
        shown = {"number": number, "findings": list(findings), "hunks": list(hunks)}
        if action == "insert":  # the kernel chooses the id when it applies the edit
            shown |= {"cell": None, "after": after and after.replace("new-1", "cell-1")}
        return {**base, "based_on": based_on, "source": source}, shown

    def show(self, *edits, request="r1", title="Edit cells"):
        shown = [{**edit, **more} for edit, more in edits]
        self.send(type="show", request=request, digest=f"d-{request}", title=title, edits=shown)
        self.lab.page.locator(".jp-tract-summary").last.wait_for()

    def apply(self, *edits, mark=MARK, count=1, request="r1"):
        self.send(type="apply", id="a1", edits=[edit for edit, _ in edits], mark=mark, request=request)
        return {one["edit"]: one for one in self.heard("applied", count)["results"]}

    def cells(self):
        """All cells of the saved file except the kernel side, as (id, kind, source)."""
        cells = self.lab.save().cells
        return [(one.id, one.cell_type, one.source) for one in cells if "the kernel side" not in one.source]

    def card(self, name):
        return self.lab.page.locator(f".jp-tract-card[data-edit={name}]")

    def summary(self):
        return self.lab.page.locator(".jp-tract-summary")

    def button(self, where, name):
        return where.get_by_role("button", name=name, exact=True)


@pytest.fixture
def notebook(open_lab):
    return Notebook(open_lab(*SOURCES, KERNEL), *SOURCES)


def five(notebook):
    replaced = "a = 1\nb = 20\nc = 3\nd = 4\ne = 50"
    hunks = [{"n": 0, "old": [1, 2], "new": [1, 2]}, {"n": 1, "old": [4, 5], "new": [4, 5]}]
    finding = {"severity": "medium", "text": "writes <b>a file</b>", "line": 2}
    return (
        notebook.edit("e1", "replace", "cell-0", replaced, hunks=hunks, findings=[finding]),
        notebook.edit("e2", "insert", "new-1", "test = 1\nassert test", after="cell-1"),
        notebook.edit("e3", "delete", "cell-2"),
        notebook.edit("e4", "move", "cell-4", after="cell-0"),
        notebook.edit("e5", "insert", "new-2", "# A title", after="new-1", kind="markdown"),
    )


AFTER_FIVE = [
    ("cell-0", "code", "a = 1\nb = 20\nc = 3\nd = 4\ne = 50"),
    ("cell-4", "code", "# five"),
    ("cell-1", "code", "print('two')"),
    ("new-1", "code", "test = 1\nassert test"),
    ("new-2", "markdown", "# A title"),
    ("cell-3", "code", "# four"),
]


def accept_all(notebook):
    """Look at each edit, accept all, and return the decision."""
    accept = notebook.summary().get_by_role("button", name=re.compile("^(Show next|Accept)"))
    while accept.inner_text() == "Show next":
        unseen = notebook.summary().get_by_role("status").inner_text()
        accept.click()
        notebook.lab.page.wait_for_function(
            "text => document.querySelector('.jp-tract-summary [role=status]').textContent !== text",
            arg=unseen,
        )
    accept.hover()
    for press in (notebook.lab.page.mouse.down, notebook.lab.page.mouse.up):
        press(click_count=2)  # the second click of a double click on "Show next"
    assert "Sent" not in notebook.summary().get_by_role("status").inner_text()
    accept.click()
    return notebook.heard("decide")


def test_five_edits_are_reviewed_applied_and_taken_back(notebook, screenshot):
    lab, before = notebook.lab, notebook.cells()
    assert notebook.heard("hello")["read_only"] is False
    edits = five(notebook)
    notebook.show(*edits, title="Edit 3 cells, <i>insert</i> 2")
    notebook.card("e5").wait_for()
    assert "<i>insert</i>" in notebook.summary().inner_text()
    assert "writes <b>a file</b>" in notebook.card("e1").inner_text()
    assert notebook.cells() == before  # a proposal changes nothing
    assert (
        notebook.button(notebook.card("e4"), "Accept").get_attribute("aria-disabled") == "true"
    )  # not on display yet
    screenshot(lab, "cells-light")
    lab.theme(DARK)
    screenshot(lab, "cells-dark")
    lab.theme(LIGHT)

    decision = accept_all(notebook)
    assert (decision["request"], decision["digest"], decision["choice"]) == ("r1", "d-r1", "accept")
    assert decision["edits"] == [{"edit": f"e{number}"} for number in range(1, 6)]
    results = notebook.apply(*edits)
    assert {one["state"] for one in results.values()} == {"applied"}
    assert (results["e1"]["hash_now"], results["e3"]["hash_now"]) == (sha(AFTER_FIVE[0][2]), None)
    notebook.send(type="hide", request="r1", outcome="approved")
    notebook.summary().wait_for(state="detached")
    assert lab.page.locator(".jp-tract-card").count() == 0
    assert notebook.cells() == AFTER_FIVE
    marks = {one.id: one.metadata.get("tract") for one in lab.save().cells}
    assert {name for name, mark in marks.items() if mark == MARK} == {"cell-0", "new-1", "new-2"}

    notebook.lab.cell(1).click()
    lab.page.keyboard.press("Control+z")  # one step undoes all edits
    assert notebook.cells() == before
    assert all("tract" not in one.metadata for one in lab.save().cells)


def accept(notebook, name, button="Accept"):
    """Look at an edit, and accept it."""
    card = notebook.card(name)
    card.focus()
    notebook.button(card, button).and_(card.locator("[aria-disabled=false]")).click()


def test_accept_and_run_runs_exactly_the_cells_that_the_user_chose(notebook):
    """Also if two cells have the same text, if the user changed the text, or if no cell is marked."""
    lab = notebook.lab
    same, other = (
        notebook.edit(name, "insert", new, "print(12)", after=after)
        for name, new, after in (("e1", "new-1", "cell-0"), ("e2", "new-2", "cell-1"))
    )
    notebook.show(same, other)
    accept(notebook, "e1", "Accept and run")
    notebook.card("e1").get_by_text("Accepted, and runs after the turn; other edits are open.").wait_for()
    pressed = {name: notebook.button(notebook.card("e1"), name) for name in ("Accept and run", "Accept")}
    assert [one.get_attribute("aria-pressed") for one in pressed.values()] == ["true", "false"]
    accept(notebook, "e2")
    assert [one["edit"] for one in notebook.heard("decide")["edits"]] == ["e1", "e2"]
    notebook.apply(same, other, mark=None)
    lab.page.get_by_text("12", exact=True).first.wait_for()
    counts = {one.id: one.execution_count for one in lab.save().cells if one.id.startswith("new")}
    assert counts["new-1"] is not None
    assert counts["new-2"] is None
    notebook.send(type="hide", request="r1", outcome="approved")
    notebook.card("e1").wait_for(state="detached")
    changed, shown = notebook.edit("e1", "insert", "new-3", "print(13)", after="cell-3")
    notebook.show((changed, shown), request="r2")
    card = notebook.card("e1")
    card.focus()
    notebook.button(card, "Change").click()
    lab.page.keyboard.press("Control+End")
    lab.page.keyboard.type("  # mine")
    accept(notebook, "e1", "Accept and run")
    ((accepted,), source) = notebook.heard("decide", 2)["edits"], "print(13)  # mine"
    assert accepted == {"edit": "e1", "source": source}
    notebook.apply(({**changed, "source": source}, {}), count=2, request="r2")
    lab.page.get_by_text("13", exact=True).first.wait_for()


def test_only_the_cell_of_the_edit_runs_if_another_one_has_its_id(notebook):
    lab = notebook.lab
    twin = "{ cell_type: 'code', id: 'cell-0', source: 'print(7 * 191)', metadata: {} }"
    lab.page.evaluate(f"() => jupyterapp.shell.currentWidget.content.model.sharedModel.insertCell(2, {twin})")
    edit = notebook.edit(
        "e1", "replace", "cell-0", "print(12)", hunks=[{"n": 0, "old": [0, 5], "new": [0, 1]}]
    )
    notebook.show(edit)
    accept(notebook, "e1", "Accept and run")
    notebook.heard("decide")
    notebook.apply(edit)
    lab.page.get_by_text("12", exact=True).first.wait_for()
    lab.wait_idle()
    assert lab.page.get_by_text("1337", exact=True).count() == 0


def test_a_refused_click_runs_nothing_later(notebook):
    """The request may have changed, or another decision came first."""
    lab = notebook.lab
    first = notebook.edit("e1", "insert", "new-1", "print(12)", after="cell-0")
    notebook.show(first)
    accept(notebook, "e1", "Accept and run")
    notebook.heard("decide")
    notebook.send(type="refused", reason="this click is about an earlier version", of="decide", request="r1")
    notebook.summary().get_by_text("an earlier version").wait_for()
    second = notebook.edit("e1", "insert", "new-1", "print(1337)", after="cell-0")
    notebook.show(second)
    assert notebook.apply(second)["e1"]["state"] == "applied"  # accepted below the chat
    lab.wait_idle()
    assert {one.id: one.execution_count for one in lab.save().cells}["new-1"] is None


def test_a_refused_click_leaves_other_requests_alone(notebook):
    lab = notebook.lab
    for number in (1, 2):
        notebook.show(
            notebook.edit(f"e{number}", "insert", "new-1", f"x = {number}", after="cell-0"),
            request=f"r{number}",
        )
        accept(notebook, f"e{number}")
    notebook.heard("decide", 2)
    notebook.send(type="refused", reason="it has changed", of="decide", request="r2")
    second = lab.page.locator('.jp-tract-summary[data-request="r2"]')
    second.get_by_text("it has changed").wait_for()
    first = lab.page.locator('.jp-tract-summary[data-request="r1"]')
    assert first.get_by_text("it has changed").count() == 0
    assert "Sent." in first.inner_text()


def test_a_button_in_a_markdown_cell_decides_nothing(notebook):
    """JupyterLab runs a command that the button names: at once in a trusted notebook, and in all before version 4.6."""
    lab = notebook.lab
    names = ("accept-all", "accept", "accept-and-run", "reject-all", "change", "fix", "stop")
    buttons = "".join(
        f'<button data-commandlinker-command="tract:{name}">Show {name}</button>' for name in names
    )
    cell = f"{{ cell_type: 'markdown', source: {json.dumps(buttons)}, metadata: {{}} }}"
    lab.page.evaluate(
        "() => { const model = jupyterapp.shell.currentWidget.content.model;"
        f" model.sharedModel.insertCell(0, {cell});"
        " for (const one of model.cells) { one.trusted = true; } }"
    )
    notebook.show(notebook.edit("e1", "insert", "new-1", "print(12)", after="cell-0"))
    notebook.button(notebook.card("e1"), "Accept").and_(lab.page.locator("[aria-disabled=false]")).wait_for()
    for name in names:
        lab.page.get_by_role("button", name=f"Show {name}", exact=True).click()
        if lab.page.locator(".jp-Dialog").count():  # "This document is not trusted"
            lab.page.keyboard.press("Escape")
            lab.page.locator(".jp-Dialog").wait_for(state="detached")
    reason = notebook.summary().get_by_label("Reason")
    assert reason.is_hidden()
    lab.page.keyboard.press("Escape")
    card = notebook.card("e1")
    assert notebook.button(card, "Change").is_visible()
    card.focus()
    lab.page.keyboard.press("Alt+Shift+Enter")  # the user's own keys still do
    assert notebook.heard("decide")["edits"] == [{"edit": "e1"}]
    heard = json.loads(lab.execute("print(json.dumps(heard))"))
    assert [one["type"] for one in heard if one["type"] in {"decide", "stop", "ask"}] == ["decide"]


def test_control_z_takes_back_one_request_after_the_other(notebook):
    lab, before = notebook.lab, notebook.cells()
    for number, name in enumerate(("cell-1", "cell-2"), 1):
        edit = notebook.edit("e1", "replace", name, f"changed = {number}")
        assert notebook.apply(edit, count=number)["e1"]["state"] == "applied"
    lab.cell(3).click()
    lab.page.keyboard.press("Control+z")
    assert [source for _, _, source in notebook.cells()][1:3] == ["changed = 1", SOURCES[2]]
    lab.page.keyboard.press("Control+z")
    assert notebook.cells() == before


def test_an_edit_in_a_folded_section_is_shown(notebook):
    lab = notebook.lab
    lab.page.evaluate(
        "() => jupyterapp.shell.currentWidget.content.model.sharedModel"
        ".insertCell(1, { cell_type: 'markdown', source: '# Title' })"
    )
    lab.page.locator(".jp-MarkdownCell").hover()
    lab.page.locator(".jp-MarkdownCell .jp-collapseHeadingButton").click(timeout=10_000)
    lab.cell(3).wait_for(state="hidden")
    hunk = {"n": 0, "old": [0, 1], "new": [0, 1]}
    notebook.show(notebook.edit("e1", "replace", "cell-2", "changed = 1", hunks=[hunk]))
    notebook.button(notebook.summary(), "Show next").click()
    notebook.button(notebook.summary(), "Accept").click()
    assert notebook.heard("decide")["choice"] == "accept"


def test_one_is_rejected_and_a_part_is_left_out_by_keyboard(notebook):
    lab = notebook.lab
    notebook.show(*five(notebook)[:2])
    card = notebook.card("e2")
    lab.page.keyboard.press("Escape")
    lab.page.keyboard.press("Alt+Shift+E")
    lab.page.wait_for_function("document.activeElement.matches('.jp-tract-card[data-edit=e1]')")
    for key in ("Tab", "Tab", "Space"):  # the second of two changes
        lab.page.keyboard.press(key)
    lab.page.keyboard.press("Alt+Shift+E")
    lab.page.wait_for_function("document.activeElement.matches('.jp-tract-card[data-edit=e2]')")
    for key in ("Tab", "Tab", "Tab", "Enter"):
        lab.page.keyboard.press(key)
    card.get_by_label("Reason").wait_for()
    lab.page.keyboard.press("Escape")
    assert card.get_by_label("Reason").is_hidden()
    lab.page.wait_for_function("document.activeElement.textContent === 'Reject…'")
    lab.page.keyboard.press("Enter")
    lab.page.keyboard.type("Not <b>this</b>")
    lab.page.keyboard.press("Enter")
    assert "Left out." in card.inner_text()
    notebook.card("e1").focus()
    for key in ("Tab", "Tab", "Tab", "Tab", "Enter"):
        lab.page.keyboard.press(key)
    decision = notebook.heard("decide")
    assert decision["edits"] == [{"edit": "e1", "hunks": [0]}]
    assert (decision["choice"], decision["reason"]) == ("accept", "e2: Not <b>this</b>")
    notebook.send(type="refused", reason="the request is decided already", of="decide", request="r1")
    notebook.summary().get_by_text("the request is decided already").wait_for()
    notebook.button(notebook.summary(), "Reject…").click()
    notebook.summary().get_by_label("Reason").press("Enter")
    assert notebook.heard("decide", 2) == {
        "v": 1,
        "type": "decide",
        "request": "r1",
        "digest": "d-r1",
        "choice": "reject",
        "edits": [],
    }
    assert len(notebook.cells()) == 5


def test_the_users_changes_win(notebook):
    lab, edits = notebook.lab, five(notebook)
    notebook.show(*edits)
    lab.cell(0).locator(".cm-content").first.click()
    lab.page.keyboard.press("Control+End")
    lab.page.keyboard.type("  # mine")
    notebook.card("e1").get_by_text("You changed this cell since").wait_for()
    assert notebook.button(notebook.card("e1"), "Accept").is_hidden()
    lab.page.evaluate(
        "() => { const model = jupyterapp.shell.currentWidget.content.model.sharedModel; model.deleteCell(4); }"
    )
    notebook.summary().get_by_text("this cell is gone").wait_for()
    mine = notebook.cells()
    assert mine[0][2].endswith("  # mine")
    decision = accept_all(notebook)
    assert [one["edit"] for one in decision["edits"]] == ["e2", "e3", "e5"]

    results = notebook.apply(*edits)  # the kernel sends the edits anyway: all or none are applied
    assert {name: one["state"] for name, one in results.items()} == {
        "e1": "stale", "e2": "stale", "e3": "stale", "e4": "missing", "e5": "stale",
    }  # fmt: skip
    assert results["e1"]["hash_now"] == sha(mine[0][2])
    assert notebook.cells() == mine
    results = notebook.apply(*(edits[number] for number in (1, 2, 4)), count=2)
    assert {one["state"] for one in results.values()} == {"applied"}
    lab.cell(0).locator(".cm-content").first.click()
    lab.page.keyboard.type("x")
    lab.page.keyboard.press("Control+z")  # the user's own change is newer
    assert [one[0] for one in notebook.cells()] == ["cell-0", "cell-1", "new-1", "new-2", "cell-3"]
    undo = [
        notebook.edit("u1", "insert", "cell-2", "print('three')", after="new-2"),
        notebook.edit("u2", "delete", "new-1", based_on=sha("test = 1\nassert test")),
    ]
    assert {one["state"] for one in notebook.apply(*undo, mark=None, count=3).values()} == {"applied"}
    assert [one[0] for one in notebook.cells()] == ["cell-0", "cell-1", "new-2", "cell-2", "cell-3"]


def test_reload_and_restart_lose_nothing(notebook):
    lab = notebook.lab
    edits = five(notebook)
    before = notebook.cells()
    notebook.show(*edits)
    lab.reload()
    notebook.heard("hello", 2)
    assert notebook.cells() == before
    notebook.show(*edits)  # as the kernel does after the message 'hello'
    notebook.card("e5").wait_for()
    assert {one["state"] for one in notebook.apply(*edits).values()} == {"applied"}
    assert notebook.cells() == AFTER_FIVE
    lab.restart()
    notebook.summary().wait_for(state="detached")
    assert lab.page.locator(".jp-tract-card").count() == 0
    assert lab.run_cell(6)  # start the kernel side again
    notebook.heard("hello")
    assert notebook.cells() == AFTER_FIVE


HOSTILE = '<img src=x onerror="window.hacked = 1">\u202e\u200b\x1b[31m <script>window.hacked = 1</script>'


def test_hostile_texts_are_text_and_buttons_of_errors_ask(open_lab):
    notebook = Notebook(open_lab("1 / 0", f"# {HOSTILE}", KERNEL), "1 / 0", f"# {HOSTILE}")
    lab = notebook.lab
    hunks = [{"n": 0, "old": [0, 1], "new": [0, 1]}]
    finding = {"severity": HOSTILE, "text": HOSTILE, "line": None}
    edits = (
        notebook.edit("e1", "replace", "cell-1", f"x = '{HOSTILE}'", hunks=hunks, findings=[finding]),
        notebook.edit("e2", "insert", "new-1", f"{HOSTILE}\n" * 3, kind="markdown", after="cell-1"),
        notebook.edit("e3", "insert", "new-2", "x" * 1_000_000, after="cell-1"),
    )
    notebook.show(*edits, title=HOSTILE, request=HOSTILE)
    notebook.card("e3").get_by_text("too long for this view").wait_for()
    text = "\n".join(lab.page.locator(".jp-tract").all_inner_texts())
    assert not re.search("[\u202e\u200b\x1b]", text)
    assert "\\u202e\\u200b\\x1b[31m <script>" in text
    assert lab.page.evaluate("window.hacked") is None
    assert lab.page.locator(".jp-tract :is(img, script)").count() == 0
    assert notebook.button(notebook.card("e3"), "Accept").is_hidden()
    lab.page.evaluate("document.querySelectorAll('.jp-tract button').forEach(one => one.click())")
    for forged in (
        {"type": "apply", "id": "1", "edits": [], "mark": None},
        {"type": "apply", "id": "1", "edits": [{**edits[0][0], "cell": "../x"}], "mark": None},
        {"type": "run", "source": "window.hacked = 1"},
        {"type": "show", "request": 1, "digest": "", "title": "", "edits": []},
    ):
        notebook.send(**forged)
    assert notebook.heard("refused", 4)["of"] == "show"
    heard = json.loads(lab.execute("print(json.dumps([one['type'] for one in heard]))"))
    assert heard == ["hello", *["refused"] * 4]  # clicks by a script decide nothing

    notebook.send(type="compose", cell="cell-0", source="forged = 1")
    assert not lab.run_cell(0)
    fix = lab.cell(0).get_by_role("button", name="Fix", exact=True)
    fix.click()
    assert notebook.heard("ask") == {"v": 1, "type": "ask", "cell": "cell-0", "kind": "fix"}
    notebook.send(type="refused", reason="a turn about this error is running", of="ask", request="")
    fix.click()
    notebook.heard("ask", 2)
    notebook.send(type="compose", cell="cell-0", source="print(6 * 7)")
    notebook.send(type="compose", cell="cell-0", source="forged = 1")
    lab.wait_output(1, "42")
    lab.set_source(0, "1 / 1")
    assert lab.run_cell(0)
    fix.wait_for(state="detached")
    assert [one[2] for one in notebook.cells()] == ["1 / 1", "print(6 * 7)", f"# {HOSTILE}"]
    assert not [line for line in lab.console if line.startswith("pageerror")]


def test_a_read_only_notebook_in_notebook_7(open_lab):
    lab = open_lab(*SOURCES, KERNEL, app="notebook")
    notebook = Notebook(lab, *SOURCES)
    before = notebook.cells()
    edits = five(notebook)
    notebook.show(*edits)
    notebook.card("e5").wait_for()
    lab.page.evaluate("() => { jupyterapp.shell.currentWidget.context.model.readOnly = true; }")
    lab.page.evaluate(
        "() => { jupyterapp.shell.currentWidget.content.model.sharedModel.cells[5].setMetadata('x', 1); }"
    )
    notebook.card("e1").get_by_text("read-only").wait_for()
    assert notebook.summary().get_by_role("button", name=re.compile("Accept|Show")).count() == 0
    assert {one["state"] for one in notebook.apply(*edits).values()} == {"read_only"}
    lab.page.evaluate("() => { jupyterapp.shell.currentWidget.context.model.readOnly = false; }")
    assert notebook.cells() == before
    message = {"type": "read", "id": "q1", "which": ["cell-1", "cell-0"], "outputs": True, "limit": 1000}
    notebook.send(**message)
    found = notebook.heard("cells")
    assert found["reply_to"] == "q1"
    assert [(one["id"], one["hash"], one["number"]) for one in found["cells"]] == [
        (f"cell-{number}", sha(SOURCES[number]), number + 1) for number in (0, 1)
    ]


def test_an_error_is_fixed_with_three_clicks_and_the_fix_is_undone(open_lab, model, screenshot):
    wrong, right = "sales = {'units': 3}\nprint(sales['unit'])", "sales = {'units': 3}\nprint(sales['units'])"
    lab = open_lab(chat.SETUP.format(url=model.url), wrong, "# last")
    assert lab.run_cell(0), lab.text(0)
    assert not lab.run_cell(1)
    edit = {"action": "replace", "cell": "cell-1", "based_on": sha(wrong)[:16], "source": right}
    model.reply().call("notebook_read", cells=["cell-1"], outputs=True).end()
    model.reply().call("notebook_edit", edits=[edit]).end()
    model.reply("The column is called units.").end()
    lab.cell(1).get_by_role("button", name="Fix", exact=True).click()
    card = lab.page.locator(".jp-tract-card")
    accept = card.get_by_role("button", name="Accept", exact=True)
    accept.wait_for()
    screenshot(lab, "cells-fix")
    lab.cell(1).get_by_role("button", name="Fix", exact=True).click()  # its turn is already running
    accept.click()
    turn = lab.output(2).locator(".tract.turn[data-turn]")
    turn.wait_for()
    lab.wait_idle()
    card.wait_for(state="detached")
    (told,) = [one["content"] for one in model.requests[1]["messages"] if one["role"] == "tool"]
    assert "KeyError" in told
    fixed = lab.save().cells
    assert [one.source for one in fixed[1::2]] == [right, "# last"]
    assert fixed[1].metadata["tract"]["decision"] == "approve (cell)"
    assert lab.run_cell(1)
    assert lab.text(1) == "3\n"
    lab.cell(1).get_by_role("button", name="Fix", exact=True).wait_for(state="detached")

    turn.get_by_role("button", name="Undo this turn").click()
    lab.button("Undo all of this", 2).click()
    lab.page.wait_for_function(
        "text => jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.getSource() === text",
        arg=wrong,
    )
    assert "tract" not in lab.save().cells[1].metadata


def test_a_turn_that_was_stopped_or_failed_has_no_error_to_fix(open_lab, model):
    lab = open_lab(
        chat.SETUP.format(url=model.url), chat.CHAT, "1 / 0", "import asyncio\nraise asyncio.CancelledError"
    )
    assert lab.run_cell(0), lab.text(0)
    fixes = [lab.cell(number).get_by_role("button", name="Fix", exact=True) for number in range(4)]
    lab.run_cell(1, wait=False)
    lab.button("Stop", 1).click()
    chat.stopped(lab)
    model.reply().end()  # to the stopped request
    assert not lab.run_cell(2)
    fixes[2].wait_for()
    assert fixes[1].count() == 0
    model.reply("Half").break_off()
    assert not lab.run_cell(1)
    assert "Failed: see above" in lab.text(1)
    assert not lab.run_cell(3)
    assert not lab.run_cell(2)
    fixes[2].wait_for()
    assert [fix.count() for fix in fixes] == [0, 0, 1, 0]
