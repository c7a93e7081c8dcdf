"""A request as a row of three lines, in a real JupyterLab: its height, its keys, the focus, missing parts."""

import pytest

from tests.browser.contrast import poor_contrast

LOAD = "%load_ext tract_jupyter"
COUNT = '''%%tract_operation word_count --ask
"""Count the words, and write the number down."""
path: str = "count.txt"

def count(pending, at_least: int = 1):
    """Count, and write the number down."""
    import subprocess
    open(pending.fields["path"], "w").write(str(at_least))
    pending.approve()
'''
FIRE = "p = %tract_fire word_count --review"
TOOLS = '''import json
done = []

@tract.tool
def save_plot(path: str, table: str = "data/clean.csv", top: int = 10):
    """Save a plot of the most frequent species."""
    done.append(path)

@tract.tool
def http_get(url: str):
    """Read an address."""
    done.append(url)

def call(number, name, **arguments):
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}

def model(messages, **options):
    if messages[-1]["role"] == "tool":
        return "Done."
    return {"choices": [{"message": {"content": None, "tool_calls": calls}}]}

tract.models.use(model)
'''
ASK = "tract.chat('Go.', tools='self').text"
LONG_URL = "https://data.example.org/v1/observations?" + "&".join(f"species{n}=Parus+major" for n in range(9))
FOLD_SIDEBAR = "window.jupyterapp.commands.execute('application:toggle-left-area')"
TALLEST, UNFOLDED, WITH_REASON = 94, 480, 136


def defined_in_code(name):
    """A cell that defines the operation with a text that the user did not type as a cell."""
    return f"get_ipython().run_cell_magic('tract_operation', '{name} --ask', {COUNT.partition(chr(10))[2]!r})"


def height(element):
    return element.bounding_box()["height"]


def read_all(row):
    row.press("PageDown")
    while row.locator(".next").is_visible():
        row.press("PageDown")
        row.page.wait_for_timeout(350)  # a line counts after 0.3 s


@pytest.fixture(params=[("Light", 1000), ("Dark", 700)], ids=["light", "dark"])
def sized(request, open_lab):
    """A notebook with a width and a theme, without the file browser, and a name for its screenshots."""
    theme, width = request.param
    labs = []

    def opened(*cells):
        labs.append(open_lab(*cells, viewport=(width, 1100), reads=False))
        labs[0].page.evaluate(FOLD_SIDEBAR)
        labs[0].theme(f"JupyterLab {theme}")
        return labs[0], f"row-{theme.lower()}-{width}"

    yield opened
    for lab in labs:
        lab.page.evaluate(FOLD_SIDEBAR)


def test_a_question_has_three_lines(sized, screenshot):
    lab, name = sized(LOAD, COUNT, FIRE)
    lab.run_cell(0)
    lab.run_cell(1)
    row = lab.output(1).locator(".q")
    row.locator(".do > .primary[aria-disabled=false]").wait_for()  # the user typed the code in this cell
    assert height(row) <= TALLEST
    assert not poor_contrast(lab.output(1))
    screenshot(lab, f"{name}-definition", 1)
    top = lab.button("Activate", 1).bounding_box()
    row.locator(".unfold").click()
    assert height(row) <= UNFOLDED
    assert lab.button("Activate", 1).bounding_box() == top  # the buttons do not move
    row.focus()
    read_all(row)
    screenshot(lab, f"{name}-unfolded", 1)
    assert not poor_contrast(lab.output(1))
    lab.button("Activate", 1).click()
    lab.wait_output(1, "approved by")

    lab.run_cell(2)
    row = lab.output(2).locator(".q")
    lab.output(2).locator(".do > .primary.caution[aria-disabled=false]").wait_for()  # code is already read
    assert height(row) <= TALLEST
    screenshot(lab, f"{name}-fired", 2)
    lab.button("Reject…", 2).click()
    assert height(row) <= WITH_REASON
    lab.output(2).get_by_label("Reason", exact=True).fill("Keep the original.")
    screenshot(lab, f"{name}-reason", 2)
    lab.output(2).get_by_label("Reason", exact=True).press("Escape")
    lab.button("Always…", 2).click()
    screenshot(lab, f"{name}-always", 2)
    assert not poor_contrast(lab.output(2))
    lab.button("Cancel", 2).click()
    assert height(row) <= TALLEST


def test_a_call_is_changed_in_its_place(sized, screenshot):
    lab, name = sized(
        LOAD, TOOLS, "calls = [call(1, 'save_plot', path='figures/species.png', top=11)]\n" + ASK
    )
    lab.run_cell(0)
    lab.run_cell(1)
    lab.run_cell(2, wait=False)
    row = lab.output(2).locator(".q")
    lab.output(2).locator(".do > .primary[aria-disabled=false]").wait_for()  # all values are visible in full
    assert height(row) <= TALLEST
    assert not poor_contrast(lab.output(2))
    screenshot(lab, f"{name}-call", 2)
    lab.change(2, "top", "12")
    screenshot(lab, f"{name}-changed", 2)
    assert height(row) <= TALLEST
    lab.button("Run save_plot", 2).click()
    assert lab.wait_cell(2)
    assert "changed top: 11 → 12" in lab.text(2)


def test_the_page_title_does_not_count_requests_of_a_closed_notebook(open_lab):
    lab = open_lab(LOAD, COUNT)
    lab.run_cell(0)
    lab.run_cell(1)
    lab.page.wait_for_function("document.title.startsWith('(1) ')")
    lab.save()
    lab.page.evaluate("() => { window.jupyterapp.shell.currentWidget.close(); }")
    lab.page.wait_for_function("!document.title.startsWith('(')")


def test_by_keyboard_alone(open_lab, screenshot):
    lab = open_lab(
        LOAD, *map(defined_in_code, ("word_count", "other", "third")),
        viewport=(1000, 1500), reads=False,
    )  # fmt: skip
    for cell in range(4):
        lab.run_cell(cell)
    page, keys = lab.page, lab.page.keyboard
    first, second, third = (lab.output(cell).locator(".q") for cell in (1, 2, 3))
    page.wait_for_function("document.title.startsWith('(3) ')")
    first.focus()
    for key in ("a", "b", "d", "d", "x", "Enter", "y"):
        keys.press(key)  # notebook commands outside a row; none of them decides
    keys.press("ArrowRight")
    first.locator(".full").wait_for()
    keys.press("ArrowLeft")
    first.locator(".full").wait_for(state="hidden")
    keys.press("r")
    keys.type("abdd no")
    assert first.get_by_label("Reason", exact=True).input_value() == "abdd no"
    keys.press("Escape")
    first.and_(page.locator(":focus")).wait_for()
    keys.press("Control+Enter")  # unread, so it unfolds and decides nothing
    first.locator(".full").wait_for()
    read_all(first)
    first.focus()
    keys.press("Control+Enter")
    second.and_(page.locator(":focus")).wait_for()  # the row, not its button
    lab.wait_output(1, "approved by")
    page.wait_for_function("document.title.startsWith('(2) ')")
    keys.press("ArrowDown")
    third.and_(page.locator(":focus")).wait_for()
    keys.press("ArrowUp")
    second.and_(page.locator(":focus")).wait_for()
    screenshot(lab, "row-focus")
    keys.press("r")
    keys.type("later")
    keys.press("Enter")
    third.and_(page.locator(":focus")).wait_for()
    assert "later" in lab.wait_output(2, "rejected by")
    keys.press("r")
    keys.press("Enter")
    lab.wait_output(3, "rejected by")
    page.wait_for_function("!document.title.startsWith('(')")
    lab.output(3).locator(":focus").wait_for()  # there is no next request, so the focus is on its record
    assert page.locator(".jp-Notebook .jp-Cell").count() == 4


def hold(lab, *keys):
    """Hold keys down until the last one has repeated twenty times."""
    for key in keys[:-1]:
        lab.page.keyboard.down(key)
    for _ in range(20):
        lab.page.keyboard.down(keys[-1])  # all but the first are repetitions
        lab.page.wait_for_timeout(30)
    for key in keys:
        lab.page.keyboard.up(key)


@pytest.mark.parametrize("where", ["row", "button", "reason"])
def test_a_key_that_is_held_down_decides_once(open_lab, where):
    ask = f"calls = [call(n, 'save_plot', path=f'figures/{{n}}.png') for n in range(5)]\n{ASK}"
    lab = open_lab(LOAD, TOOLS, ask)
    lab.run_cell(0)
    lab.run_cell(1)
    lab.run_cell(2, wait=False)
    rows = lab.output(2).locator(".q")
    run = rows.locator("[data-action=approve]")
    run.nth(4).and_(lab.page.locator("[aria-disabled=false]")).wait_for()
    if where == "row":
        rows.first.focus()
        hold(lab, "Control", "Enter")
    elif where == "button":
        run.first.focus()
        hold(lab, "Enter")
    else:
        rows.first.focus()
        lab.page.keyboard.press("r")
        hold(lab, "Control", "Enter")
    lab.output(2).get_by_text("4 calls wait for your decision").wait_for()
    rows.nth(3).wait_for()
    assert rows.count() == 4
    lab.button("Run all (4)", 2).click()
    assert lab.wait_cell(2)


WHEN_IT_MOVES = """() => {
  const cell = document.querySelectorAll(".jp-Cell")[2], at = cell.offsetTop;
  let clicked = 0;
  document.addEventListener("pointerdown", () => { clicked = performance.now(); }, { once: true });
  const look = () => {
    if (cell.offsetTop < at) window.movedAfter = performance.now() - clicked; else requestAnimationFrame(look);
  };
  look();
}"""


def test_nothing_moves_for_a_second_after_a_click_and_then_the_gap_closes(open_lab):
    lab = open_lab(LOAD, COUNT, COUNT.replace("word_count", "other"))
    for cell in range(3):
        lab.run_cell(cell)
    first, second = lab.output(1).locator(".q"), lab.output(2).locator(".q")
    second.locator("[data-action=approve][aria-disabled=false]").wait_for()
    first.locator("[data-action=approve][aria-disabled=false]").wait_for()
    lab.page.evaluate("clearInterval(window.tractReader)")
    second.scroll_into_view_if_needed()
    lab.page.evaluate(WHEN_IT_MOVES)
    lab.button("Activate", 1).click()
    lab.wait_output(1, "approved by")  # the pointer does not move
    lab.page.wait_for_function("window.movedAfter")
    assert lab.page.evaluate("window.movedAfter") > 900
    record = lab.output(1).locator("[data-testid=tract-record]").bounding_box()
    assert height(lab.output(1)) < record["height"] + 40


def test_a_value_that_is_cut_is_not_on_display(open_lab, screenshot):
    ask = f"calls = [call(1, 'http_get', url={LONG_URL!r})]\n{ASK}"
    lab = open_lab(LOAD, TOOLS, ask, viewport=(900, 900), reads=False)
    lab.run_cell(0)
    lab.run_cell(1)
    lab.run_cell(2, wait=False)
    run, output = lab.button("Run http_get", 2), lab.output(2)
    output.get_by_text("A value is cut: unfold it first").wait_for()
    lab.page.wait_for_timeout(700)  # until the lines count as read
    assert run.get_attribute("aria-disabled") == "true"
    screenshot(lab, "row-cut", 2)
    run.dispatch_event("click")  # unfolds it
    output.locator(".full").wait_for()
    read_all(output.locator(".q"))
    output.locator("[data-approves][aria-disabled=false]").first.wait_for()
    run.click()
    assert lab.wait_cell(2)


def test_thirty_in_a_list(open_lab, screenshot):
    ask = f"calls = [call(n, 'save_plot', path=f'figures/{{n}}.png') for n in range(30)]\n{ASK}"
    lab = open_lab(LOAD, TOOLS, ask, "print(len(done))", viewport=(1300, 1500), reads=False)
    lab.run_cell(0)
    lab.run_cell(1)
    lab.run_cell(2, wait=False)
    questions = lab.output(2).locator("[data-testid=tract-questions]")
    questions.get_by_text("30 calls wait for your decision").wait_for()
    lab.output(2).locator(
        ".approve-all[aria-disabled=false], .q .primary[aria-disabled=false]"
    ).first.wait_for()
    for theme in lab.each_theme():
        assert height(questions) <= 1500
        assert not poor_contrast(lab.output(2))
        screenshot(lab, f"rows-thirty-{theme}", 2)
    run_all = questions.get_by_role("button", name="Run all (30)", exact=True)
    lab.page.evaluate("document.querySelectorAll('.q')[29].scrollIntoView()")
    lab.output(2).locator(".approve-all[aria-disabled=false]").wait_for()
    run_all.click()
    assert lab.wait_cell(2)
    lab.run_cell(3)
    assert lab.text(3) == "30\n"


def test_thirty_separate_requests_have_compact_rows(open_lab, screenshot):
    fire = "for n in range(30):\n    tract.fire('word_count', {'path': f'{n}.txt'})"
    lab = open_lab(LOAD, COUNT.replace("--ask", "--activate --ask"), fire, viewport=(1300, 1500), reads=False)
    for cell in range(3):
        lab.run_cell(cell)
    lab.output(2).locator(".q").nth(29).wait_for()
    lab.page.wait_for_function("document.querySelectorAll('.tract.many').length === 30")
    assert height(lab.output(2)) <= 1500
    screenshot(lab, "rows-thirty-alone", 2)
    assert lab.page.title().startswith("(30) ")


SCRIPT = """def model(messages, **options):
    if messages[-1]["role"] == "tool":
        return "Done."
    given = [{"code": code, "backend": "kernel", "notebook_id": "user"} for code in codes]
    return {"choices": [{"message": {"content": None, "tool_calls": [call(n, "notebook_execute", **one) for n, one in enumerate(given)]}}]}

tract.models.use(model)
tract.scripts.rehearsing.is_on = False
codes = [@]"""
ASK_FOR_A_SCRIPT = "%%tract_chat\nGo."


def ask_for_scripts(open_lab, *codes):
    lab = open_lab(
        LOAD,
        TOOLS,
        SCRIPT.replace("[@]", repr(list(codes))),
        ASK_FOR_A_SCRIPT,
        viewport=(1240, 1500),
        reads=False,
    )
    for cell in range(3):
        assert lab.run_cell(cell), lab.text(cell)
    lab.run_cell(3, wait=False)
    row = lab.output(3).locator(".q")
    row.wait_for()
    return lab, row


def test_short_code_is_on_display_at_once_and_changed_in_its_place(open_lab, screenshot):
    lab, row = ask_for_scripts(open_lab, "top = 3\nnames = ['a', 'b']\nprint(top, names)")
    row.locator("div.code[data-name]").wait_for()
    row.get_by_text("All 3 lines were shown").wait_for()  # nothing is unfolded
    row.locator(".do > .primary[aria-disabled=false]").wait_for()
    assert row.locator(".with").inner_text().startswith("No use of files")
    assert row.locator(".what > b").inner_text() == "Run a script"
    assert row.get_by_role("img", name="runs in your kernel").is_visible()
    screenshot(lab, "row-script", 3)
    lab.button("Change the code", 3).click()
    code = row.get_by_role("textbox", name="code")
    assert not row.locator("div.code[data-name]").is_visible()  # the code appears only once
    code.fill(code.input_value().replace("top = 3", "top = 5"))
    row.get_by_text("Code changed").wait_for()
    lines = row.locator(".editor > .code > div")
    assert lines.all_inner_texts() == ["1\ntop = 5", "2\nnames = ['a', 'b']", "3\nprint(top, names)"]
    assert lines.nth(1).locator(".s").all_inner_texts() == ["'a'", "'b'"]
    change = row.get_by_role("region", name="Your change")
    assert change.locator(".del, .add").all_inner_texts() == ["\u2212 1\ntop = 3", "+ 1\ntop = 5"]
    code.press("Home")
    code.press("Tab")
    assert code.input_value().splitlines()[-1] == "    print(top, names)"
    code.press("Shift+Tab")
    assert code.input_value().splitlines()[-1] == "print(top, names)"
    screenshot(lab, "row-script-changed", 3)
    assert code.evaluate("one => one.scrollHeight <= one.clientHeight + 1")
    assert row.locator(".scroll").evaluate("one => one.scrollHeight <= one.clientHeight + 1")
    assert not poor_contrast(lab.output(3))
    lab.button("Undo the change", 3).click()
    assert row.locator("div.code[data-name]").is_visible()
    lab.button("Change the code", 3).click()
    code.fill(code.input_value().replace("top = 3", "top = 7"))
    lab.button("Run", 3).click()
    assert lab.wait_cell(3)
    assert lab.execute("print(top)") == "7\n"
    done = lab.output(3).locator("details.row").first
    done.locator("summary").first.click()
    assert "top = 7" in done.locator(".diff .add").last.inner_text()


def test_long_code_is_folded_and_lines_scrolled_too_fast_count_as_unread(open_lab):
    lab, row = ask_for_scripts(open_lab, "\n".join(f"x{n} = {n}" for n in range(60)))
    row.get_by_text("Read 60 lines first").wait_for()
    assert height(row) <= TALLEST
    row.locator(".unfold").click()
    row.get_by_text("Read on: ").wait_for()
    row.locator(".scroll").evaluate(SWEEP)
    row.get_by_text("passed too fast").wait_for()
    assert row.locator("[data-after-reading]").get_attribute("aria-disabled") == "true"
    row.focus()
    read_all(row)
    row.get_by_text("All 60 lines were shown").wait_for()
    lab.button("Run", 3).click()
    assert lab.wait_cell(3)


SWEEP = """async box => {
  for (; box.scrollTop + box.clientHeight < box.scrollHeight - 1; box.scrollTop += 60)
    for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame);
}"""
"""Scrolls to the end faster than a user can read."""
