"""The inbox by keyboard alone, in a real JupyterLab."""

LOAD = "%load_ext tract_jupyter"
NOTE = '''%%tract_operation note --activate --ask
"""Add a line to a file."""
text: str

def add(pending):
    """Add it."""
    pending.approve()
'''
FIRE = """\
for number in range(30):
    tract.reviewer.keep(tract.fire("note", {"text": f"line {number}"}, review=True))
"""
OUTCOME = "print([(d.action, d.channel) for d in tract.review.decisions(limit=100)].__len__(), len(tract.review.inbox()))"
REASONS = "print(sum(d.reason == 'abdd no' for d in tract.review.decisions(limit=100)))"


def test_thirty_are_decided_by_keyboard_alone(open_lab, screenshot):
    lab = open_lab(LOAD, NOTE, FIRE, "%tract inbox", OUTCOME, REASONS, viewport=(1000, 1100))
    for cell in range(4):
        lab.run_cell(cell)
    board, keys = lab.output(3).locator("[data-testid=tract-batch]"), lab.page.keyboard
    board.get_by_text("1 to 20 of 30").wait_for()
    board.get_by_role("checkbox").nth(1).focus()
    keys.press("ArrowRight")  # what would run is the same for all of them: it is read once
    board.locator(".tract-code").first.wait_for()
    screenshot(lab, "inbox-keys-begin")
    keys.press("d")
    keys.press("d")  # deletes the cell elsewhere
    keys.press("a")
    decided = 0
    while decided < 30:
        if decided == 20:
            board.get_by_text("all decided on this page").wait_for()
            lab.button("Next page", 3).and_(lab.page.locator(":focus")).wait_for()
            keys.press("Enter")
            board.get_by_text("21 to 30 of 30").wait_for()
            keys.press("ArrowDown")  # into the list
        row = board.locator(".tract-row").nth(decided % 20)
        row.locator(":focus").wait_for()  # it went on to the next one by itself
        if decided % 3 == 2:
            keys.press("r")
            board.locator("input[name=reason]:focus").wait_for()
            keys.type("abdd no")
            keys.press("Enter")
        else:
            read_by_keys(lab, row)
            keys.press("Control+Enter")
        decided += 1
        if decided < 30:
            board.get_by_text(f"Inbox: {30 - decided} waiting, {decided} decided").wait_for()
        if decided in (1, 19, 20):
            screenshot(lab, f"inbox-keys-{decided}")
    lab.output(3).locator("[data-testid=tract-batch-record]").wait_for()
    screenshot(lab, "inbox-keys-end")
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == 6
    lab.run_cell(4)
    assert lab.text(4) == "30 0\n"
    lab.run_cell(5)
    assert lab.text(5) == "10\n"


def read_by_keys(lab, row):
    """Read on until all of a row was on display."""
    for _ in range(50):
        if row.evaluate(
            "row => [...row.querySelectorAll('[data-line]')].every((part) => part.dataset.line.split(' ').every((key) => !key || globalThis.tractSeen.has(key)))"
        ):
            return
        lab.page.keyboard.press("PageDown")
        lab.page.wait_for_timeout(350)  # a line counts after 0.3 s
    raise AssertionError("it cannot be read to the end")


def test_keys_in_an_output_without_a_script_are_no_commands_of_the_notebook(open_lab):
    lab = open_lab(LOAD, "%tract_check os.system(name)", "1")
    for cell in range(2):
        lab.run_cell(cell)
    lab.output(1).locator("summary").first.focus()
    for key in "ddabx":
        lab.page.keyboard.press(key)
    lab.page.keyboard.press("Enter")  # it unfolds what has the focus
    lab.output(1).locator("details[open]").first.wait_for()
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == 3
