"""Actions on a request other than approving and rejecting, in a real JupyterLab."""

import pytest

from tests.browser.contrast import poor_contrast

LOAD = "%load_ext tract_jupyter"
DEPLOY = '''%%tract_operation deploy --activate --ask
"""Put it into production."""
target: Annotated[str, "Where to"]
replicas: int = 2
regions: list[str] = []
dry: bool = False

def ship(pending, force: bool = False):
    """Ship it."""
    import os
    os.environ["SHIPPED"] = pending.fields["target"]
    pending.approve()
'''
WRITE = '''%%tract_operation note --activate --ask
"""Add a line to a file."""
text: str

def add(pending):
    """Add it."""
    with open("effects.txt", "a") as file:
        file.write(pending.fields["text"] + "\\n")
    pending.approve()
'''
SHARED = "get_ipython().config.TractJupyter.store = '../0/.tract/notebook.db'\n" + LOAD


@pytest.fixture(params=["JupyterLab Light", "JupyterLab Dark"], ids=["light", "dark"])
def theme(request):
    return request.param


def approve(lab, cell):
    """Click the approve button of a panel without changes."""
    lab.button("Approve without running", cell).click()


def test_change_a_value_and_approve(open_lab, screenshot, theme, request):
    lab = open_lab(
        LOAD, DEPLOY, "p = %tract_fire deploy target=prod", "print(p.status, p.fields)", viewport=(1000, 1500)
    )
    lab.theme(theme)
    for cell in range(3):
        lab.run_cell(cell)
    output = lab.output(2)
    lab.change(2, "replicas", "12345678901234567891")
    lab.change(2, "regions", '["eu", 7]')
    output.get_by_text("2 values changed").wait_for()
    screenshot(lab, f"review-edit-{request.node.callspec.id}", 2)
    lab.button("Run ship", 2).click()
    output.get_by_role("alert").get_by_text(
        "should be a valid string"
    ).wait_for()  # the kernel reports the invalid value
    assert output.locator(".edits").get_by_label("regions", exact=True).input_value() == '["eu", 7]'
    screenshot(lab, f"review-edit-refused-{request.node.callspec.id}", 2)
    lab.change(2, "regions", '["eu"]')
    lab.button("Run ship", 2).click()
    text = lab.wait_output(2, "ship chosen by")
    assert "changed replicas: 2 → 12345678901234567891" in text
    assert "changed regions: [] → ['eu']" in text
    assert "changed target" not in text
    screenshot(lab, f"review-edited-{request.node.callspec.id}", 2)
    lab.run_cell(3)
    fields = {"target": "prod", "replicas": 12345678901234567891, "regions": ["eu"], "dry": False}
    assert lab.text(3) == f"approved {fields}\n"


def test_a_standing_approval_covers_only_values_that_match_its_pattern(open_lab, screenshot, theme, request):
    lab = open_lab(
        LOAD, DEPLOY, "p = %tract_fire deploy target='prod/a'", "p = %tract_fire deploy target='prod/b'\nprint(p.status)",
        "p = %tract_fire deploy target='prod/b/c'\nprint(p.status)", "%tract grants", viewport=(1000, 1500),
    )  # fmt: skip
    lab.theme(theme)
    for cell in range(3):
        lab.run_cell(cell)
    output = lab.output(2)
    lab.button("Always…", 2).click()
    output.get_by_label("How long").select_option("session")
    output.get_by_label("For the next").fill("03")
    output.get_by_label("For whom").select_option("anybody")
    output.get_by_role("combobox", name="target", exact=True).select_option("pattern")
    output.get_by_label("Pattern for target").fill("prod/*")
    screenshot(lab, f"review-standing-{request.node.callspec.id}", 2)
    lab.button("Run ship, and don\u2019t ask again", 2).click()
    text = lab.wait_output(2, "ship chosen by")
    assert "Not asked again in this session, for the next 3: target: prod/*" in text
    assert "; for anybody. %tract grants" in text
    screenshot(lab, f"review-stands-{request.node.callspec.id}", 2)
    lab.run_cell(3)
    assert lab.text(3) == "approved\n"
    lab.run_cell(4)
    assert "pending\n" in lab.text(4)  # '*' does not match a slash
    lab.run_cell(5)
    assert "1 of 3" in lab.text(5)
    assert "anybody" in lab.text(5)
    screenshot(lab, f"review-grants-{request.node.callspec.id}", 5)


FIRE = """\
for text in ("one", "two", "three"):
    tract.fire("note", {"text": text})
"""
PROPOSE = """%%tract_operation --json
{"name": "sweep", "description": "Clean up", "actions": {"go": {"description": "Go", "code": "import os\\nos.system('true')"}}}
"""


def test_a_value_that_the_kernel_cannot_read_leaves_the_panel_usable(open_lab):
    lab = open_lab(LOAD, DEPLOY, "p = %tract_fire deploy target=prod", "print(p.status, p.fields['regions'])")
    for cell in range(3):
        lab.run_cell(cell)
    regions = lab.output(2).locator(".edits").get_by_label("regions", exact=True)
    lab.change(2, "regions", f"[{'1' * 5_000}]")  # valid JSON, but more digits than Python accepts
    for _ in range(2):
        approve(lab, 2)
        lab.output(2).get_by_role("alert").get_by_text("Nothing was decided").wait_for()
        assert regions.evaluate("control => !control.disabled")
    assert len(regions.input_value()) == 5_002
    lab.change(2, "regions", '["eu"]')
    approve(lab, 2)
    lab.wait_output(2, "approved by")
    lab.run_cell(3)
    assert lab.text(3) == "approved ['eu']\n"


def test_several_are_decided_in_one_panel(open_lab, screenshot, theme, request):
    width = 1000 if theme.endswith("Light") else 640
    lab = open_lab(LOAD, WRITE, FIRE, PROPOSE, "%tract inbox", "%tract inbox", viewport=(width, 1500))
    lab.theme(theme)
    for cell in range(5):
        lab.run_cell(cell)
    board = lab.output(4).locator("[data-testid=tract-batch]")
    rows, cells = board.locator(".item"), board.locator(".same > label")
    assert (rows.count(), cells.count()) == (2, 3)  # three requests that differ only in a value
    sweep = board.get_by_role("checkbox", name="Activate sweep")
    assert sweep.is_disabled()  # its code is unread
    assert "critical" in rows.nth(1).inner_text()
    screenshot(lab, f"review-inbox-{request.node.callspec.id}", 4)
    for number in (0, 1):
        cells.nth(number).get_by_role("checkbox").check()
    rows.nth(0).locator(".fold").click()
    rows.nth(0).locator(".fold").click()
    lab.button("Run 2 × note", 4).click()
    board.locator(".same > label[data-status=approved]").nth(1).wait_for()
    lab.wait_output(4, "Inbox: 2 of 4 decided")  # a separate message, after the messages of the rows
    saved = next(o["data"] for o in lab.outputs(4) if "application/vnd.jupyter.widget-view+json" in o["data"])
    assert "Inbox: 2 of 4 decided" in str(saved["text/html"])  # the text for other programs
    cells.nth(2).get_by_role("checkbox").check()
    rows.nth(1).locator(".fold").click()
    assert "os.system" in rows.nth(1).locator(".code").first.inner_text()
    sweep.check()
    lab.button("Reject 2…", 4).click()
    board.get_by_label("Reason").fill("not <b>now</b>")
    assert not poor_contrast(board)
    screenshot(lab, f"review-inbox-half-{request.node.callspec.id}", 4)
    lab.button("Reject 2", 4).click()
    lab.output(4).locator("[data-testid=tract-batch-record]").wait_for()  # all are decided
    text = lab.wait_output(4, "Inbox: 4 of 4 decided")
    assert text.count("add chosen by") == 2
    assert text.count("not <b>now</b>") == 2
    screenshot(lab, f"review-inbox-record-{request.node.callspec.id}", 4)
    records = lab.output(2).locator("[data-testid=tract-record]")
    records.nth(2).wait_for()  # their own panels show it too
    assert records.count() == 3
    lab.run_cell(5)
    assert "No requests need a decision" in lab.text(5)


def test_another_notebook_can_decide_the_request_that_a_cell_awaits(open_lab, screenshot):
    first = open_lab(
        LOAD,
        WRITE,
        "p = %tract_fire note text=there\nawait p\nprint('after', p.status)",
        "p.add()",
        "print(open('effects.txt').read())",
    )
    first.run_cell(0)
    first.run_cell(1)
    first.run_cell(2, wait=False)
    first.button("Approve without running", 2).wait_for()
    other = open_lab(SHARED, "%tract inbox", "%tract inbox")
    other.run_cell(0)
    other.run_cell(1)
    other.output(1).get_by_text("which executes the decision").wait_for(state="attached")
    screenshot(other, "review-elsewhere", 1)
    other.button("Run add", 1).click()
    other.wait_output(1, "add chosen by")
    assert first.wait_cell(2)
    assert "after approved" in first.text(2)
    assert "In another process: " in first.text(2)
    screenshot(first, "review-decided-elsewhere", 2)
    first.run_cell(4)
    assert first.text(4) == "there\n\n"
    other.run_cell(2)
    assert "No requests need a decision" in other.text(2)


def test_a_new_kernel_can_decide_the_request_of_the_old_kernel(open_lab, screenshot):
    lab = open_lab(
        LOAD,
        WRITE,
        "p = %tract_fire note text=once",
        LOAD + "\n%tract inbox",
        "print(open('effects.txt').read())",
        viewport=(1000, 1500),
    )
    for cell in range(3):
        lab.run_cell(cell)
    lab.button("Run add", 2).wait_for()
    lab.restart()
    lab.output(2).get_by_role("alert").get_by_text("run %tract inbox in a new kernel").wait_for()
    assert lab.output(2).locator(".do").get_by_role("button").all_inner_texts() == ["Details"]
    screenshot(lab, "review-lost", 2)
    lab.run_cell(3)
    lab.button("Run add", 3).click()
    lab.wait_output(3, "add chosen by")
    lab.run_cell(4)
    assert lab.text(4) == "once\n\n"
    assert "lost its kernel" in lab.output(2).get_by_role("alert").inner_text()
    screenshot(lab, "review-new-kernel", 3)


def test_an_inbox_that_has_lost_its_kernel_offers_nothing(open_lab, screenshot):
    lab = open_lab(LOAD, WRITE, FIRE, "%tract inbox")
    for cell in range(4):
        lab.run_cell(cell)
    board = lab.output(3).locator("[data-testid=tract-batch]")
    board.locator("input:enabled").first.wait_for()
    lab.restart()
    board.get_by_role("alert").get_by_text("run %tract inbox in a new kernel").wait_for()
    assert board.locator("input:enabled, .bulk, form, .keys:visible").count() == 0
    assert board.get_by_role("button", name="Reject…").count() == 0
    assert "waiting" in board.get_by_role("heading").first.inner_text()  # they are still pending in the store
    screenshot(lab, "inbox-lost", 3)


PAGES_OF_TWO = "import tract_jupyter.notebook.panels.inbox\ntract_jupyter.notebook.panels.inbox.PAGE = 2\n"


def test_pages_by_keyboard_alone(open_lab, screenshot):
    fire = FIRE.replace('"three"', '"three", "four", "five"')
    lab = open_lab(LOAD, WRITE, PAGES_OF_TWO + fire, "%tract inbox", "len(tract.review.inbox())")
    for cell in range(4):
        lab.run_cell(cell)
    board = lab.output(3).locator("[data-testid=tract-batch]")
    board.get_by_text("1 to 2 of 5").wait_for()
    assert lab.output(3).get_by_role("group", name="Inbox: 5 waiting").count() == 1
    first = board.locator(".same input").first
    first.focus()
    lab.page.keyboard.press("Space")  # selects the first request
    lab.page.keyboard.press("ArrowRight")  # unfolds it
    board.locator(".code").first.wait_for()
    lab.button("Next page", 3).focus()
    for place in ("3 to 4 of 5", "5 to 5 of 5"):
        lab.page.keyboard.press("Enter")  # the focus stays on the button
        board.get_by_text(place).wait_for()
    assert board.get_by_role("checkbox", name="Operation note runs in your kernel", exact=True).count() == 1
    lab.button("Previous page", 3).focus()  # there is no next page, so the focus was on the badge
    for place in ("3 to 4 of 5", "1 to 2 of 5"):
        lab.page.keyboard.press("Enter")
        board.get_by_text(place).wait_for()
    assert first.is_checked()  # the selection stays
    assert board.locator(".code").first.is_visible()
    lab.button("Reject 1…", 3).click()
    lab.page.keyboard.type("abdd no")  # outside a panel, single keys are notebook commands
    lab.page.keyboard.press("Enter")
    board.locator("label[data-status=rejected]").wait_for()
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == 5
    screenshot(lab, "review-pages", 3)
    lab.run_cell(4)
    assert lab.text(4).splitlines()[0] == "4"


def test_a_reason_is_typed_on_while_something_else_is_decided(open_lab, screenshot):
    lab = open_lab(LOAD, WRITE, FIRE, "%tract inbox")
    for cell in range(4):
        lab.run_cell(cell)
    board = lab.output(3).locator("[data-testid=tract-batch]")
    board.locator(".same input").nth(2).check()
    lab.button("Reject 1…", 3).click()
    lab.page.keyboard.type("abcd no")
    for _ in " no":
        lab.page.keyboard.press("ArrowLeft")
    first = lab.output(2).locator("[data-testid=tract-panel]").first
    first.locator("[data-approves][aria-disabled=false]").first.wait_for()
    board.evaluate("board => { board.dataset.earlier = true; }")
    first.get_by_role("button", name="Approve without running").dispatch_event(
        "click", {"detail": 1}
    )  # does not move the focus
    lab.output(3).locator("[data-testid=tract-batch]:not([data-earlier])").wait_for()  # after a redraw
    board.locator("input[name=reason]:focus").wait_for()
    lab.page.keyboard.type("dd")
    screenshot(lab, "review-typing", 3)
    lab.page.keyboard.press("Enter")
    board.locator('label[data-status=rejected][title*="abcddd no"]').wait_for()
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == 4
