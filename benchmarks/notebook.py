"""A chat turn: created and sent data, the size of a saved notebook, and the delay until a word is on the page."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks.samples import RISKY
from benchmarks.timing import Growth, Row, best_of
from tract_jupyter import Tract
from tract_jupyter.notebook.chat import Foot, LiveTurn, MarkdownStream, TurnBlock, TurnWidget
from tract_jupyter.notebook.chat.log import TurnLog
from tract_jupyter.notebook.chat.source import TractSource
from tract_jupyter.notebook.panels import Panel
from tract_jupyter.notebook.views import element
from tract_jupyter.review import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS: Final = 200
_STEP: Final = 10  # calls of a step
_TOKENS: Final = (2_000, 10_000)
_PARAGRAPH: Final = (
    "The **great tit** leads in June, with `180` sightings; see [the list](https://example.org/list).\n\n"
    "- the blackbird follows\n- then the magpie\n\n| species | June |\n|---|--:|\n| great tit | 180 |\n\n"
    "```python\nrows = [row for row in table if row.month == 6]\n```\n\n"
)
_RESULT: Final = "2026-05-02  Parus major  Lindau  3\n" * 60


def rows() -> Iterator[Row]:
    """Measure without a page, then in JupyterLab if it and Chromium are installed."""
    yield from _made()
    yield from _streamed()
    yield from _saved()
    yield from _on_page()


def _made() -> Iterator[Row]:
    """Measure building a widget without a connection."""
    with Tract.open() as tract:
        ticket = Ticket(tract.propose_operation(RISKY), lambda _: None)
        yield Row("panel of a request, built", best_of(lambda: Panel(ticket).close()), "ms", target=6)
    widget = best_of(lambda: TurnWidget(lambda _: None, lambda _: None).close())
    yield Row("widget of a turn, built", widget, "ms", target=6)


class _Growing:
    """A turn whose text grows."""

    turn_id = "t"
    is_over = False
    go_on = ""

    def __init__(self) -> None:
        self.stream = MarkdownStream()

    def blocks(self) -> list[TurnBlock]:
        return [TurnBlock(key, html, kind="prose") for key, html in self.stream.parts()]

    def foot(self) -> Foot:
        return Foot(element("span", "Answering"), ("stop",))

    def to_html(self) -> str:
        return "".join(block.html for block in self.blocks())

    def to_text(self) -> str:
        return ""


def _streamed() -> Iterator[Row]:
    """Measure 20 drawings a second of a reply with 500 tokens a second, compared with drawing all of it each time."""
    growth = Growth()
    for tokens in _TOKENS:
        text = (_PARAGRAPH * (tokens * 5 // len(_PARAGRAPH) + 1))[: tokens * 5]
        sent, whole, seconds = _draw(text)
        for name, value, unit, most in (
            (f"{tokens:,} tokens: sent to the page", sent / 1e3, "kB", 8.0),
            (f"{tokens:,} tokens: made and sent in the kernel", seconds, "ms", 8.0),
            (f"{tokens:,} tokens: whole text each time, in times of that", whole / sent, "x", None),
        ):
            grown = growth.of(name.partition(":")[2], value)
            yield Row(name, value, unit, growth=grown, most_growth=most)


def _draw(text: str) -> tuple[int, int, float]:
    """Return the bytes of all patches, the bytes of all whole pages, and the seconds of the patches."""
    view, sent, whole, seconds = _Growing(), 0, 0, 0.0
    live = LiveTurn(lambda _: None, lambda run, _: run())
    widget: Any = live._widget  # noqa: SLF001 # what goes over its comm is measured
    widget.ready = True

    def send(patch: dict[str, Any]) -> None:
        nonlocal sent
        sent += len(json.dumps(patch))

    widget.send = send
    piece = 5 * 25  # characters of 50 ms
    for begin in range(0, len(text), piece):
        view.stream.append(text[begin : begin + piece])
        started = perf_counter()
        live.draw(view, at_once=True)  # type: ignore[arg-type] # a view of one block
        seconds += perf_counter() - started
        whole += len(json.dumps(view.to_html()))
    return sent, whole, seconds


def _saved() -> Iterator[Row]:
    """Measure the saved data of a turn with many calls, each with a result of 2 kB."""
    with Tract.open() as tract:

        @tract.tool(read_only=True)
        def look(number: int) -> str:
            """Look at something."""
            return f"{number}: {_RESULT}"

        replies = iter(range(CALLS // _STEP + 1))

        def model(_messages: Any, **_: Any) -> Any:
            step = next(replies)
            if step * _STEP >= CALLS:
                return "That is all."
            calls = [
                {
                    "id": f"c{number}",
                    "type": "function",
                    "function": {"name": "look", "arguments": json.dumps({"number": number})},
                }
                for number in range(step * _STEP, (step + 1) * _STEP)
            ]
            return {"choices": [{"message": {"content": "I look at ten more.", "tool_calls": calls}}]}

        tract.models.use(model)
        log = TurnLog(TractSource(tract))
        tract.chat("Look at all.", tools="full", on_turn=log.add)
        made = log.view()
        size = len(json.dumps([made.to_html(), made.to_text()])) / 1e3
        yield Row(f"a turn of {CALLS:,} calls, saved", size, "kB", target=270)
        view = best_of(lambda: log.view().to_html())
        yield Row(f"a turn of {CALLS:,} calls, drawn as a static page", view, "ms")


# --- in a browser

_SETUP: Final = """%load_ext tract_jupyter
import asyncio, json, time
from tests.notebook.chat.stubs import StubView, prose
from tract_jupyter.notebook.chat import LiveTurn
drawn, ran, printed = [], [], []

async def stream(count):
    live = LiveTurn(lambda action: None, tract.reviewer.channel.soon)
    live.put_up()
    while not live.ready:
        await asyncio.sleep(0.05)
    for number in range(count):
        await asyncio.sleep(0.2)
        drawn.append(time.time() * 1000)
        live.draw(StubView(prose(f"Some words, and mark{number}.")))
    await asyncio.sleep(0.5)

@tract.tool
def save(path: str):
    \"\"\"Save a file.\"\"\"
    ran.append(time.time() * 1000)

def prints(number):
    code = f"import time; time.sleep(0.3); printed.append(time.time() * 1000); print('line{number}'); time.sleep(0.3)"
    return {"code": code, "backend": "kernel", "notebook_id": "user"}

def model(messages, **options):
    asked = max(number for number, message in enumerate(messages) if message["role"] == "user")
    number = len(messages[asked:]) // 2
    is_script = messages[asked]["content"] == "Print."
    if number == (SCRIPTS if is_script else CLICKS):
        return "Done."
    name, given = ("notebook_execute", prints(number)) if is_script else ("save", {"path": f"file {number}"})
    function = {"name": name, "arguments": json.dumps(given)}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}

tract.models.use(model)
tract.scripts.rehearsing.is_on = False  # a rehearsed script has printed before its click
"""
_WATCH: Final = """() => {
  window.seen = {};
  window.clicked = [];
  const now = () => performance.timeOrigin + performance.now();
  new MutationObserver(() => {
    const shown = [...document.querySelectorAll(".tract.turn :is(.prose, .result.stdout)")];
    const text = shown.map((one) => one.textContent).join(" ");
    for (const [found] of text.matchAll(/(?:mark|line)\\d+/g))
      if (!(found in seen)) { seen[found] = 0; requestAnimationFrame(() => { seen[found] = now(); }); }
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
  document.addEventListener("click", (event) => event.isTrusted && clicked.push(now()), true);
}"""
_MARKS: Final = 20
_CLICKS: Final = 15
_SCRIPTS: Final = 7
_READING: Final = 300
"""Milliseconds."""


def _on_page() -> Iterator[Row]:
    """Measure on a page; yield nothing if no page can be opened."""
    if not has_page():
        return
    with lab_server() as open_lab:
        setup = _SETUP.replace("CLICKS", str(_CLICKS)).replace("SCRIPTS", str(_SCRIPTS))
        chats = (f"%%tract_chat --direct\n{said}" for said in ("Save.", "Print."))
        lab = open_lab(setup, f"await stream({_MARKS})", *chats)
        lab.run_cell(0)
        lab.page.evaluate(_WATCH)
        lab.run_cell(1)
        drawn = json.loads(lab.execute("import json; print(json.dumps(drawn))"))
        lags = _lags(lab, "mark", drawn)
        yield Row("a delta in the kernel ─► on the screen, median", median(lags) / 1e3, "ms", target=20)
        lab.run_cell(2, wait=False)
        lab.page.evaluate("clicked.length = 0")
        for number in range(_CLICKS):
            question = lab.output(2).locator("section.q").filter(has_text=f"file {number}")
            question.locator(".do > .primary[aria-disabled=false]").hover()
            lab.page.wait_for_timeout(
                _READING
            )  # a person reads first: the page has drawn the question by then
            lab.page.mouse.down()
            lab.page.mouse.up()
        lab.wait_cell(2)
        ran = json.loads(lab.execute("print(json.dumps(ran))"))
        clicked = lab.page.evaluate("clicked")
        lags = [done - at for done, at in zip(ran, clicked, strict=True)]
        yield Row("a click ─► the call that waited begins, median", median(lags) / 1e3, "ms", target=10)
        lab.run_cell(3, wait=False)
        for number in range(_SCRIPTS):
            question = lab.output(3).locator("section.q").filter(has_text=f"line{number}")
            question.locator(".do > .primary[aria-disabled=false]").click()
        lab.wait_cell(3)
        lags = _lags(lab, "line", json.loads(lab.execute("print(json.dumps(printed))")))
        yield Row("first output of a script ─► on the screen, median", median(lags) / 1e3, "ms", target=50)


def has_page() -> bool:
    """Return True if a page can be opened; otherwise print the reason."""
    try:
        missing = import_module("tests.browser.chromium").missing_parts()
    except ImportError as error:  # the tests are not part of an installed package
        missing = str(error)
    if missing:
        print(f"  (not measured on a page: {missing})")
    return not missing


def _lags(lab: Any, word: str, times: list[float]) -> list[float]:
    """Return the milliseconds from each time to the moment when the word with its number was on the screen."""
    seen = lab.page.evaluate("seen")
    return [seen[f"{word}{number}"] - at for number, at in enumerate(times) if seen.get(f"{word}{number}")]


@contextmanager
def lab_server() -> Iterator[Callable[..., Any]]:
    """Yield a function that opens a notebook with these cells in a separate JupyterLab."""
    from playwright.sync_api import sync_playwright

    chromium, server, lab, notebooks = (
        import_module(f"tests.browser.{name}") for name in ("chromium", "server", "lab", "notebooks")
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        server.LabServer(Path(folder)) as running,
    ):
        process = playwright.chromium.launch(
            executable_path=chromium.find_chromium(), args=list(chromium.ARGUMENTS)
        )

        def open_lab(*sources: str) -> Any:
            path = running.root / "measured" / "notebook.ipynb"
            notebooks.write_notebook(path, *sources)
            return lab.Lab(chromium.Chromium(process).page(), running, path).open()

        try:
            yield open_lab
        finally:
            process.close()
