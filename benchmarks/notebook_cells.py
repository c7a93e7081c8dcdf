"""The cells of a large notebook: reading them, showing a proposed edit, and making an accepted one."""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.notebook import has_page, lab_server
from benchmarks.timing import Row
from tests.browser.cell_scenarios import CHAT, SETUP, Stage, accept, replace
from tests.browser.server import LABEXTENSION

if TYPE_CHECKING:
    from collections.abc import Iterator

_CELLS: Final = 500
_ROUNDS: Final = 7
_READING: Final = 500
"""Milliseconds: a user reads first."""
_THINKING: Final = 0.5
"""Seconds: a real model is not faster. Until then, the page has drawn the new turn."""
_TIMES: Final = """
proposed = []
plain_call = call
def call(name, **values):
    if name == "notebook_edit":
        time.sleep(THINKING)
        proposed.append(time.time() * 1000)
    return plain_call(name, **values)

def read():
    pages = get_ipython()._tract_jupyter.notebook.cells.pages
    started = time.perf_counter()
    cells = pages.read()
    took = time.perf_counter() - started
    assert cells.page is not None
    return took
"""
_ECHO: Final = """
def echo(comm, _):
    comm.on_msg(lambda message: comm.send(message["content"]["data"]))

get_ipython().kernel.comm_manager.register_target("echo", echo)
"""
_ECHOES_JS: Final = """async (count) => {
  const comm = jupyterapp.shell.currentWidget.sessionContext.session.kernel.createComm("echo");
  comm.open();
  const times = [];
  for (let number = 0; number <= count; number++) {
    const begun = performance.now();
    const echoed = new Promise((done) => { comm.onMsg = done; });
    comm.send({ number });
    await echoed;
    times.push((performance.now() - begun) / 1e3);
  }
  return times.slice(1);
}"""
_SETTLE_JS: Final = """async () => {
  const view = jupyterapp.shell.currentWidget.content.node.querySelector(".jp-WindowedPanel-outer");
  const idle = () => new Promise((done) => requestIdleCallback((deadline) => done(deadline.timeRemaining())));
  for (const top of [view.scrollHeight, 0]) {
    view.scrollTop = top;
    for (let quiet = 0, left = 500; quiet < 5 && left > 0; left--) quiet = (await idle()) > 20 ? quiet + 1 : 0;
  }
}"""
"""The editors of new cells measure themselves at the first scroll, which takes seconds."""
_WATCH: Final = """() => {
  window.tractTimes = { shown: [], clicked: [], changed: [] };
  const now = () => performance.timeOrigin + performance.now();
  let card = null;
  const { shown, clicked, changed } = tractTimes;
  new MutationObserver(() => {
    const found = document.querySelector(".jp-tract-card .cm-line")?.closest(".jp-tract-card") ?? null;
    if (found && found !== card) requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel(); // its message comes after the frame is drawn
      port1.onmessage = () => shown.push(now());
      port2.postMessage(null);
    });
    card = found;
  }).observe(document.body, { subtree: true, childList: true });
  document.addEventListener("click", (event) => event.isTrusted && clicked.push(now()), true);
  const { cells } = jupyterapp.shell.currentWidget.content.model.sharedModel;
  const cell = cells.find((one) => one.getId().endsWith("-n3"));
  cell.changed.connect((_, change) => change.sourceChange && changed.push(now()));
}"""
_EARLY: Final = (
    "import sys; early = sum(name.startswith('tract_jupyter.notebook.cells') for name in sys.modules)"
)
_OWN: Final = (
    SETUP.replace("%tract looking", f"{_EARLY}\n%tract looking") + _TIMES.replace("THINKING", str(_THINKING)),
    CHAT,
)
"""The cells of the notebook."""


def rows() -> Iterator[Row]:
    """Measure in JupyterLab, if it, Chromium and the extension are there."""
    if not has_page():
        return
    if not LABEXTENSION.is_dir():
        print("  (not measured: the JupyterLab extension is not built)")
        return
    with lab_server() as open_lab:
        lab = open_lab(*_OWN)
        lab.page.evaluate("() => clearInterval(window.tractReader)")
        yield from _measure(lab)


def _measure(lab: Any) -> Iterator[Row]:
    stage = Stage(lab, None)
    yield Row(
        "cells: modules loaded before a page connects", int(lab.execute("print(early)")), "modules", target=0
    )
    stage.reset(
        {
            f"n{number}": {"cell_type": "code", "source": f"value_{number} = {number}"}
            for number in range(_CELLS)
        }
    )
    lab.page.wait_for_function(
        "most => document.querySelectorAll('.jp-Notebook .jp-Cell').length > most", arg=_CELLS
    )
    seconds = json.loads(lab.execute(f"print([read() for _ in range({_ROUNDS})])"))
    yield from _rows("read", seconds, 50)
    lab.execute(_ECHO)
    lab.page.evaluate(_SETTLE_JS)
    echoes = lab.page.evaluate(_ECHOES_JS, _ROUNDS)
    yield from _rows("a comm message ─► its bare echo", echoes, None)
    lab.page.evaluate(_WATCH)
    for number in range(_ROUNDS):
        stage.ask([replace("n3", f"value_3 = {number + 100}")])
        stage.wait_shown()
        lab.page.wait_for_timeout(_READING)
        accept(stage)
        stage.told()
    times = lab.page.evaluate("tractTimes")
    proposed = json.loads(lab.execute("print(json.dumps(proposed))"))
    shown = _lags(proposed, times["shown"])
    yield from _rows("a proposal ─► its diff on the screen", shown, 100)
    yield Row(f"{_CELLS} cells: the diff, in times of the echo", min(shown) / min(echoes), "x")
    changed = times["changed"]
    clicks = [max(at for at in times["clicked"] if at <= done) for done in changed]  # others only scroll
    yield from _rows("a click on Accept ─► the cell is changed", _lags(clicks, changed), 50)


def _lags(begun: list[float], done: list[float]) -> list[float]:
    """Return the seconds between the times of two lists, which are in milliseconds."""
    return [(end - start) / 1e3 for start, end in zip(begun, done, strict=True)]


def _rows(name: str, seconds: list[float], target: float | None) -> Iterator[Row]:
    """Yield the best time, and the median without a target: other programs slow a page down."""
    yield Row(f"{_CELLS} cells: {name}", min(seconds), "ms", target=target)
    yield Row(f"{_CELLS} cells: {name}, median of {len(seconds)}", median(seconds), "ms")
