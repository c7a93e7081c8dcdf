"""The scrolling of a turn, and the size of its outputs, in a real JupyterLab."""

import time

import pytest

from tests.browser.chat import SETUP, end, start, stopped
from tests.browser.contrast import poor_contrast
from tests.browser.lab import TIMEOUT
from tests.browser.server import DARK

CHAT = "%%tract_chat\nGo."
WINDOW = (1280, 700)
TABLE = "import pandas as pd\npd.DataFrame({'n': range(12)})"
LOUD = "i = 0\nwhile True:\n    print('step', i)\n    i += 1"
IN_VIEW = """one => {
  let box = one.parentElement;
  while (box && !(box.scrollHeight > box.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(box).overflowY))) box = box.parentElement;
  if (!box) return false;
  const [inner, outer] = [one.getBoundingClientRect(), box.getBoundingClientRect()];
  return inner.height > 0 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
}"""

STILL = """async (box) => {
  let last = box.scrollTop;
  for (let frames = 0; frames < 20; frames += 1) {
    await new Promise(requestAnimationFrame);
    if (box.scrollTop !== last) [last, frames] = [box.scrollTop, 0];
  }
  return last;
}"""
"""Waits until a box stops scrolling, and returns its position."""


def ask(model, code, said=""):
    return model.reply(said).call("notebook_execute", code=code, backend="kernel", notebook_id="user").end()


def begin(open_lab, model, code, **options):
    """A turn with one request, for a script, at the end of a notebook that is longer than the window."""
    ask(model, code)
    return start(open_lab, model, chat=CHAT, viewport=WINDOW, **options)


def run(lab):
    button = lab.output(1).locator(".q [data-action=approve][aria-disabled=false]").first
    button.wait_for()
    lab.page.evaluate("clearInterval(window.tractReader)")
    button.click()


def wait_in_view(lab, selector):
    """Wait until an element is in view. The page may replace the element while this waits."""
    one = lab.output(1).locator(selector).last
    until = time.monotonic() + TIMEOUT
    while not one.evaluate(IN_VIEW):
        assert time.monotonic() < until, f"{selector} is not in view"
        lab.page.wait_for_timeout(20)


def test_after_a_click_the_result_and_the_next_question_are_in_view(open_lab, model):
    lab = begin(open_lab, model, TABLE)
    run(lab)
    ask(model, "print('second')", "Now the second.")
    wait_in_view(lab, ".q > .do")
    for shown in (".row > summary", ".result table"):
        wait_in_view(lab, shown)
    run(lab)
    model.reply("A sentence. " * 20).end()
    end(lab)
    for shown in (".result.stdout", ".prose", ".foot"):
        wait_in_view(lab, shown)


@pytest.mark.parametrize("how", ["click", "key"])
def test_the_code_at_the_lower_edge_unfolds_into_view(open_lab, model, screenshot, how):
    lab = begin(open_lab, model, f"seen = 1\n{TABLE}", rehearses=True, reads=False)
    button = lab.button("Code", 1)
    button.wait_for()
    button.evaluate("one => one.scrollIntoView({ block: 'end' })")
    button.click() if how == "click" else button.press("ArrowRight")
    wait_in_view(lab, ".q .full")
    screenshot(lab, f"unfolded-by-{how}")


BUTTONS = """() => {
  const place = document.createElement("div"), field = document.createElement("input"), holder = document.createElement("span");
  const draw = () => {
    const button = Object.assign(document.createElement("button"), { textContent: "Run", onclick: () => { window.pressed += 1; draw(); } });
    button.dataset.approves = "";
    holder.replaceChildren(button);
  };
  window.pressed = 0;
  window.pressedAt = [];
  document.addEventListener("pointerdown", (event) => window.pressedAt.push(event.timeStamp), { capture: true });
  Object.assign(place.style, { position: "fixed", left: "40px", top: "40px", zIndex: 9999 });
  place.className = "tract";
  place.append(holder, field);
  document.body.append(place);
  draw();
  const { x, y } = holder.firstChild.getBoundingClientRect();
  return [x + 5, y + 5];
}"""
"""Adds a button to the page. Each click replaces it with a new button. Returns its position."""
DOUBLE = 500
"""Maximum milliseconds between the clicks of a double click."""


def test_a_double_click_presses_no_button_that_replaced_the_first_one(open_lab, model):
    lab = begin(open_lab, model, TABLE)  # its turn loads the guard
    lab.output(1).locator(".q").wait_for()
    place = lab.page.evaluate(BUTTONS)
    types = [lambda: None, lambda: lab.page.keyboard.insert_text("7"), lambda: lab.page.keyboard.press("End")]
    for presses, types_something in enumerate(types, 1):
        lab.page.evaluate("document.querySelector('body > .tract input').focus()")
        types_something()
        lab.page.mouse.click(*place)
        assert lab.page.evaluate("pressed") == presses
    for _ in range(20):  # on a busy machine the second click can be too late
        before = lab.page.evaluate("pressed")
        lab.page.keyboard.press("End")
        lab.page.mouse.dblclick(*place)
        first, second = lab.page.evaluate("pressedAt.slice(-2)")
        if second - first < DOUBLE:
            break
    assert second - first < DOUBLE
    assert lab.page.evaluate("pressed") == before + 1


TWO_FIGURES = """import matplotlib.pyplot as plt
for title in ("first", "second"):
    plt.plot([1, 3, 2])
    plt.title(title)
    plt.show()"""


@pytest.mark.parametrize("size", [(1280, 900), (800, 700)], ids=["wide", "narrow"])
def test_two_figures_of_a_script_are_both_in_view_and_grow_when_focused(open_lab, model, screenshot, size):
    lab = begin(open_lab, model, TWO_FIGURES)
    lab.page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    run(lab)
    figures = lab.output(1).locator(".result img")
    figures.nth(1).wait_for()
    model.reply("A sentence. " * 20).end()
    page = end(lab)
    for shown in (
        ".row > summary",
        ".result img >> nth=0",
        ".result img",
        ".prose",
        ".foot",
    ):
        wait_in_view(lab, shown)
    screenshot(lab, f"in-view-figures-{size[0]}")
    figure = page.locator(".result img").first
    low = figure.bounding_box()["height"]
    figure.focus()
    assert figure.bounding_box()["height"] > low


def test_a_finished_output_shows_its_beginning(open_lab, model):
    lab = begin(open_lab, model, "for n in range(2_000):\n    print('line', n)")
    run(lab)
    model.reply("Done.").end()
    end(lab)
    stream = lab.output(1).locator(".result.stdout")
    assert stream.evaluate("one => one.scrollHeight - one.clientHeight") > 0
    assert stream.evaluate("one => one.scrollTop") == 0


def test_a_page_scrolled_to_the_end_shows_the_top_of_a_new_request(open_lab, model):
    reply = model.reply()
    lab = start(open_lab, model, chat=CHAT, viewport=WINDOW)
    lab.output(1).get_by_role("button", name="Stop").wait_for()
    lab.page.evaluate("""() => {
      const box = document.querySelector(".jp-WindowedPanel-outer");
      document.querySelectorAll(".jp-Cell")[1].style.paddingBottom = "900px";
      box.scrollTop = 1e6;
    }""")
    reply.call("notebook_execute", code="print(1)", backend="kernel", notebook_id="user").end()
    wait_in_view(lab, ".q > .what")
    wait_in_view(lab, ".q > .do")
    lab.interrupt()
    stopped(lab)


@pytest.mark.parametrize("reads", ["wheel", "unfold"])
def test_new_text_does_not_scroll_the_page_after_the_user_scrolled_or_unfolded(open_lab, model, reads):
    lab = begin(open_lab, model, TABLE, setup="\n# one\n" * 60)
    run(lab)
    answer = model.reply("Here. ")
    wait_in_view(lab, ".foot")
    box = lab.page.locator(".jp-WindowedPanel-outer")
    shown = box.evaluate("box => box.scrollTop")
    if reads == "wheel":
        lab.output(1).locator(".result").hover()
        lab.page.mouse.wheel(0, -400)
        moved = "([box, shown]) => box.scrollTop < shown"
        lab.page.wait_for_function(moved, arg=[box.element_handle(), shown])
    else:
        lab.output(1).locator(".row > summary").click()
    before = box.evaluate(STILL)
    for number in range(40):
        answer.say(f"Paragraph {number}.\n\n")
    lab.output(1).get_by_text("Paragraph 39.").wait_for()
    assert box.evaluate("box => box.scrollTop") == before
    answer.end()
    end(lab)
    lab.page.wait_for_timeout(1100)  # the static page adjusts its scroll position for a second
    assert box.evaluate("box => box.scrollTop") == before


def test_long_output_of_a_script_keeps_row_last_lines_and_stop_in_view(open_lab, model, screenshot):
    lab = begin(open_lab, model, LOUD)
    run(lab)
    out, page = lab.output(1), lab.page
    out.get_by_text("not shown; print less").wait_for()
    for shown in (".row > summary", ".result.stdout", ".foot [data-act=stop]"):
        wait_in_view(lab, shown)
    stream = out.locator(".result.stdout").element_handle()
    rest = "one => one.scrollHeight - one.clientHeight - one.scrollTop"
    page.wait_for_function(f"one => ({rest})(one) < 4", arg=stream)
    screenshot(lab, "in-view-loud")
    stream.evaluate("one => { one.scrollTop = 0; }")
    text = stream.inner_text()
    page.wait_for_function("([one, text]) => one.innerText !== text", arg=[stream, text])
    assert stream.evaluate("one => one.scrollTop") < 4
    out.get_by_role("button", name="Stop").click()
    ended = stopped(lab)
    for shown in (".row > summary", ".result.stdout", ".foot"):
        wait_in_view(lab, shown)
    text = ended.locator(".result.stdout").inner_text()
    assert text.startswith("step 0\nstep 1\n")
    assert "characters not shown; print less to see all" in text
    assert ended.locator(".result.stdout").bounding_box()["height"] <= 420
    screenshot(lab, "in-view-loud-stopped")


STYLED = """import pandas as pd
frame = pd.DataFrame({"n": [1, 2]})
frame.style.set_properties(**{"background-color": "lightyellow"}).set_table_styles([{"selector": "th", "props": "background: #202020"}])"""


@pytest.mark.parametrize("width", [1280, 800])
def test_a_styled_table_is_readable_in_the_dark_theme_and_the_foot_is_low(open_lab, model, screenshot, width):
    lab = begin(open_lab, model, STYLED)
    lab.page.set_viewport_size({"width": width, "height": 800})
    run(lab)
    ask(model, "print(2)")
    lab.output(1).locator(".foot .pill").wait_for()
    assert lab.output(1).locator(".foot").bounding_box()["height"] < (36 if width == 1280 else 64)
    run(lab)
    model.reply("Between 19.6 % and 20.4 %.").end()
    page = end(lab)
    lab.button("Undo this turn", 1).wait_for()
    lab.theme(DARK)
    assert poor_contrast(page) == []
    screenshot(lab, f"in-view-styled-{width}")
    assert page.locator(".foot").bounding_box()["height"] < (36 if width == 1280 else 64)
    assert "19.6\N{NO-BREAK SPACE}%" in page.locator(".prose").last.inner_text()


SLIDER = """import ipywidgets
slider = ipywidgets.IntSlider(value=3, description="Bins")
slider"""


def test_a_widget_is_shown_in_its_row_and_works_after_the_turn(open_lab, model, screenshot):
    lab = begin(open_lab, model, SLIDER)
    run(lab)
    handle = lab.output(1).locator(".result .noUi-handle")
    answer = model.reply("A slider.")
    handle.wait_for()
    handle.focus()
    lab.page.keyboard.press("ArrowRight")
    lab.output(1).locator(".result .widget-readout", has_text="4").wait_for()
    answer.end()
    end(lab)
    handle.wait_for()
    handle.focus()
    lab.page.keyboard.press("ArrowUp")
    lab.output(1).locator(".result .widget-readout", has_text="5").wait_for()
    screenshot(lab, "in-view-widget")
    values = iter(lambda: lab.execute("print(slider.value)").strip(), "5")
    for _ in zip(values, range(50), strict=False):  # values and code use different channels
        lab.page.wait_for_timeout(100)
    assert lab.execute("print(slider.value)").strip() == "5"
    assert len(lab.outputs(1)) == 1
    lab.save()
    lab = lab.reload()
    lab.output(1).locator(".result .widget-readout", has_text="5").wait_for()
    lab.restart()
    lab.save()
    lab = lab.reload()
    lab.output(1).locator(".result", has_text="IntSlider(value=3").wait_for()


BAR = """from tqdm.notebook import tqdm
import time
for _ in tqdm(range(3)):
    time.sleep(0.1)"""
NOISE = """import numpy, matplotlib.pyplot as plt
plt.figure(figsize=(12, 12), dpi=130)
plt.imshow(numpy.random.default_rng(0).integers(0, 255, (1500, 1500, 3), dtype='uint8'), interpolation='none')
plt.show()"""
ROWS = """import pandas as pd
pd.options.display.max_rows = 40_000
pd.DataFrame({'n': range(30_000)})"""
LARGE = {
    "rows": (ROWS, "This output has "),
    "figure": (NOISE, "This output has "),
    "lines": ("for n in range(100_000):\n    print('line', n)", "not shown; print less to see all"),
    "bar": (BAR, "3/3"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_a_large_output_is_bounded_and_its_row_says_so(open_lab, model, screenshot, kind):
    code, said = LARGE[kind]
    lab = begin(open_lab, model, code)
    run(lab)
    lab.output(1).locator(".result").first.wait_for()
    model.reply("That is it.").end()
    page = end(lab)
    screenshot(lab, f"in-view-large-{kind}")
    shown = page.locator(".list").inner_text()
    assert said in shown
    assert "Ran a script" in shown
    for one in page.locator(".result").all():  # limited in a low window
        assert one.bounding_box()["height"] <= 560
    assert len(str(lab.save())) < 400_000
    assert page.locator(".prose").last.inner_text() == "That is it."


RUN_ALL = "() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }"
ENDLESS = "import time\nprint('begun')\nwhile True:\n    time.sleep(0.05)"


@pytest.mark.parametrize("how", ["button", "kernel"])
@pytest.mark.parametrize("phase", ["question", "script"])
def test_an_interrupt_of_run_all_leaves_later_cells_alone(open_lab, model, phase, how):
    ask(model, ENDLESS)
    lab = open_lab(SETUP.format(url=model.url), CHAT, "after = 1", viewport=WINDOW)
    lab.page.evaluate(RUN_ALL)
    out = lab.output(1)
    out.locator(".q [data-action=approve][aria-disabled=false]").wait_for()
    if phase == "script":
        run(lab)
        out.locator(".result.stdout", has_text="begun").wait_for()
    lab.wait_comms()
    if how == "button":
        out.get_by_role("button", name="Stop").click()
    else:
        lab.interrupt()
    out.locator(".foot").get_by_text("You stopped this turn").wait_for()
    lab.wait_idle()
    assert "Queued cells did not run." in lab.text(1)
    assert lab.execute("print('after' in dir())").strip() == "False"
    assert out.locator("[data-act=stop]").count() == 0
