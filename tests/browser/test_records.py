"""Records of decisions in a real JupyterLab: one line that unfolds to the whole record, without a script."""

from tests.browser.contrast import poor_contrast

LOAD = "%load_ext tract_jupyter"
NOTE = '''%%tract_operation note --activate --ask
"""Add a line to a file."""
text: str
count: int = 3

def add(pending):
    """Add it."""
    pending.approve()
'''
FIRE = """\
for number in range(30):
    pending = tract.fire("note", {"text": f"line {number}"}, review=True)
    tract.reviewer.show(pending)
    if number % 5 == 2:
        pending.reject("It is there already.")
    elif number % 5 == 3:
        pending.approve()
    else:
        pending.add()
"""
RISKY = '''%%tract_operation word_count
"""Count the words, and write the number down."""
path: str = "count.txt"

def count(pending, at_least: int = 1):
    """Count, and write the number down."""
    import subprocess
    words = str(pending.tract.compile().to_dicts()).split()
    if len(words) < at_least:
        pending.reject(f'only {len(words)} words, which is much less than what it takes to be worth counting at all, so go on')
    else:
        open(pending.fields['path'], 'w').write(str(len(words)))
        subprocess.run(['notify-send', 'counted'])
    pending.approve()
'''
HEIGHT = "cell => cell.getBoundingClientRect().height"


def test_the_record_of_each_decision_is_one_line_that_unfolds(open_lab, screenshot):
    lab = open_lab(LOAD, NOTE, FIRE, RISKY, viewport=(1000, 1600))
    for cell in range(4):
        lab.run_cell(cell)
    output = lab.output(2)
    records = output.locator("[data-testid=tract-record]")
    records.nth(29).wait_for()
    assert records.count() == 30
    for theme in lab.each_theme():
        assert output.evaluate(HEIGHT) <= 1500
        assert not poor_contrast(output)
        screenshot(lab, f"records-{theme}", 2)

    records.nth(2).locator("summary").first.click()
    assert records.nth(2).get_by_text("It is there already.").count() == 3
    lab.output(3).locator(".q").evaluate("row => row.scrollIntoView({ block: 'end' })")
    lab.button("Activate", 3).click()
    record = lab.output(3).locator("[data-testid=tract-record]")
    record.wait_for()
    record.locator("summary").first.focus()
    lab.page.keyboard.press("Enter")  # works without a script, and runs no notebook command
    record.locator(".findings > summary").click()
    record.locator(".rule > summary").first.click()
    for theme in lab.each_theme():
        assert not poor_contrast(lab.output(3))
        screenshot(lab, f"record-open-{theme}", 3)
    assert record.evaluate(
        "row => [...row.querySelectorAll('.code, .code *')].every((one) => one.scrollWidth <= one.clientWidth + 1 || getComputedStyle(one).display === 'inline')"
    )
    lab.page.set_viewport_size({"width": 700, "height": 1600})
    for theme in lab.each_theme():
        screenshot(lab, f"record-open-700-{theme}", 3)


def test_a_saved_record_is_small_and_complete_without_a_kernel(open_lab):
    lab = open_lab(LOAD, NOTE, FIRE)
    for cell in range(3):
        lab.run_cell(cell)
    lab.output(2).locator("[data-testid=tract-record]").nth(29).wait_for()
    saved = lab.save()
    for output in saved.cells[2].outputs:
        html = output.data["text/html"]
        style = html[: html.index("</style>")]
        assert len(style) <= 6_000
    lab.reopen()
    record = lab.output(2).locator("[data-testid=tract-record]").nth(1)
    assert record.locator("summary").first.inner_text().startswith(("Ran", "done"))
    record.locator("summary").first.click()
    assert record.get_by_text("'line 1'").last.is_visible()
