"""Outputs of a kernel script, below its row, in a real JupyterLab."""

from tests.browser.chat import bundle, end, start, stopped
from tests.browser.server import DARK, LIGHT

CHAT = "%%tract_chat\nRevenue by region, please."
TABLE = """import pandas as pd
print("\\x1b[32mreading\\x1b[0m the table")
frame = pd.DataFrame({"region": ["North", "South"] * 2, "revenue": [41208.5, 38977, 12044, 39551]})
display(frame.style.background_gradient(subset=["revenue"], cmap="Greens").format(precision=1))
import matplotlib.pyplot as plt
figure = plt.figure(figsize=(4, 1.5))
plt.plot([1, 3, 2])
frame.groupby("region").sum()"""
WAITS = "import time\nprint('begun')\nwhile True:\n    time.sleep(0.05)"
FAILS = "from tqdm.auto import tqdm\nfor _ in tqdm(range(7)):\n    pass\n{}['revenue']"


def begin(open_lab, model, code, *more, **options):
    """Start a turn whose model asks to run a script, and approve the script."""
    call(model, code)
    lab = start(open_lab, model, *more, chat=CHAT, **options)
    approve(lab, 1)
    return lab


def call(model, code):
    model.reply("I look.").call("notebook_execute", code=code, backend="kernel", notebook_id="user").end()


def approve(lab, cell):
    lab.output(cell).locator(".q [data-action=approve][aria-disabled=false]").first.click()
    lab.output(cell).locator(".result").first.wait_for()


def test_outputs_are_below_the_row_of_their_script_and_survive_a_reload(open_lab, model, screenshot):
    lab = begin(open_lab, model, TABLE)
    model.reply("North leads.").end()
    page = end(lab)
    assert "reading the table" in page.locator(".result.stdout").inner_text()
    text = page.locator(".result.stdout > pre")
    assert text.evaluate("one => getComputedStyle(one).wordBreak") == "normal"  # numbers stay in one line
    cell = page.locator(".result table").first.locator("td").last
    assert cell.evaluate("one => getComputedStyle(one).backgroundColor") != "rgba(0, 0, 0, 0)"
    assert page.locator(".result table").last.locator("th").nth(-1).inner_text() == "South"
    assert page.locator(".result > img").filter(visible=True).evaluate("one => one.naturalWidth") > 100
    text = page.inner_text()
    assert text.index("53252.5") < text.index("North leads.")
    assert len(lab.outputs(1)) == 1  # nothing below the foot
    screenshot(lab, "results", 1)
    lab.theme(DARK)
    screenshot(lab, "results-dark", 1)
    lab.theme(LIGHT)
    lab.page.set_viewport_size({"width": 800, "height": 1000})
    screenshot(lab, "results-800", 1)
    assert "53252.5" in bundle(lab)["text/plain"]
    lab.save()
    lab = lab.reload()
    again = lab.output(1)
    again.locator(".result > img").filter(visible=True).wait_for()
    assert again.locator(".result table").count() == 2
    code, sent = again.locator(".row .code").first, again.locator(".row .tab pre.out").first
    again.locator(".row > summary").first.click()
    assert code.is_visible()
    assert not sent.is_visible()
    again.locator(".tab > summary", has_text="Sent to the model").click()
    assert sent.is_visible()
    again.locator(".row > summary").first.click()
    assert not code.is_visible()
    lab.page.emulate_media(media="print")
    assert code.is_visible()
    screenshot(lab, "results-print", 1)


def test_a_running_script_looks_like_one_and_a_stopped_one_is_stopped(open_lab, model, screenshot):
    lab = begin(open_lab, model, WAITS)
    out = lab.output(1)
    row = out.locator(".row > summary")
    row.get_by_text("Running a script").wait_for()
    assert row.locator(".i-run").count() == 1
    row.get_by_text("1.0 s").wait_for()
    assert "begun" in out.locator(".result.stdout").inner_text()
    screenshot(lab, "results-running", 1)
    out.get_by_role("button", name="Stop").click()
    page = stopped(lab)
    assert page.locator(".row > summary .i-stop").count() == 1
    assert "Script stopped" in page.inner_text()
    assert "failed" not in page.inner_text()
    assert "begun" in page.locator(".result.stdout").inner_text()
    screenshot(lab, "results-stopped", 1)


def test_the_next_turn_runs_its_script_while_a_stopped_script_still_blocks(open_lab, model):
    setup = "\nimport threading\ngo = threading.Event()\n"
    lab = begin(open_lab, model, "print('begun')\ngo.wait(60)\nlater = 1", CHAT, setup=setup)
    lab.output(1).get_by_role("button", name="Stop").click()
    assert "Script stopped; its last call may still be running" in stopped(lab).inner_text()
    assert lab.output(1).locator("[data-testid=tract-waiting]").count() == 0
    call(model, "print('again')")
    lab.run_cell(2, wait=False)
    approve(lab, 2)
    model.reply("Done.").end()
    assert "Ran a script" in end(lab, 2).inner_text()
    assert lab.execute("go.set(); print('later' in globals())").strip() == "False"


def test_a_failed_script_names_its_error_and_shows_its_progress_bar_once(open_lab, model, screenshot):
    lab = begin(open_lab, model, FAILS)
    model.reply("It failed.").end()
    page = end(lab)
    assert "Script failed: KeyError: 'revenue'" in page.locator(".row > summary").inner_text()
    assert page.inner_text().count("7/7") == 1
    assert "KeyError" in page.locator(".result.error").inner_text()
    assert len(lab.outputs(1)) == 1
    screenshot(lab, "results-failed", 1)


def test_read_only_scripts_run_without_approval_until_the_user_ends_it(open_lab, model, screenshot):
    for code in ("sum(rows)", "max(rows)"):
        model.reply().call("notebook_execute", code=code, backend="kernel", notebook_id="user").end()
    model.reply("Six, and three.").end()
    lab = start(open_lab, model, CHAT, chat=CHAT, setup="\nrows = [1, 2, 3]\n", rehearses=True)
    out = lab.output(1)
    lab.button("Let the model look…", 1).click()
    out.get_by_text("Let the model look without asking, in this session").wait_for()
    screenshot(lab, "looking-allowed", 1)
    out.get_by_role("button", name="Let it look, and send this").click()
    page = end(lab)
    for row in page.locator(".row > summary").all():
        assert "Looked, no effects" in row.inner_text()
    screenshot(lab, "looking", 1)
    lab.page.set_viewport_size({"width": 800, "height": 1000})
    lab.theme(DARK)
    screenshot(lab, "looking-800-dark", 1)
    out.get_by_role("button", name="Ask about each script again").click()
    out.get_by_role("button", name="Ask about each script again").wait_for(state="detached")
    model.reply().call("notebook_execute", code="min(rows)", backend="kernel", notebook_id="user").end()
    lab.run_cell(2, wait=False)
    lab.output(2).locator(".q").wait_for()


SLOW = "import time\ntime.sleep(2)\ntotal = 6 * 7\nprint(total)"


def test_a_request_is_readable_in_each_width_and_a_change_is_no_error(open_lab, model, screenshot):
    model.reply().call("notebook_execute", code=SLOW, backend="kernel", notebook_id="user").end()
    model.reply().call("notebook_execute", code="print(total)", backend="kernel", notebook_id="user").end()
    lab = start(open_lab, model, chat=CHAT, rehearses=True, viewport=(1280, 900))
    out = lab.output(1)
    out.get_by_text("Rehearsing a script").wait_for()
    assert "Running" not in out.inner_text()
    note = out.locator(".q > .do > .why")
    lab.button("Change code", 1).click()
    code = out.get_by_label("code", exact=True)
    code.fill("total = 6 * 9\nprint(total)")
    lab.button("Rehearse the change", 1).click()
    changed = out.get_by_role("alert").filter(
        has_text="The changed code was rehearsed. These are its effects."
    )
    changed.wait_for()
    colors = [
        one.evaluate("one => getComputedStyle(one).color") for one in (changed, out.locator(".q .sentence"))
    ]
    assert colors[0] == colors[1]
    assert out.locator(".q .note.no").count() == 0
    lab.button("Keep", 1).click()
    lab.button("Let the model look…", 1).wait_for()
    note.filter(has_text="Rehearsed on a copy").wait_for()
    for width in (1280, 1000):
        lab.page.set_viewport_size({"width": width, "height": 900})
        screenshot(lab, f"looking-asked-{width}", 1)
        assert note.evaluate("one => one.scrollWidth <= one.clientWidth"), width
    lab.page.set_viewport_size({"width": 620, "height": 900})
    screenshot(lab, "looking-asked-620", 1)
    title = out.locator(".q .what > b")
    assert title.evaluate("one => one.getClientRects().length") == 1
    assert title.evaluate("one => one.clientHeight") < 30
    fits = "one => one.getBoundingClientRect().right <= one.closest('.q').getBoundingClientRect().right"
    assert out.locator(".q .badge").evaluate(fits)


FORMULAS = r"""The area is $\pi r^2$, and it costs $5 to $6.

$$
\int_0^1 x^2\,dx
= \frac{1}{3}
$$

$\href{javascript:window.ran=1}{x}$"""


def test_formulas_are_typeset(open_lab, model, screenshot):
    code = "numbers = [1, 2]\n\nprint(sum(numbers))\nopen('sum.txt', 'w').write('3')"
    model.reply("I look.").call("notebook_execute", code=code, backend="kernel", notebook_id="user").end()
    lab = start(open_lab, model, chat=CHAT)
    out = lab.output(1)
    model.reply(FORMULAS).end()
    out.locator(".q [data-action=approve][aria-disabled=false]").first.click()
    page = end(lab)
    page.locator("mjx-container").nth(1).wait_for()
    assert page.locator("mjx-container").count() == 2
    assert page.locator("mjx-container a").count() == 0
    assert "it costs $5 to $6" in page.inner_text()
    assert "4 lines of code" in page.locator(".row > summary").first.inner_text()
    screenshot(lab, "results-formulas", 1)


LOOK = """table => {
  const cell = getComputedStyle(table.querySelector("td"));
  return [getComputedStyle(table).borderCollapse, cell.borderTopWidth, cell.textAlign, cell.padding];
}"""


def test_a_table_of_a_rehearsal_looks_as_in_the_row(open_lab, model, screenshot):
    code = "import pandas as pd\npd.DataFrame({'a': range(3)})"
    model.reply().call("notebook_execute", code=code, backend="kernel", notebook_id="user").end()
    model.reply("Done.").end()
    lab = start(open_lab, model, chat="%%tract_chat\nShow it.", rehearses=True)
    out = lab.output(1)
    asked = out.locator(".fx-html table")
    asked.wait_for()
    look = asked.evaluate(LOOK)
    screenshot(lab, "rehearsed-table", 1)
    out.locator("[data-action=keep][aria-disabled=false]").click()
    end(lab)
    assert out.locator(".result table").evaluate(LOOK) == look
