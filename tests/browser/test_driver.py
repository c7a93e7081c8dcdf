"""The driver itself, on a plain kernel: if these fail, no other browser test means anything."""

from __future__ import annotations

import pytest

from tests.browser.lab import KernelCodeError
from tests.browser.notebooks import read_notebook
from tests.browser.server import DARK, LIGHT

COUNTER = """
import ipywidgets
button, label = ipywidgets.Button(description="Count"), ipywidgets.Label("none")
clicks = []
def count(_):
    clicks.append(1)
    label.value = f"clicked {len(clicks)}"
button.on_click(count)
ipywidgets.HBox([button, label])
"""

AWAITED = """
import asyncio, ipywidgets
clicked = asyncio.Event()
button = ipywidgets.Button(description="Go on")
button.on_click(lambda _: clicked.set())
display(button)
while not clicked.is_set():
    await asyncio.sleep(0.02)
print("went on")
"""

FORM = """
import anywidget, traitlets
class Form(anywidget.AnyWidget):
    _esm = '''
    export default { render({ model, el }) {
      const button = document.createElement("button");
      button.textContent = "Send";
      button.onclick = () => model.send({ text: "hello" });
      const note = el.appendChild(document.createElement("p"));
      model.on("change:note", () => { note.textContent = model.get("note"); });
      el.append(button);
    } };'''
    note = traitlets.Unicode().tag(sync=True)
form, received = Form(), []
def receive(_, content, buffers):
    received.append(content["text"])
    form.note = "noted"
form.on_msg(receive)
form
"""

SLOW = """
import time
print("begun")
while True:
    time.sleep(0.01)
"""


def test_cells_run_and_their_outputs_are_read(open_lab):
    lab = open_lab("n = 6 * 7\nprint(n)", "n", "1 / 0", "import sys; print(sys.prefix)")
    assert [lab.run_cell(index) for index in range(4)] == [True, True, False, True]
    assert lab.text(0) == "42\n"
    assert lab.outputs(1)[0]["data"] == {"text/plain": "42"}
    assert "ZeroDivisionError: division by zero" in lab.text(2)
    import sys

    assert lab.text(3).strip() == sys.prefix


def test_run_all_reports_failure_and_a_changed_source_runs(open_lab):
    lab = open_lab("a = 1", "a + b", "print('after')")
    assert not lab.run_all()
    assert lab.outputs(2) == []
    lab.set_source(1, "a + 1")
    assert lab.run_all()
    assert lab.text(1) == "2"
    assert lab.text(2) == "after\n"


def test_widget_clicks_reach_an_idle_kernel(open_lab):
    lab = open_lab(COUNTER)
    lab.run_cell(0)
    for number in (1, 2):
        lab.button("Count", 0).click()
        lab.output(0).get_by_text(f"clicked {number}").wait_for()
    assert lab.execute("print(len(clicks))") == "2\n"
    with pytest.raises(KernelCodeError, match="NameError"):
        lab.execute("nothing_like_it")


def test_anywidget_messages_need_nothing_from_outside(open_lab, browser):
    lab = open_lab(FORM)
    lab.run_cell(0)
    lab.button("Send", 0).click()
    lab.output(0).get_by_text("noted").wait_for()
    assert lab.execute("print(received)") == "['hello']\n"
    assert browser.external == []
    assert [line for line in lab.console if line.startswith("pageerror")] == []


def test_a_click_reaches_a_cell_that_awaits_it(open_lab):
    lab = open_lab(AWAITED, "print('next')")
    assert lab.run_cell(0, wait=False) is None
    lab.button("Go on", 0).wait_for()
    lab.wait_comms()
    lab.button("Go on", 0).click()
    assert lab.wait_cell(0)
    assert lab.wait_output(0, "went on")
    assert lab.run_cell(1)


def test_input_is_answered(open_lab):
    lab = open_lab("names = [input('first name? '), input('second name? ')]\nprint(names)")
    lab.run_cell(0, wait=False)
    lab.answer_input("first name?", "Ada")
    lab.answer_input("second name?", "Grace")
    assert lab.wait_cell(0)
    assert "['Ada', 'Grace']" in lab.text(0)


def test_interrupt_and_restart(open_lab):
    lab = open_lab(SLOW, "kept = 1")
    lab.run_cell(0, wait=False)
    lab.wait_output(0, "begun")
    with pytest.raises(TimeoutError, match="cell 0 shows:\nbegun"):
        lab.wait_cell(0, timeout=0.1)
    lab.interrupt()
    assert not lab.wait_cell(0)
    assert "KeyboardInterrupt" in lab.text(0)
    assert lab.run_cell(1)
    lab.restart()
    assert lab.execute("print('kept' in globals())") == "False\n"


def test_save_and_reload_keep_outputs_and_kernel(open_lab):
    lab = open_lab("state = 'alive'\nprint('shown')")
    lab.run_cell(0)
    assert lab.save().cells[0].outputs[0].text == "shown\n"
    lab.set_source(0, "unsaved")
    lab.reload()
    lab.output(0).get_by_text("shown").wait_for()
    assert lab.text(0) == "shown\n"
    assert lab.execute("print(state)") == "alive\n"
    assert read_notebook(lab.path).cells[0].source.startswith("state")
    lab.reopen()
    assert lab.execute("print('state' in globals())") == "False\n"


def test_themes_switch(open_lab, screenshot):
    lab = open_lab(COUNTER)
    lab.run_cell(0)
    background = "getComputedStyle(document.body).getPropertyValue('--jp-layout-color0').trim()"
    seen = {}
    for name in (DARK, LIGHT):
        lab.theme(name)
        seen[name] = lab.page.evaluate(background)
        assert screenshot(lab, f"driver-{name.split()[1].lower()}").stat().st_size > 10_000
    assert len(set(seen.values())) == 2
    assert screenshot(lab, "driver-cell", cell=0).exists()
    lab.theme(DARK)  # leftovers must not reach the next test


def test_every_notebook_has_its_own_folder_kernel_and_fresh_settings(open_lab):
    first, second = open_lab("x = 1"), open_lab("x")
    assert first.path.parent != second.path.parent
    assert first.run_cell(0)
    assert not second.run_cell(0)
    assert second.page.evaluate("document.body.dataset.jpThemeName") == LIGHT
    home = second.execute("import pathlib; print(pathlib.Path.home())").strip()
    assert home == str(second.server.home)


def test_requests_to_other_machines_are_aborted_and_noted(open_lab, browser):
    lab = open_lab("1")
    script = """async () => {
      const outcome = (promise) => promise.then(() => "reached", () => "refused");
      const socket = new Promise((yes, no) => {
        const ws = new WebSocket("wss://example.invalid/socket");
        ws.onclose = no; ws.onmessage = yes;
      });
      const fetched = fetch("https://example.invalid/data");
      return [await outcome(fetched), await outcome(socket)];
    }"""
    assert lab.page.evaluate(script) == ["refused", "refused"]
    noted = set(browser.take_external())
    assert noted == {"https://example.invalid/data", "wss://example.invalid/socket"}
