"""The inbox by keyboard alone, in a real JupyterLab."""

from tests.browser.contrast import poor_contrast

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


MAIL = """\
for number in range(2):
    tract.reviewer.keep(tract.fire("mail", {"to": "x" * 300 + str(number)}, review=True))
"""
MAIL_OPERATION = NOTE.replace("note", "mail").replace("text: str", "to: str")


class Person:
    """A user at the keyboard: one key every 0.35 s, the time that a line must be visible to count.

    Attributes:
        keys: the number of pressed keys.
    """

    def __init__(self, lab, board):
        self.keys = 0
        self._lab, self._board = lab, board

    def press(self, *names):
        for name in names:
            self._lab.page.keyboard.press(name)
            self._lab.page.wait_for_timeout(350)
            self.keys += 1

    def type(self, text):
        self._lab.page.keyboard.type(text)
        self.keys += len(text)

    @property
    def seconds(self):
        return 0.35 * self.keys

    def read(self):
        """Press Page Down until the approve button is enabled."""
        for _ in range(60):
            held = self._board.locator(".approve-all[aria-disabled=true]")
            if not held.count():
                return
            self.press("PageDown")
        raise AssertionError("it cannot be read to the end")


def test_thirty_are_decided_by_keyboard_alone(open_lab, screenshot):
    lab = open_lab(
        LOAD,
        NOTE,
        MAIL_OPERATION,
        FIRE + MAIL,
        "%tract inbox",
        OUTCOME,
        REASONS,
        viewport=(1000, 900),
        reads=False,
    )
    for cell in range(5):
        lab.run_cell(cell)
    board = lab.output(4).locator("[data-testid=tract-batch]")
    board.get_by_text("Inbox: 32 waiting").wait_for()
    for theme in lab.each_theme():
        assert board.evaluate("one => one.getBoundingClientRect().height") <= 600
        assert not poor_contrast(board)
        screenshot(lab, f"inbox-{theme}", 4)
    person = Person(lab, board)
    board.locator("input.kind").focus()
    for key in "dda":  # deletes the cell if the focus is elsewhere
        lab.page.keyboard.press(key)
    person.press("ArrowRight")  # all requests have the same code, so the user reads it once
    person.press("ArrowDown", "ArrowDown", "Shift+ArrowDown", "Shift+ArrowDown")
    board.get_by_text("3 selected", exact=True).wait_for()
    for theme in lab.each_theme():
        screenshot(lab, f"inbox-selected-{theme}", 4)
    person.press("r")
    board.locator("input[name=reason]:focus").wait_for()
    person.type("abdd no")
    person.press("Enter")
    board.get_by_text("Inbox: 29 waiting, 3 decided").wait_for()
    board.locator("input:focus").wait_for()  # the focus moved to the next request
    person.press("ArrowUp", "ArrowUp", "ArrowUp")
    board.locator("input.kind").focus()
    person.press("Space")
    board.get_by_text("27 selected", exact=True).wait_for()
    person.press("ArrowRight")
    person.read()
    for theme in lab.each_theme():
        screenshot(lab, f"inbox-read-{theme}", 4)
        assert not poor_contrast(board)
    person.press("Control+Enter")
    board.get_by_text("Inbox: 2 waiting, 30 decided").wait_for()
    for left in (1, 0):  # their values are cut: the button is Read, and the user reads all of it
        board.get_by_role("button", name="Read", exact=False).first.wait_for()
        person.press("ArrowRight", "Space")
        person.read()
        person.press("Control+Enter")
        if left:
            board.get_by_text("Inbox: 1 waiting, 31 decided").wait_for()
    lab.output(4).locator("[data-testid=tract-batch-record]").wait_for()
    for theme in lab.each_theme():
        assert lab.output(4).evaluate("one => one.getBoundingClientRect().height") <= 1500
        screenshot(lab, f"inbox-end-{theme}", 4)
    assert person.seconds <= 60
    print(f"32 questions: {person.keys} keys, {person.seconds:.0f} s")
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == 7
    lab.run_cell(5)
    assert lab.text(5) == "32 0\n"
    lab.run_cell(6)
    assert lab.text(6) == "3\n"


ALL_SEEN = """[...document.querySelector('[data-testid=tract-batch] .item').querySelectorAll('[data-line]')]
  .every(line => line.dataset.line.split(' ').filter(Boolean).every(key => globalThis.tractSeen.has(key)))"""


def test_a_key_that_is_held_down_decides_once(open_lab):
    fire = 'for to in ("Ada", "Bo", "Cy"):\n    tract.reviewer.keep(tract.fire(f"to_{to}", {"text": to}, review=True))'
    lab = open_lab(
        LOAD, *(NOTE.replace("note", f"to_{to}") for to in ("Ada", "Bo", "Cy")), fire, "%tract inbox"
    )
    for cell in range(6):
        lab.run_cell(cell)
    board = lab.output(5).locator("[data-testid=tract-batch]")
    boxes = board.locator(".select")
    for number in range(3):  # the unfolded part must be read too
        board.locator(".fold").nth(number).click()
    board.locator(".item .act", has_text="Run").nth(2).wait_for()
    lab.page.wait_for_function(ALL_SEEN)
    boxes.first.focus()
    lab.page.keyboard.down("Control")
    for _ in range(20):
        lab.page.keyboard.down("Enter")  # all but the first are repetitions
        lab.page.wait_for_timeout(30)
    lab.page.keyboard.up("Enter")
    lab.page.keyboard.up("Control")
    board.get_by_text("Inbox: 2 waiting, 1 decided").wait_for()
    lab.page.wait_for_timeout(300)
    assert board.get_by_text("Inbox: 2 waiting, 1 decided").is_visible()


def test_keys_in_a_static_output_do_not_run_notebook_commands(open_lab):
    lab = open_lab(LOAD, "%tract_check os.system(name)", "1")
    for cell in range(2):
        lab.run_cell(cell)
    lab.output(1).locator("summary").first.focus()
    for key in "ddabx":
        lab.page.keyboard.press(key)
    lab.page.keyboard.press("Enter")  # it unfolds the focused row
    lab.output(1).locator("details[open]").first.wait_for()
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == 3
