"""The side panel, the status bar, the commands and the badges of the JupyterLab extension."""

from __future__ import annotations

import pytest

from tests.browser import chat
from tests.browser.server import DARK, LABEXTENSION, LIGHT
from tests.browser.test_cells import sha

pytestmark = pytest.mark.skipif(not LABEXTENSION.is_dir(), reason="the JupyterLab extension is not built")

WIDGETS = """from ipywidgets.widgets.widget import _instances
side = get_ipython()._tract_jupyter.notebook.side
if timer := side._timer:  # it draws soon
    timer.join(10)
with side._drawing:
    pass
print(*sorted(type(one).__name__ for one in _instances.values() if type(one).__name__ in {"InboxPanel", "StatePanel"}))"""
HOSTILE = '<img src=x onerror="window.hacked = 1">\u202e\x1b[31m'
GRANTED = """
window.told = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { told.push("asked"); this.permission = "granted"; return "granted"; }
  constructor(title, options) { told.push(`${title}: ${options.body}`); }
  close() {}
};
localStorage.removeItem("tract-jupyter:notifications");
"""


def run(lab, command):
    lab.page.evaluate(f"jupyterapp.commands.execute('tract:{command}')")


def side(lab):
    return lab.page.locator("#tract-jupyter")


def button(where, name):
    return where.get_by_role("button", name=name, exact=True)


def queue_follow_ups(panel):
    for text in ("And <b>now</b>?", "Never mind."):
        panel.get_by_label("Follow-up", exact=True).fill(text)
        panel.get_by_label("Follow-up", exact=True).press("Enter")
    panel.get_by_text("These are sent after this turn.").wait_for()
    button(panel, "Remove “Never mind.”").click()
    panel.get_by_text("This is sent after this turn.").wait_for()


def test_the_side_panel_shows_and_decides_requests_and_stops_a_turn(open_lab, model, screenshot):
    model.reply("I save it.").call("save_table", path="out.csv", rows=3).end()
    model.reply("Saved.").end()
    model.reply("The next answer.").end()
    growing = model.reply("I think")
    lab = open_lab(chat.SETUP.format(url=model.url), chat.CHAT, chat.CHAT, viewport=(1440, 900))
    lab.page.evaluate(GRANTED)
    panel = side(lab)
    assert lab.run_cell(0)
    assert lab.execute(WIDGETS) == "\n"
    run(lab, "open-panel")
    panel.get_by_text("Nothing waits for you").wait_for()
    assert lab.execute(WIDGETS) == "InboxPanel StatePanel\n"
    button(panel, "Notify me if a request waits").click()
    button(panel, "Notify me if a request waits").wait_for(state="hidden")
    lab.page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    lab.run_cell(1, wait=False)
    panel.get_by_text("Inbox: 1 waiting").wait_for()
    lab.page.evaluate("delete document.hidden")
    assert lab.page.evaluate("told") == ["asked", "A request waits for you: notebook.ipynb"]
    status = lab.page.locator(".jp-tract-waiting")
    assert status.inner_text() == "Tract: 1 waiting"
    screenshot(lab, "side-light")
    lab.theme(DARK)
    screenshot(lab, "side-dark")
    lab.theme(LIGHT)
    queue_follow_ups(panel)
    button(panel, "Run").click()
    lab.output(1).get_by_text("The next answer.").wait_for()
    assert lab.wait_cell(1)
    assert model.requests[2]["messages"][-1]["content"] == "And <b>now</b>?"
    assert "“And <b>now</b>?”" in lab.output(1).inner_text()
    panel.get_by_text("Nothing waits for you").wait_for()
    status.wait_for(state="hidden")

    lab.run_cell(2, wait=False)
    button(panel, "Stop the running turn").click()
    chat.stopped(lab, 2)
    growing.end()
    button(panel, "Stop the running turn").wait_for(state="hidden")
    lab.page.get_by_role("tab", name="Tract").click()  # folds the panel
    panel.wait_for(state="hidden")
    lab.page.wait_for_function("!document.querySelector('#tract-jupyter .jp-tract-view')")
    assert lab.execute(WIDGETS) == "\n"
    run(lab, "open-panel")
    panel.get_by_text("Nothing waits for you").wait_for()
    lab.restart()
    panel.get_by_text("run %load_ext tract_jupyter").wait_for()
    assert lab.run_cell(0)
    panel.get_by_text("Nothing waits for you").wait_for()
    lab.page.get_by_role("tab", name="Tract").click()
    assert not [line for line in lab.console if line.startswith("pageerror")]


CUT = """foot => [...foot.querySelectorAll('.took, .pill')].filter(
  (one) => one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1
).map((one) => one.className)"""


def test_effects_that_the_cell_has_shown_are_kept_from_the_side_panel(open_lab, model, screenshot):
    code = "total = sum([1, 2])"
    model.reply("I add.").call("notebook_execute", code=code, backend="kernel", notebook_id="user").end()
    lab = chat.start(open_lab, model, viewport=(1280, 900), rehearses=True, chat="%%tract_chat\nAdd.")
    lab.output(1).locator("[data-action=keep][aria-disabled=false]").wait_for()
    run(lab, "open-panel")
    panel = side(lab)
    panel.get_by_text("Creates total (int 3).").first.wait_for()
    foot = panel.locator(".foot")
    foot.get_by_text("512 out").wait_for()
    assert foot.evaluate(CUT) == []
    screenshot(lab, "side-panel-script")
    model.reply("3.").end()
    button(panel, "Keep").click()
    chat.end(lab)
    assert lab.execute("print(total)") == "3\n"


def test_an_error_is_fixed_changed_and_run_by_keyboard_alone(open_lab, model, screenshot):
    wrong, right = "sales = {'units': 3}\nprint(sales['unit'])", "sales = {'units': 3}\nprint(sales['units'])"
    lab = open_lab(chat.SETUP.format(url=model.url), wrong, "# last", app="notebook")
    assert lab.run_cell(0), lab.text(0)
    assert not lab.run_cell(1)
    edit = {"action": "replace", "cell": "cell-1", "based_on": sha(wrong)[:16], "source": right}
    model.reply().call("notebook_read", cells=["cell-1"], outputs=True).end()
    model.reply().call("notebook_edit", edits=[edit]).end()
    model.reply("Fixed.").end()
    lab.cell(1).click()
    press = lab.page.keyboard.press
    press("Escape")
    press("Alt+Shift+F")
    card = lab.page.locator(".jp-tract-card")
    card.wait_for()
    press("Alt+Shift+W")
    lab.page.wait_for_function("document.activeElement.matches('.jp-tract-card')")
    press("Alt+Shift+C")
    lab.page.wait_for_function("document.activeElement.matches('.jp-tract-card .cm-content')")
    screenshot(lab, "cells-change")
    press("Control+End")
    press("Enter")
    lab.page.keyboard.type("print('mine')")
    press("Control+z")
    press("Control+y")
    card.get_by_text("print('mine')").wait_for()
    press("Alt+Shift+Enter")
    card.wait_for(state="detached")
    lab.wait_output(1, "3\nmine")
    fixed = lab.save().cells[1]
    assert fixed.source == f"{right}\nprint('mine')"
    assert fixed.metadata["tract"]["decision"].startswith("approve")
    badge = lab.cell(1).locator(".jp-tract-badge")
    assert badge.inner_text() == "scripted"
    assert f"commit: {fixed.metadata['tract']['commit']}" in badge.get_attribute("title")
    told = [one["content"] for one in model.requests[2]["messages"] if one["role"] == "tool"][-1]
    assert f'"source_hash": "{sha(fixed.source)[:16]}"' in told
    assert "The user changed" in told
    screenshot(lab, "cells-badge")

    lab.page.evaluate(
        "text => jupyterapp.shell.currentWidget.content.model.sharedModel.cells[1].setMetadata('tract', "
        "{model: text, turn: 7, commit: text, more: {}})",
        HOSTILE,
    )
    lab.page.wait_for_function("document.querySelector('.jp-tract-badge')?.textContent.includes('<img')")
    assert not {"\u202e", "\x1b"} & set(badge.inner_text() + badge.get_attribute("title"))
    assert lab.page.evaluate("window.hacked") is None
    run(lab, "open-panel")
    side(lab).get_by_text("Nothing waits for you").wait_for()
    screenshot(lab, "side-notebook")


def test_an_approved_script_that_runs_does_not_wait(open_lab, model):
    code = "import pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.01)"
    model.reply().call("notebook_execute", code=code, backend="kernel", notebook_id="user").end()
    lab = chat.start(open_lab, model)
    status = lab.page.locator(".jp-tract-waiting")
    status.get_by_text("Tract: 1 waiting").wait_for()
    lab.output(1).locator(".q [data-action=approve][aria-disabled=false]").click()
    status.wait_for(state="hidden")
    (lab.path.parent / "go").touch()
    model.reply("Done.").end()
    chat.end(lab)
